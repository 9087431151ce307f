package safefile

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is an open directory. Its methods take one plain name each (ErrName otherwise) and stay inside whatever becomes of
// the path meanwhile: a directory swapped for a link changes nothing for a Dir that is already open.
type Dir struct {
	root *os.Root
	path string
}

// asDir makes the open of a FIFO that was put in place meanwhile fail instead of hang.
const asDir = "/."

// OpenDir opens a directory whose last component is no symlink.
func OpenDir(path string) (*Dir, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, fail("open", path, ErrNotDir)
	}
	root, err := os.OpenRoot(path + asDir)
	if err != nil {
		return nil, err
	}
	return sameDir(root, path, fi)
}

// OpenDir opens a directory inside; a symlink is refused, wherever it leads.
func (d *Dir) OpenDir(name string) (*Dir, error) {
	path := filepath.Join(d.path, name)
	fi, err := d.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, fail("open", path, ErrNotDir)
	}
	root, err := d.root.OpenRoot(name + asDir)
	if err != nil {
		return nil, err
	}
	return sameDir(root, path, fi)
}

// sameDir refuses what was put in place between look and open.
func sameDir(root *os.Root, path string, want fs.FileInfo) (*Dir, error) {
	got, err := root.Stat(".")
	if err == nil && !os.SameFile(got, want) {
		err = fail("open", path, ErrNotDir)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return &Dir{root, path}, nil
}

// Path is the path the directory was opened by, for messages.
func (d *Dir) Path() string { return d.path }

// Close releases the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Stat describes the directory itself, by its descriptor.
func (d *Dir) Stat() (fs.FileInfo, error) { return d.root.Stat(".") }

// Lstat describes an entry without following it.
func (d *Dir) Lstat(name string) (fs.FileInfo, error) {
	if !plain(name) {
		return nil, fail("lstat", filepath.Join(d.path, name), ErrName)
	}
	return d.root.Lstat(name)
}

// Names lists the entries in no order.
func (d *Dir) Names() ([]string, error) { return rootPlace{d}.names() }

// Readlink gives the text of a symlink, which is never followed here.
func (d *Dir) Readlink(name string) (string, error) {
	if !plain(name) {
		return "", fail("readlink", filepath.Join(d.path, name), ErrName)
	}
	return d.root.Readlink(name)
}

// ReadFile is safefile.ReadFile inside the directory.
func (d *Dir) ReadFile(name string, max int64) ([]byte, error) {
	data, _, err := d.Read(name, max, Check{})
	return data, err
}

// Read is safefile.Read inside the directory.
func (d *Dir) Read(name string, max int64, c Check) ([]byte, fs.FileInfo, error) {
	if !plain(name) {
		return nil, nil, fail("read", filepath.Join(d.path, name), ErrName)
	}
	return readIn(rootPlace{d}, name, max, c)
}

// WriteFile is safefile.WriteFile inside the directory: a link in the target's place is replaced, never followed.
func (d *Dir) WriteFile(name string, data []byte, a Attr) error {
	if !plain(name) {
		return fail("write", filepath.Join(d.path, name), ErrName)
	}
	return writeIn(rootPlace{d}, name, data, a)
}

// SetAttr corrects owner and mode of a regular, singly linked file through its descriptor.
func (d *Dir) SetAttr(name string, a Attr) error {
	if !plain(name) {
		return fail("chmod", filepath.Join(d.path, name), ErrName)
	}
	f, _, err := openIn(rootPlace{d}, name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if err := (Check{OneLink: true}).verify(fi); err != nil {
		return fail("chmod", filepath.Join(d.path, name), err)
	}
	return setAttr(f, a)
}

// Rename moves an entry, whatever its type, inside the directory.
func (d *Dir) Rename(from, to string) error {
	if !plain(from) || !plain(to) {
		return fail("rename", filepath.Join(d.path, from), ErrName)
	}
	if _, err := step(OpRename, filepath.Join(d.path, to), nil); err != nil {
		return err
	}
	if err := (rootPlace{d}).rename(from, to, false); err != nil {
		return err
	}
	return rootPlace{d}.sync()
}

// Remove deletes an entry: a file, a link itself, an empty directory.
func (d *Dir) Remove(name string) error {
	if !plain(name) {
		return fail("remove", filepath.Join(d.path, name), ErrName)
	}
	if _, err := step(OpRemove, filepath.Join(d.path, name), nil); err != nil {
		return err
	}
	if err := persist(func() error { return d.root.Remove(name) }); err != nil {
		return err
	}
	return rootPlace{d}.sync()
}

// Mkdir makes a directory with owner and mode set through its descriptor. One that is already there is left as it is;
// anything else in its place is ErrNotDir.
func (d *Dir) Mkdir(name string, a Attr) error {
	path := filepath.Join(d.path, name)
	if !plain(name) {
		return fail("mkdir", path, ErrName)
	}
	if _, err := step(OpMkdir, path, nil); err != nil {
		return err
	}
	if err := d.root.Mkdir(name, 0o700); err != nil {
		if fi, e := d.Lstat(name); e == nil && fi.IsDir() {
			return nil
		} else if e == nil {
			return fail("mkdir", path, ErrNotDir)
		}
		return err
	}
	sub, err := d.OpenDir(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	f, err := sub.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return setAttr(f, a)
}

// rootPlace is a Dir as a place.
type rootPlace struct{ d *Dir }

func (p rootPlace) dir() string { return p.d.path }

// open goes through os.Root, which follows a link in the last place as long as it stays inside, and so compares what it
// got with the entry itself. Nothing is truncated or created through a link: O_EXCL goes with O_CREATE, O_TRUNC is never used.
func (p rootPlace) open(name string, flag int, perm os.FileMode) (*os.File, error) {
	f, err := p.d.root.OpenFile(name, flag|rootFlags, perm)
	if err != nil {
		return nil, err
	}
	got, err := f.Stat()
	if err == nil {
		var want fs.FileInfo
		if want, err = p.d.root.Lstat(name); err == nil && !os.SameFile(got, want) {
			err = fail("open", filepath.Join(p.d.path, name), ErrNotRegular)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
func (p rootPlace) lstat(name string) (fs.FileInfo, error) { return p.d.root.Lstat(name) }
func (p rootPlace) remove(name string) error               { return p.d.root.Remove(name) }
func (p rootPlace) rename(from, to string, _ bool) error {
	return persist(func() error { return p.d.root.Rename(from, to) })
}
func (p rootPlace) names() ([]string, error) {
	f, err := p.d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
func (p rootPlace) sync() error {
	f, err := p.d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return syncDir(f)
}
