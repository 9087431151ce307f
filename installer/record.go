package installer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

func (r *recorder) do(o Op, f func() error) error {
	if !r.dry {
		if err := f(); err != nil {
			return err
		}
	}
	r.ops = append(r.ops, o)
	return nil
}

// note remembers what a dry run would have left at path.
func (r *recorder) note(path string, i *Info) {
	if r.dry {
		r.seen[path] = i
	}
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
	r.note(path, &Info{Type: fs.ModeDir, Perm: a.Perm, UID: a.UID, GID: a.GID, Links: 1})
	return r.do(Op{Verb: "mkdir", Path: path, Perm: octal(a.Perm)}, func() error { return r.System.Mkdir(path, a) })
}

func (r *recorder) WriteFile(path string, data []byte, a safefile.Attr) error {
	sum := sha256.Sum256(data)
	o := Op{Verb: "write", Path: path, Perm: octal(a.Perm), Bytes: len(data), SHA256: hex.EncodeToString(sum[:8])}
	r.note(path, &Info{Perm: a.Perm, UID: a.UID, GID: a.GID, Links: 1, Size: int64(len(data))})
	return r.do(o, func() error { return r.System.WriteFile(path, data, a) })
}

func (r *recorder) SetAttr(path string, a safefile.Attr) error {
	return r.do(Op{Verb: "chmod", Path: path, Perm: octal(a.Perm)}, func() error { return r.System.SetAttr(path, a) })
}

func (r *recorder) Rename(from, to string) error {
	if r.dry {
		if i, err := r.Lstat(from); err == nil {
			r.seen[from], r.seen[to] = nil, &i
		}
	}
	return r.do(Op{Verb: "rename", Path: from, To: to}, func() error { return r.System.Rename(from, to) })
}

func (r *recorder) Remove(path string) error {
	r.note(path, nil)
	return r.do(Op{Verb: "remove", Path: path}, func() error { return r.System.Remove(path) })
}

// Exec in a dry run tells only that the program would be run, as a success:
// what it would find out shows when it is done for real.
func (r *recorder) Exec(ctx context.Context, c Command) (Output, error) {
	if r.dry {
		return Output{}, nil
	}
	return r.System.Exec(ctx, c)
}
