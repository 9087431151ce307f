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
	policyPath = policyDir + "/90-pinta.json"
)

// openPolicy opens the machine's hook file if the host would read it: it and
// its folder belong to root and nobody else can write them. It goes by bare
// system calls: what an os.File brings along cost a run that yields as much as
// the file itself.
func openPolicy() (Policy, error) {
	var st unix.Stat_t
	if err := unix.Lstat(policyDir, &st); err != nil {
		return nil, err
	}
	if !machines(&st, unix.S_IFDIR) {
		return nil, fs.ErrPermission
	}
	fd, err := unix.Open(policyPath, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Fstat(fd, &st); err != nil || !machines(&st, unix.S_IFREG) || st.Size > maxPolicy {
		_ = unix.Close(fd)
		return nil, fs.ErrPermission
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
