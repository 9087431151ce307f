//go:build unix

package hook

import (
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// The machine's hook file at its real path, never below --root.
const (
	policyDir  = "/etc/github-copilot/policy.d"
	policyName = "90-pinta.json"
)

// openPolicy opens the machine's hook file if the client has read it: it and
// its folder belong to root, nobody else can write them, and they have been as
// they are since before the client began.
func openPolicy() (Policy, error) { return policyIn(policyDir, unix.Getpgrp()) }

// policyIn does so for any folder and the process group of any hook. It goes by
// bare system calls: what an os.File brings along cost a run that yields as much
// as the file itself.
func policyIn(dir string, group int) (Policy, error) {
	var folder, file unix.Stat_t
	if err := unix.Lstat(dir, &folder); err != nil {
		return nil, err
	}
	if !machines(&folder, unix.S_IFDIR) {
		return nil, fs.ErrPermission
	}
	fd, err := unix.Open(dir+"/"+policyName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Fstat(fd, &file); err != nil || !machines(&file, unix.S_IFREG) || file.Size > maxPolicy {
		_ = unix.Close(fd)
		return nil, fs.ErrPermission
	}
	// A client reads its hooks once, when a session starts (host.md). A session
	// that was there before the file, or before its rights were put right, has
	// the user's entry alone. A change is stamped by the system's clock and
	// can't be dated back.
	start, err := clientStart(group)
	if err != nil || max(folder.Ctim.Nano(), file.Ctim.Nano()) >= start.Nano() {
		_ = unix.Close(fd)
		return nil, fs.ErrNotExist
	}
	return descriptor(fd), nil
}

// machines says whether a file of this kind is root's alone to write.
func machines(st *unix.Stat_t, kind uint32) bool {
	mode := uint32(st.Mode) //nolint:unconvert // narrower on darwin
	return mode&unix.S_IFMT == kind && st.Uid == 0 && mode&0o022 == 0
}

// descriptor is an open file.
type descriptor int

func (d descriptor) Close() error { return unix.Close(int(d)) }

// ReadAt may return less than is there, as any read may.
func (d descriptor) ReadAt(p []byte, off int64) (int, error) {
	for {
		n, err := unix.Pread(int(d), p, off)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}
