package installer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// Op is one change to a file system, as a plan prints it and as apply did it.
type Op struct {
	Verb   string `json:"verb"` // mkdir, write, chmod, rename, remove
	Path   string `json:"path"`
	To     string `json:"to,omitempty"`     // rename
	Perm   string `json:"perm,omitempty"`   // octal
	Bytes  int    `json:"bytes,omitempty"`  // write
	SHA256 string `json:"sha256,omitempty"` // write: first 16 digits
}

// String is the line that a plan shows.
func (o Op) String() string {
	switch o.Verb {
	case "write":
		return fmt.Sprintf("write %s (%d bytes, mode %s, sha256 %s)", o.Path, o.Bytes, o.Perm, o.SHA256)
	case "rename":
		return fmt.Sprintf("rename %s to %s", o.Path, o.To)
	case "mkdir", "chmod":
		return fmt.Sprintf("%s %s (mode %s)", o.Verb, o.Path, o.Perm)
	}
	return o.Verb + " " + o.Path
}

// recorder notes every change. With dry set it makes none but shows its effect
// to later looks, so a dry run and the real one take the same way through the
// engine and print the same list.
type recorder struct {
	System
	dry  bool
	ops  []Op
	seen map[string]*Info // dry: what became of a path; nil: gone
}

func newRecorder(sys System, dry bool) *recorder {
	return &recorder{System: sys, dry: dry, seen: map[string]*Info{}}
}

// do makes one change, or in a dry run only notes what it would leave: at
// o.Path, nil for nothing.
func (r *recorder) do(o Op, leaves *Info, f func() error) error {
	for _, path := range []string{o.Path, o.To} {
		if err := r.may(o.Verb, path); err != nil {
			return err
		}
	}
	if r.dry {
		r.seen[o.Path] = leaves
	} else if err := f(); err != nil {
		return err
	}
	r.ops = append(r.ops, o)
	return nil
}

// may is asked in both runs: so a plan fails where apply would, and names the
// cause, which the error of the change itself often doesn't. What a dry run
// would have made or moved isn't there to be asked.
func (r *recorder) may(verb, path string) error {
	if path == "" {
		return nil
	}
	corrected := false
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if i, ok := r.seen[dir]; ok {
			if was, err := r.System.Lstat(dir); i == nil || err != nil || was.Type != fs.ModeDir {
				return nil
			}
			corrected = true // its owner or mode
		}
	}
	err := r.System.May(verb, path)
	if corrected && (errors.Is(err, safefile.ErrMode) || errors.Is(err, safefile.ErrOwner)) {
		return nil
	}
	return err
}

// Lstat implements System.
func (r *recorder) Lstat(path string) (Info, error) {
	if i, ok := r.seen[path]; ok {
		if i == nil {
			return Info{}, fail("lstat", path, fs.ErrNotExist)
		}
		return *i, nil
	}
	return r.System.Lstat(path)
}

// Names implements System.
func (r *recorder) Names(dir string) ([]string, error) {
	names, err := r.System.Names(dir)
	if i := r.seen[dir]; i != nil && i.Type == fs.ModeDir {
		err = nil // only just made
	}
	for path, i := range r.seen {
		if filepath.Dir(path) != dir {
			continue
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n == filepath.Base(path) })
		if i != nil {
			names = append(names, filepath.Base(path))
		}
	}
	return names, err
}

func octal(m fs.FileMode) string { return fmt.Sprintf("%04o", m.Perm()) }

func (r *recorder) Mkdir(path string, a safefile.Attr) error {
	i := &Info{Type: fs.ModeDir, Perm: a.Perm, UID: a.UID, GID: a.GID, Links: 1}
	return r.do(Op{Verb: "mkdir", Path: path, Perm: octal(a.Perm)}, i, func() error { return r.System.Mkdir(path, a) })
}

func (r *recorder) WriteFile(path string, data []byte, a safefile.Attr) error {
	if i, err := r.Lstat(path); err == nil && i.Type == fs.ModeDir { // in both runs alike
		return fail("write", path, safefile.ErrNotRegular)
	}
	sum := sha256.Sum256(data)
	o := Op{Verb: "write", Path: path, Perm: octal(a.Perm), Bytes: len(data), SHA256: hex.EncodeToString(sum[:8])}
	i := &Info{Perm: a.Perm, UID: a.UID, GID: a.GID, Links: 1, Size: int64(len(data))}
	return r.do(o, i, func() error { return r.System.WriteFile(path, data, a) })
}

func (r *recorder) SetAttr(path string, a safefile.Attr) error {
	i, err := r.Lstat(path)
	if err != nil {
		return err
	}
	i.Perm = a.Perm
	return r.do(Op{Verb: "chmod", Path: path, Perm: octal(a.Perm)}, &i, func() error { return r.System.SetAttr(path, a) })
}

func (r *recorder) Rename(from, to string) error {
	i, err := r.Lstat(from)
	if err != nil {
		return err
	}
	err = r.do(Op{Verb: "rename", Path: from, To: to}, nil, func() error { return r.System.Rename(from, to) })
	if err == nil && r.dry {
		r.seen[to] = &i
	}
	return err
}

func (r *recorder) Remove(path string) error {
	return r.do(Op{Verb: "remove", Path: path}, nil, func() error { return r.System.Remove(path) })
}

// Exec in a dry run tells only that the program would be run, as a success:
// what it would find out shows when it is done for real.
func (r *recorder) Exec(ctx context.Context, c Command) (Output, error) {
	if r.dry {
		return Output{}, nil
	}
	return r.System.Exec(ctx, c)
}
