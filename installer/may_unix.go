//go:build unix

package installer

import (
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hindrance tells what keeps the entry name of dir, or with inPlace only its
// mode, from being changed by this process, and where that lies: name, or empty
// for the folder. The right to write isn't what decides for root, so flags and
// mount are looked at.
func hindrance(dir, name string, exists, inPlace bool) (at string, cause error) {
	if !inPlace {
		if err := frozen(dir); err != nil {
			return "", err
		}
	}
	if exists {
		if err := frozen(filepath.Join(dir, name)); err != nil {
			return name, err
		}
	}
	switch err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); {
	case err == unix.EROFS:
		return "", errReadOnly
	case (err == unix.EACCES || err == unix.EPERM) && !inPlace:
		return "", fs.ErrPermission
	}
	return "", nil
}
