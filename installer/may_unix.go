//go:build unix

package installer

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hindrance tells what keeps the change verb of the entry name of dir from
// being made by this process, and where that lies: name, or empty for the
// folder. The right to write isn't what decides for root, so flags and mounts
// are looked at.
func hindrance(dir, name string, exists bool, verb string) (at string, cause error) {
	entry := filepath.Join(dir, name)
	// What changes only the entry's own mode needs no right to its folder.
	inPlace := exists && (verb == "chmod" || verb == "mkdir")
	if err := frozen(dir); err != nil && !inPlace && (verb != "mkdir" || !errors.Is(err, errAppendOnly)) { // which takes new entries
		return "", err
	}
	if exists {
		if err := frozen(entry); err != nil {
			return name, err
		}
	}
	if inPlace {
		if unix.Access(entry, unix.W_OK) == unix.EROFS {
			return name, errReadOnly
		}
		return "", nil
	}
	if exists && mounted(entry) {
		return name, errMounted
	}
	// By the real ids, which are the effective ones here: older kernels have no
	// call that goes by those and knows of read-only mounts.
	switch err := unix.Access(dir, unix.W_OK|unix.X_OK); err {
	case unix.EROFS:
		return "", errReadOnly
	case unix.EACCES, unix.EPERM:
		return "", fs.ErrPermission
	}
	return "", nil
}
