package safefile

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

const (
	openFlags         = windows.FILE_FLAG_OPEN_REPARSE_POINT // the link itself is opened, and refused as irregular
	rootFlags         = 0
	closeBeforeRename = true
)

func sysInfo(fs.FileInfo) (uid, gid int, links uint64, ok bool) { return -1, -1, 0, false }

// Owner and mode are the directory's ACL.
func chown(*os.File, int, int) error { return nil }

func chmod(*os.File, os.FileMode) error { return nil }

// persist repeats a rename or removal that fails because a reader, a virus scanner or an indexer has the file open just now.
func persist(op func() error) (err error) {
	for range 25 {
		if err = op(); !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return err
}

func syncDir(*os.File) error { return nil } // NTFS journals renames; a directory handle can't be flushed

func tryLock(f *os.File) (held bool, err error) {
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	return err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING, err
}

// waitLock polls: a wait in LockFileEx can't be given up.
func waitLock(f *os.File, wait time.Duration) (held bool, err error) {
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if held, err = tryLock(f); !held {
			return false, err
		}
	}
	return true, nil
}

func markOwned(*os.File) bool { return true }

// orphanAge is how old a temporary file must be to have no writer any more.
const orphanAge = time.Minute

// removeOrphan goes by age: a writer needs milliseconds. A time in the future is a clock that was set back.
func removeOrphan(p place, name string, fi fs.FileInfo) {
	if age := time.Since(fi.ModTime()); age > orphanAge || age < -orphanAge {
		p.remove(name)
	}
}
