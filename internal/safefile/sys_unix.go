//go:build unix

package safefile

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	openFlags         = unix.O_NOFOLLOW | unix.O_NONBLOCK
	rootFlags         = unix.O_NONBLOCK // os.Root resolves the last link itself: Dir compares what it got
	closeBeforeRename = false
)

func sysInfo(fi fs.FileInfo) (uid, gid int, links uint64, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1, 0, false
	}
	return int(st.Uid), int(st.Gid), uint64(st.Nlink), true //nolint:unconvert // narrower on darwin
}

func chown(f *os.File, uid, gid int) error { return f.Chown(uid, gid) }

func chmod(f *os.File, perm os.FileMode) error { return f.Chmod(perm) }

func persist(op func() error) error { return op() }

// syncDir makes a rename durable. Some file systems know no fsync of a directory: then there is nothing to be had.
func syncDir(f *os.File) error {
	err := f.Sync()
	if pe, ok := err.(*fs.PathError); ok && (pe.Err == unix.EINVAL || pe.Err == unix.ENOTSUP) {
		return nil
	}
	return err
}

// tryLock takes the lock if it is free; held tells that somebody else has it.
func tryLock(f *os.File) (held bool, err error) {
	err = flock(int(f.Fd()), unix.LOCK_NB)
	return err == unix.EWOULDBLOCK, err
}

// waitLock waits in the kernel, which wakes one waiter at a time: sixty processes that poll would spend the time they
// wait for. A wait that is given up ends with the descriptor: the lock it may still get belongs to a closed file.
func waitLock(f *os.File, wait time.Duration) (held bool, err error) {
	fd, got := int(f.Fd()), make(chan error, 1)
	go func() { got <- flock(fd, 0) }()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case err := <-got:
		return false, err
	case <-t.C:
		return true, nil
	}
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX|how); err != unix.EINTR {
			return err
		}
	}
}

// markOwned locks a fresh temporary file. False: a clean-up has removed it in the meantime.
func markOwned(f *os.File) bool {
	if held, err := tryLock(f); err != nil {
		return !held // a file system without locks: nobody can tell, so nobody removes
	}
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	_, _, links, _ := sysInfo(fi)
	return links > 0
}

// removeOrphan removes a temporary file that no process holds, while holding it: its writer, if it has only just been
// made, finds that out in markOwned.
func removeOrphan(p place, name string, _ fs.FileInfo) {
	f, err := p.open(name, os.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if _, err = tryLock(f); err == nil {
		_ = p.remove(name)
	}
}
