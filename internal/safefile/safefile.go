// Package safefile is the one way this program reads, writes, locks and creates files: nothing is followed through a
// symlink in the last place, nothing blocks on a FIFO or device, a replacement is never visible half-written. It is not
// a file system abstraction: callers that need a directory tree use Dir, everybody else a path. It is linked into the
// hook, so it stays with os and golang.org/x/sys and formats nothing.
package safefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Sentinels, always wrapped in an *fs.PathError that names the operation and the file.
var (
	ErrNotRegular = errors.New("not a regular file: move away what is in its place")
	ErrNotDir     = errors.New("not a directory of its own (a link or a file): move away what is in its place")
	ErrTooLarge   = errors.New("larger than the limit for this file")
	ErrLinked     = errors.New("has more than one name (hard link): remove the other ones")
	ErrOwner      = errors.New("belongs to another account: correct its owner")
	ErrMode       = errors.New("can be changed by others: take write access from group and others")
	ErrLocked     = errors.New("another process holds the lock")
	ErrName       = errors.New("not a plain file name")
)

// Attr is what a written file or directory gets, set through its descriptor. A UID or GID below 0 is left as it is.
// Volatile is for small files that are written in every run, under a lock: it leaves out fsync (a power cut may cost the
// content, a crash of the process never tears it) and the search for what killed writers left (CleanTemps).
type Attr struct {
	Perm     os.FileMode
	UID, GID int
	Volatile bool
}

// Private is the usual Attr of state files: 0600 and the owner that the process has.
var Private = Attr{Perm: 0o600, UID: -1, GID: -1}

// Check is what a file must be, judged on the open descriptor. The zero Check asks for a regular file only.
// Owner and mode rules are void on Windows, where the ACL of the directory holds.
type Check struct {
	Owners  []int       // acceptable numeric owners; none: any
	OneLink bool        // refuse hard-linked files
	Forbid  os.FileMode // permission bits that must not be set, such as 0o022
}

// verify judges an open file.
func (c Check) verify(fi fs.FileInfo) error {
	if !fi.Mode().IsRegular() {
		return ErrNotRegular
	}
	uid, _, links, ok := sysInfo(fi)
	if !ok {
		return nil
	}
	if c.OneLink && links > 1 {
		return ErrLinked
	}
	if fi.Mode().Perm()&c.Forbid != 0 {
		return ErrMode
	}
	for _, o := range c.Owners {
		if o == uid {
			return nil
		}
	}
	if len(c.Owners) > 0 {
		return ErrOwner
	}
	return nil
}

// Owner gives the numeric owner and group of a file; ok is false where the system has none.
func Owner(fi fs.FileInfo) (uid, gid int, ok bool) {
	uid, gid, _, ok = sysInfo(fi)
	return uid, gid, ok
}

// Open opens a regular file by path: no symlink in the last place, never blocking. flag is O_RDONLY, O_WRONLY or O_RDWR
// with O_APPEND, O_CREATE and O_EXCL as needed.
func Open(path string, flag int, perm os.FileMode) (*os.File, error) {
	f, _, err := openIn(pathPlace{filepath.Dir(path)}, filepath.Base(path), flag, perm)
	return f, err
}

// ReadFile reads a regular file of at most max bytes (ErrTooLarge beyond).
func ReadFile(path string, max int64) ([]byte, error) {
	data, _, err := Read(path, max, Check{})
	return data, err
}

// Read is ReadFile with conditions; the FileInfo is that of the descriptor that was read.
func Read(path string, max int64, c Check) ([]byte, fs.FileInfo, error) {
	return readIn(pathPlace{filepath.Dir(path)}, filepath.Base(path), max, c)
}

// WriteFile replaces a file as a whole: a temporary file in the same directory gets content, owner and mode, is synced
// and renamed over the target, and the directory is synced. On any error the old file is still there, untouched.
func WriteFile(path string, data []byte, a Attr) error {
	return writeIn(pathPlace{filepath.Dir(path)}, filepath.Base(path), data, a)
}

// place is a directory, by path or by os.Root. The hook uses paths only and doesn't link the other.
type place interface {
	dir() string
	open(name string, flag int, perm os.FileMode) (*os.File, error) // no-follow, non-blocking
	lstat(name string) (fs.FileInfo, error)
	rename(from, to string, volatile bool) error
	remove(name string) error
	names() ([]string, error)
	sync() error
}

// pathPlace is a directory by path.
type pathPlace struct{ path string }

func (p pathPlace) dir() string { return p.path }
func (p pathPlace) open(name string, flag int, perm os.FileMode) (*os.File, error) {
	return os.OpenFile(filepath.Join(p.path, name), flag|openFlags, perm)
}
func (p pathPlace) lstat(name string) (fs.FileInfo, error) {
	return os.Lstat(filepath.Join(p.path, name))
}
func (p pathPlace) rename(from, to string, volatile bool) error {
	from, to = filepath.Join(p.path, from), filepath.Join(p.path, to)
	if volatile {
		return swap(from, to)
	}
	return persist(func() error { return os.Rename(from, to) })
}
func (p pathPlace) remove(name string) error { return os.Remove(filepath.Join(p.path, name)) }
func (p pathPlace) names() ([]string, error) {
	f, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
func (p pathPlace) sync() error {
	f, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer f.Close()
	return syncDir(f)
}

func openIn(p place, name string, flag int, perm os.FileMode) (*os.File, fs.FileInfo, error) {
	path := filepath.Join(p.dir(), name)
	if _, err := step(OpOpen, path, nil); err != nil {
		return nil, nil, err
	}
	f, err := p.open(name, flag, perm)
	if err != nil {
		return nil, nil, asLink(p, name, err)
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fail("open", path, ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// asLink names the cause when the system refused a symlink with one of its several error numbers.
func asLink(p place, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	if fi, e := p.lstat(name); e == nil && !fi.Mode().IsRegular() {
		return fail("open", filepath.Join(p.dir(), name), ErrNotRegular)
	}
	return err
}

func readIn(p place, name string, max int64, c Check) ([]byte, fs.FileInfo, error) {
	path := filepath.Join(p.dir(), name)
	f, fi, err := openIn(p, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if err := c.verify(fi); err != nil {
		return nil, fi, fail("read", path, err)
	}
	if fi.Size() > max {
		return nil, fi, fail("read", path, ErrTooLarge)
	}
	// One byte more than the size: a file that grows while it is read is noticed without a second look.
	data := make([]byte, 0, fi.Size()+1)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if int64(len(data)) > max {
			return nil, fi, fail("read", path, ErrTooLarge)
		}
		if err == io.EOF {
			return data, fi, nil
		}
		if err != nil {
			return nil, fi, err
		}
	}
}

func writeIn(p place, name string, data []byte, a Attr) error {
	path := filepath.Join(p.dir(), name)
	if fi, err := p.lstat(name); err == nil && fi.IsDir() {
		return fail("write", path, ErrNotRegular)
	}
	if !a.Volatile {
		cleanTemps(p, name)
	}
	f, temp, err := createTemp(p, name)
	if err != nil {
		return err
	}
	if err = fill(f, data, a); err == nil {
		// Windows refuses to rename over or from an open file, so the descriptor goes first; on POSIX closing gives up
		// the mark that protects the name against clean-up by others, so it stays.
		if closeBeforeRename {
			err = f.Close()
		}
		if err == nil {
			if _, err = step(OpRename, path, nil); err == nil {
				err = p.rename(temp, name, a.Volatile)
			}
		}
	}
	f.Close()
	if err != nil {
		if _, e := step(OpRemove, path, nil); e == nil {
			_ = p.remove(temp)
		}
		return err
	}
	if a.Volatile {
		return nil
	}
	if _, err := step(OpSyncDir, path, nil); err != nil {
		return err
	}
	return p.sync()
}

// fill gives a new file owner, mode and content through its descriptor, the owner first: a change of owner clears mode bits.
func fill(f *os.File, data []byte, a Attr) error {
	if err := setAttr(f, a); err != nil {
		return err
	}
	if err := write(f, data); err != nil || a.Volatile {
		return err
	}
	if _, err := step(OpSync, f.Name(), nil); err != nil {
		return err
	}
	return f.Sync()
}

func setAttr(f *os.File, a Attr) error {
	if a.UID >= 0 || a.GID >= 0 {
		if _, err := step(OpChown, f.Name(), nil); err != nil {
			return err
		}
		if err := chown(f, max(a.UID, -1), max(a.GID, -1)); err != nil {
			return err
		}
	}
	if _, err := step(OpChmod, f.Name(), nil); err != nil {
		return err
	}
	return chmod(f, a.Perm)
}

func write(f *os.File, data []byte) error {
	if n, err := step(OpWrite, f.Name(), data); err != nil {
		_, _ = f.Write(data[:n])
		return err
	}
	_, err := f.Write(data)
	return err
}

func fail(op, path string, err error) error { return &fs.PathError{Op: op, Path: path, Err: err} }

// plain tells whether name is one component that can be opened in a directory, on every platform.
func plain(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00") && filepath.IsLocal(name) && filepath.Base(name) == name
}
