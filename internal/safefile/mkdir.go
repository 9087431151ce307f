package safefile

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// MkdirAll makes a directory of this process' own, and the parents that are missing. One that is there must be a real
// directory of this account (ErrNotDir, ErrOwner); permission bits beyond perm are taken away. A privileged process
// moves a directory that somebody else created beforehand aside ("<name>.foreign-<random>") and starts with an empty one.
func MkdirAll(path string, perm os.FileMode) error {
	err := mkdirAll(path, perm)
	if errors.Is(err, ErrOwner) && os.Geteuid() == 0 {
		if err := CheckDir(filepath.Dir(path)); err != nil {
			return err
		}
		if err := os.Rename(path, path+".foreign-"+strconv.FormatUint(rand.Uint64(), 36)); err != nil {
			return err
		}
		err = mkdirAll(path, perm)
	}
	return err
}

func mkdirAll(path string, perm os.FileMode) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if parent := filepath.Dir(path); parent != path {
			if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) {
				if err := mkdirAll(parent, perm); err != nil {
					return err
				}
			}
		}
		if _, err := step(OpMkdir, path, nil); err != nil {
			return err
		}
		if err := mkdirPrivate(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		fi, err = os.Lstat(path)
	}
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fail("mkdir", path, ErrNotDir)
	}
	return ownDir(path, fi, perm)
}

// CheckDir refuses a directory in which somebody other than this account and root could replace our files: it, and every
// directory above, must belong to one of the two and be writable by nobody else (ErrOwner, ErrMode name the first that isn't).
// Directories with the sticky bit may be above, never the one itself.
func CheckDir(path string) error { return CheckDirBelow("", path) }

// CheckDirBelow is CheckDir for a moved tree: stop and what is above it is not judged (--root).
func CheckDirBelow(stop, path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if stop != "" {
		if stop, err = filepath.EvalSymlinks(stop); err != nil {
			return err
		}
	}
	for p, first := real, true; p != stop; first = false {
		fi, err := os.Lstat(p)
		if err != nil {
			return err
		}
		if !fi.IsDir() {
			return fail("check", p, ErrNotDir)
		}
		if err := trusted(p, fi, first); err != nil {
			return fail("check", p, err)
		}
		up := filepath.Dir(p)
		if up == p {
			break
		}
		p = up
	}
	return nil
}
