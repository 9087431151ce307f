//go:build linux || darwin

package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// listen binds a name of its own, gives it its mode, and renames it to the
// wanted one: the socket appears only when it answers, and a dead one is
// replaced without a moment in which there is none. The folder stays locked
// meanwhile, so two starting services can't both find the old one dead.
func listen(path string, o Options) (net.Listener, error) {
	fail := func(what string, err error) (net.Listener, error) {
		return nil, fmt.Errorf("listen on %s: %s: %w", path, what, err)
	}
	if !filepath.IsAbs(path) {
		return fail("path", errors.New("not absolute"))
	}
	dir, base := filepath.Dir(path), filepath.Base(path)
	d, err := openFolder(dir, o)
	if err != nil {
		return fail("folder", err)
	}
	defer d.Close()
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return fail("lock the folder", err)
	}
	if err := checkDead(d, dir, base); err != nil {
		return fail("look at the old socket", err)
	}
	temp := "." + base + "." + strconv.Itoa(os.Getpid())
	if err := unix.Unlinkat(int(d.Fd()), temp, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fail("remove a left-over socket", err)
	}
	var ln *net.UnixListener
	err = shortPath(d, dir, temp, func(short string) (err error) {
		ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return fail("bind", err)
	}
	ln.SetUnlinkOnClose(false)
	mode := uint32(0o600)
	if o.Everyone {
		mode = 0o666
	}
	if err = unix.Fchmodat(int(d.Fd()), temp, mode, 0); err == nil {
		err = unix.Renameat(int(d.Fd()), temp, int(d.Fd()), base)
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstatat(int(d.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		ln.Close()
		_ = unix.Unlinkat(int(d.Fd()), temp, 0)
		return fail("publish the socket", err)
	}
	return &socket{UnixListener: ln, path: path, dev: uint64(st.Dev), ino: uint64(st.Ino)}, nil //nolint:unconvert // other types on darwin
}

// openFolder makes the folder if need be and refuses one in which somebody else
// could put a socket of his own.
func openFolder(dir string, o Options) (*os.File, error) {
	perm := os.FileMode(0o700)
	if o.Everyone {
		perm = 0o755
	}
	err := os.Mkdir(dir, perm)
	made := err == nil
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	d := os.NewFile(uintptr(fd), dir)
	if made {
		err = d.Chmod(perm) // the umask may have taken bits away
		if err == nil && (o.Owner != 0 || o.Group != 0) {
			err = d.Chown(o.Owner, o.Group)
		}
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	switch uid := uint32(os.Geteuid()); {
	case err != nil:
	case st.Uid != uid && st.Uid != 0 && (uid != 0 || st.Uid != uint32(o.Owner)):
		err = fmt.Errorf("%s belongs to uid %d: remove it, or give it to the service's account", dir, st.Uid)
	case st.Mode&0o022 != 0:
		err = fmt.Errorf("%s can be written by others (mode %#o): chmod go-w it", dir, st.Mode&0o777)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// checkDead returns nil if nothing answers at the name.
func checkDead(d *os.File, dir, base string) error {
	var st unix.Stat_t
	switch err := unix.Fstatat(int(d.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return fmt.Errorf("%s is no socket: remove it", base)
	}
	return shortPath(d, dir, base, func(short string) error {
		c, err := net.DialTimeout("unix", short, time.Second)
		switch {
		case err == nil:
			c.Close()
			return ErrInUse
		case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
			return nil
		default: // a full backlog is no death
			return fmt.Errorf("%w (%w)", ErrInUse, err)
		}
	})
}

// socket removes its name when it closes, unless another took the name since.
type socket struct {
	*net.UnixListener
	path     string
	dev, ino uint64
	once     sync.Once
}

func (s *socket) Close() error {
	s.once.Do(func() {
		var st unix.Stat_t
		if unix.Lstat(s.path, &st) == nil && uint64(st.Dev) == s.dev && uint64(st.Ino) == s.ino { //nolint:unconvert // other types on darwin
			_ = unix.Unlink(s.path)
		}
	})
	return s.UnixListener.Close()
}

// Addr names the path that was asked for, not the temporary one that was bound.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// File duplicates a listener of this package for a child process; Inherit is
// its counterpart there.
func File(l net.Listener) (*os.File, error) {
	s, ok := l.(*socket)
	if !ok {
		return nil, fmt.Errorf("hand over %T: not a socket of this package", l)
	}
	return s.UnixListener.File()
}

// Inherit makes a listener of a descriptor that File gave to this process. It
// leaves the name to the parent.
func Inherit(f *os.File) (net.Listener, error) {
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("take over the listener %s: %w", f.Name(), err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	return l, nil
}
