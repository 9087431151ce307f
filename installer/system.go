package installer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// System is everything that the engine may do to a machine or to one home.
// Paths are absolute. Implementations: the real ones ([Machine], [Home]), a
// recorder that can leave out the writes (dry run), and in the tests one in
// memory and one that fails on purpose.
//
// Errors wrap fs.ErrNotExist, fs.ErrPermission and safefile's sentinels.
type System interface {
	Lstat(path string) (Info, error)
	Readlink(path string) (string, error)
	// Names lists a directory; it refuses one with more than 10 000 entries.
	Names(dir string) ([]string, error)
	// ReadFile reads a regular file of at most max bytes, following nothing.
	ReadFile(path string, max int64) ([]byte, error)
	// ReadHead reads the first max bytes of a file that may be larger.
	ReadHead(path string, max int) ([]byte, error)
	// Mkdir makes one directory with exactly these permission bits, whatever the
	// umask; its parent exists. One of the machine's that is there gets them too.
	Mkdir(path string, a safefile.Attr) error
	// WriteFile replaces a file as a whole, by rename.
	WriteFile(path string, data []byte, a safefile.Attr) error
	SetAttr(path string, a safefile.Attr) error
	// Rename moves an entry of whatever type inside its directory.
	Rename(from, to string) error
	Remove(path string) error
	// May tells what is known to keep a change (the verb of an Op) of path from
	// being made, without making one; nil if nothing is.
	May(verb, path string) error
	// Exec runs a program by absolute path, without a shell in between.
	Exec(ctx context.Context, c Command) (Output, error)
	Now() time.Time
}

// Info describes an entry of a directory, a link itself included.
type Info struct {
	Type     fs.FileMode // type bits, 0 for a regular file
	Perm     fs.FileMode
	UID, GID int // -1 where the system has none
	Links    uint64
	Size     int64
	ModTime  time.Time
}

// Command is a program to run with exactly this environment.
type Command struct {
	Path  string
	Args  []string
	Env   []string
	Stdin []byte
	Limit time.Duration
}

// Output is what a program did. Stdout and Stderr hold at most 64 KiB each.
type Output struct {
	Status         int // exit status, or 128 + the signal
	Stdout, Stderr []byte
	Took           time.Duration
}

const (
	maxNames  = 10_000
	maxOutput = 64 << 10
)

// real is the file system below an anchor, every step of a path opened by
// descriptor.
type real struct {
	// machine: directories must belong to this account or root and be writable
	// by nobody else; what is above anchor isn't judged (--root).
	// Otherwise a home: directories must belong to uid, and a link to another
	// folder inside the home is followed, since its owner may arrange it so
	// and the process has no more rights than that owner.
	machine bool
	anchor  string
	uid     int
}

// Machine is the machine's own paths. With root not empty (--root) nothing
// outside of it is touched, and what is above isn't judged.
func Machine(root string) System {
	return asMachine(real{machine: true, anchor: root, uid: os.Geteuid()}, root)
}

// Home is the home folder of the account that this process runs as; uid is
// that account's number, or -1 where there are none.
func Home(home string, uid int) System { return real{anchor: home, uid: uid} }

func fail(op, path string, err error) error { return &fs.PathError{Op: op, Path: path, Err: err} }

// parent opens the folder that holds path.
func (r real) parent(op, path string) (*safefile.Dir, string, error) {
	d, err := r.open(op, filepath.Dir(path))
	return d, filepath.Base(path), err
}

// open opens a directory.
func (r real) open(op, dir string) (*safefile.Dir, error) {
	if !filepath.IsAbs(dir) {
		return nil, fail(op, dir, fs.ErrInvalid)
	}
	if r.machine {
		if r.anchor != "" && !reallyInside(r.anchor, dir) {
			return nil, fail(op, dir, errOutside)
		}
		real, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, syscall.ENOTDIR) { // which doesn't say where
			at := dir
			for errors.Is(lstat(at), syscall.ENOTDIR) {
				at = filepath.Dir(at)
			}
			err = fail(op, at, safefile.ErrNotDir)
		}
		if err != nil {
			return nil, err
		}
		return safefile.OpenDir(real)
	}
	return r.walk(op, dir, 0)
}

func lstat(path string) error {
	_, err := os.Lstat(path)
	return err
}

// inside says that path is top or below it, by their names.
func inside(top, path string) bool {
	rel, err := filepath.Rel(top, path)
	return err == nil && filepath.IsLocal(rel)
}

// reallyInside is inside for where links lead, as far as path exists: an
// absolute link of an image that is made ready below --root leads into the
// machine itself.
func reallyInside(top, path string) bool {
	if !inside(top, path) {
		return false
	}
	real, err := filepath.EvalSymlinks(top)
	if err != nil {
		return false
	}
	at, err := filepath.EvalSymlinks(path)
	for ; errors.Is(err, fs.ErrNotExist) && path != top; at, err = filepath.EvalSymlinks(path) {
		path = filepath.Dir(path)
	}
	return err != nil || inside(real, at) // the error shows when the path is opened
}

// walk opens a folder of a home step by step. A link restarts the walk at what
// it names, as long as that is inside the home.
func (r real) walk(op, dir string, links int) (*safefile.Dir, error) {
	rel, err := filepath.Rel(r.anchor, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fail(op, dir, errOutside)
	}
	top, err := filepath.EvalSymlinks(r.anchor) // /home may be a link of the administrator's
	if err != nil {
		return nil, err
	}
	d, err := safefile.OpenDir(top)
	if err != nil {
		return nil, err
	}
	if err := r.owned(op, d); err != nil {
		return nil, closed(d, err)
	}
	if rel == "." {
		return d, nil
	}
	parts := strings.Split(rel, string(filepath.Separator))
	for i, name := range parts {
		here := filepath.Join(r.anchor, filepath.Join(parts[:i]...))
		if fi, err := d.Lstat(name); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			to, err := d.Readlink(name)
			if closed(d, err) != nil || links >= maxLinks {
				return nil, fail(op, filepath.Join(here, name), safefile.ErrNotDir)
			}
			if !filepath.IsAbs(to) {
				to = filepath.Join(here, to)
			}
			return r.walk(op, filepath.Join(append([]string{to}, parts[i+1:]...)...), links+1)
		}
		next, err := d.OpenDir(name)
		if closed(d, err) != nil {
			return nil, whole(filepath.Join(here, name), err)
		}
		d = next
		if err := r.owned(op, d); err != nil {
			return nil, closed(d, err)
		}
	}
	return d, nil
}

const maxLinks = 8

// shut closes a directory that was opened for looking: nothing can be lost.
func shut(d *safefile.Dir) { _ = d.Close() }

// closed is shut that hands err on.
func closed(d *safefile.Dir, err error) error {
	shut(d)
	return err
}

// whole names path in an error that names only a part of it, as those of
// os.Root do.
func whole(path string, err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) && !filepath.IsAbs(at.Path) {
		return fail(at.Op, path, at.Err)
	}
	return err
}

// owned refuses a folder of somebody else: what we put there could be swapped.
func (r real) owned(op string, d *safefile.Dir) error {
	fi, err := d.Stat()
	if err != nil {
		return err
	}
	if uid, _, ok := safefile.Owner(fi); ok && r.uid >= 0 && uid != r.uid {
		return fail(op, d.Path(), safefile.ErrOwner)
	}
	return nil
}

// writable opens the folder that holds path for a change.
func (r real) writable(op, path string) (*safefile.Dir, string, error) {
	if r.machine {
		if err := safefile.CheckDirBelow(r.anchor, filepath.Dir(path)); err != nil {
			return nil, "", err
		}
	}
	return r.parent(op, path)
}

func (r real) Lstat(path string) (Info, error) {
	d, name, err := r.parent("lstat", path)
	if err != nil {
		return Info{}, err
	}
	defer shut(d)
	fi, err := d.Lstat(name)
	if err != nil {
		return Info{}, err
	}
	return infoOf(fi), nil
}

func infoOf(fi fs.FileInfo) Info {
	i := Info{Type: fi.Mode().Type(), Perm: fi.Mode().Perm(), Size: fi.Size(), ModTime: fi.ModTime(), UID: -1, GID: -1, Links: linksOf(fi)}
	if uid, gid, ok := safefile.Owner(fi); ok {
		i.UID, i.GID = uid, gid
	}
	return i
}

func (r real) Readlink(path string) (string, error) {
	d, name, err := r.parent("readlink", path)
	if err != nil {
		return "", err
	}
	defer shut(d)
	return d.Readlink(name)
}

func (r real) Names(dir string) ([]string, error) {
	d, err := r.open("list", dir)
	if err != nil {
		return nil, err
	}
	defer shut(d)
	names, err := d.Names()
	if err == nil && len(names) > maxNames {
		return nil, fail("list", dir, safefile.ErrTooLarge)
	}
	return names, err
}

func (r real) ReadFile(path string, max int64) ([]byte, error) {
	d, name, err := r.parent("read", path)
	if err != nil {
		return nil, err
	}
	defer shut(d)
	return d.ReadFile(name, max)
}

func (r real) Mkdir(path string, a safefile.Attr) error {
	d, name, err := r.writable("mkdir", path)
	if err != nil {
		return err
	}
	defer shut(d)
	if r.machine { // ours: one that is there is narrowed, or reclaimed from somebody else
		dir := filepath.Join(d.Path(), name)
		if err := safefile.MkdirAll(dir, a.Perm); err != nil {
			return err
		}
		return widen(dir, a.Perm)
	}
	return d.Mkdir(name, a)
}

func (r real) WriteFile(path string, data []byte, a safefile.Attr) error {
	d, name, err := r.writable("write", path)
	if err != nil {
		return err
	}
	defer shut(d)
	return d.WriteFile(name, data, a)
}

func (r real) SetAttr(path string, a safefile.Attr) error {
	d, name, err := r.writable("chmod", path)
	if err != nil {
		return err
	}
	defer shut(d)
	return d.SetAttr(name, a)
}

func (r real) Rename(from, to string) error {
	if filepath.Dir(from) != filepath.Dir(to) {
		return fail("rename", from, fs.ErrInvalid)
	}
	d, name, err := r.writable("rename", from)
	if err != nil {
		return err
	}
	defer shut(d)
	return d.Rename(name, filepath.Base(to))
}

func (r real) Remove(path string) error {
	d, name, err := r.writable("remove", path)
	if err != nil {
		return err
	}
	defer shut(d)
	return d.Remove(name)
}

// May implements System. What it can't find out it lets pass: the change itself
// will tell.
func (r real) May(verb, path string) error {
	d, name, err := r.writable(verb, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer shut(d)
	_, err = d.Lstat(name)
	if at, cause := hindrance(d.Path(), name, err == nil, verb); cause != nil {
		return fail(verb, filepath.Join(d.Path(), at), cause) // where a link on the way led, since a remedy can't go through it
	}
	return nil
}

func (real) Now() time.Time { return time.Now() }

// ReadHead opens by path: what it reads is only reported, by a process that
// has no more rights than the file's owner.
func (r real) ReadHead(path string, max int) ([]byte, error) {
	d, name, err := r.parent("read", path)
	if err != nil {
		return nil, err
	}
	defer shut(d)
	f, err := safefile.Open(filepath.Join(d.Path(), name), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, max)
	n, err := io.ReadFull(f, buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return buf[:n], err
}
