// Package macpkg writes macOS installer packages (a xar archive of
// Distribution, PackageInfo, Bom, Payload and Scripts) without Apple's tools,
// byte-reproducible and unsigned: productsign signs on a Mac. It knows the
// formats, not what goes into a package.
package macpkg

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"
)

// File is an entry of a package's payload or scripts: a regular file, a
// folder (Dir) or a symbolic link (Link is its target).
type File struct {
	Path string // slash-separated, relative: "usr/local/bin/x"
	Mode uint16 // permission bits
	Data []byte
	Dir  bool
	Link string
}

// Types of files in a mode.
const (
	modeDir  = 0o040000
	modeFile = 0o100000
	modeLink = 0o120000
)

func (f File) mode() uint16 {
	switch {
	case f.Dir:
		return modeDir | f.Mode
	case f.Link != "":
		return modeLink | 0o755
	}
	return modeFile | f.Mode
}

func (f File) content() []byte {
	if f.Link != "" {
		return []byte(f.Link)
	}
	return f.Data
}

// complete adds the root and every folder that is not named, 0755, and sorts
// breadth first, as a Bom's ids run.
func complete(files []File) []File {
	all := map[string]File{".": {Path: ".", Mode: 0o755, Dir: true}}
	for _, f := range files {
		f.Path = path.Clean(f.Path)
		all[f.Path] = f
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if _, there := all[dir]; !there {
				all[dir] = File{Path: dir, Mode: 0o755, Dir: true}
			}
		}
	}
	list := make([]File, 0, len(all))
	for _, f := range all {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b File) int {
		return cmp.Or(cmp.Compare(depth(a.Path), depth(b.Path)), strings.Compare(a.Path, b.Path))
	})
	return list
}

func depth(p string) int {
	if p == "." {
		return 0
	}
	return 1 + strings.Count(p, "/")
}

// Package is what Write puts together.
type Package struct {
	Identifier string
	Version    string
	Title      string
	Files      []File // below /
	Scripts    []File // preinstall, postinstall
	Bundles    []Bundle
	MinOS      string
	Time       time.Time
}

// Bundle is an application in the payload that the receipt names, for MDMs
// that look for one.
type Bundle struct {
	Path, Identifier, Version string
}
