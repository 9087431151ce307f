//go:build unix

package safefile

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func mkdirPrivate(path string, perm os.FileMode) error { return os.Mkdir(path, perm) }

// ownDir judges and narrows an existing directory on its descriptor.
func ownDir(path string, want fs.FileInfo, perm os.FileMode) error {
	uid, _, _, _ := sysInfo(want)
	if uid != os.Geteuid() {
		return fail("mkdir", path, ErrOwner)
	}
	if want.Mode().Perm()&^perm == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|openFlags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !os.SameFile(fi, want) {
		return fail("mkdir", path, ErrNotDir)
	}
	if _, err := step(OpChmod, path, nil); err != nil {
		return err
	}
	return f.Chmod(want.Mode().Perm() & perm)
}

// trusted judges one directory of a chain. Group write access counts as nobody's only for a user-private group, the
// default of several distributions, whose number is the owner's; root's group is none, and where an ACL lets somebody
// write these bits say so too.
func trusted(_ string, fi fs.FileInfo, last bool) error {
	uid, gid, _, _ := sysInfo(fi)
	if uid != 0 && uid != os.Geteuid() {
		return ErrOwner
	}
	if !last && fi.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	if fi.Mode().Perm()&0o002 != 0 || fi.Mode().Perm()&0o020 != 0 && (gid != uid || uid == 0) {
		return ErrMode
	}
	return nil
}
