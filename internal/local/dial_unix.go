//go:build unix

package local

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxSocketPath is what sun_path holds, its final NUL included.
var maxSocketPath = len(syscall.RawSockaddrUnix{}.Path)

// Dial connects to the socket of t.
func Dial(t Target, deadline time.Time) (Conn, error) {
	if t.Network != "unix" {
		return nil, errors.New("named pipes exist on windows only")
	}
	if len(t.Address) < maxSocketPath {
		return Connect(&unix.SockaddrUnix{Name: t.Address}, deadline)
	}
	// A longer path is dialed by its base name from within its folder.
	back, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer func() { _ = unix.Fchdir(back); _ = unix.Close(back) }()
	}
	dir, base := filepath.Split(t.Address)
	if len(base) >= maxSocketPath {
		return nil, &os.PathError{Op: "connect", Path: base, Err: unix.ENAMETOOLONG}
	}
	if err := os.Chdir(dir); err != nil {
		return nil, err
	}
	return Connect(&unix.SockaddrUnix{Name: base}, deadline)
}

// FD is a connected stream socket driven by poll(2) instead of the runtime's
// network poller, which would cost start-up an epoll instance and a goroutine.
// It is for one goroutine.
type FD struct {
	fd       int
	deadline time.Time
	wrote    bool // the next Read has to wait for an answer: no use to try first
}

// Connect opens a stream socket to a, a Unix-domain or IP address.
func Connect(a unix.Sockaddr, deadline time.Time) (*FD, error) {
	family, tcp := unix.AF_UNIX, true
	switch a.(type) {
	case *unix.SockaddrInet4:
		family = unix.AF_INET
	case *unix.SockaddrInet6:
		family = unix.AF_INET6
	default:
		tcp = false
	}
	fd, err := socket(family)
	if err != nil {
		return nil, err
	}
	c := &FD{fd: fd, deadline: deadline}
	if err := c.connect(a); err != nil {
		_ = c.Close()
		return nil, err
	}
	if tcp {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	return c, nil
}

func (c *FD) connect(a unix.Sockaddr) error {
	for {
		switch err := unix.Connect(c.fd, a); err {
		case nil:
			return nil
		case unix.EINTR, unix.EINPROGRESS, unix.EALREADY:
			if _, err := c.wait(unix.POLLOUT); err != nil {
				return err
			}
			if e, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil {
				return err
			} else if e != 0 {
				return syscall.Errno(e)
			}
			return nil
		case unix.EAGAIN:
			// A Unix-domain listener whose backlog is full says so at once.
			if !time.Now().Before(c.deadline) {
				return ErrTimeout
			}
			time.Sleep(time.Millisecond)
		default:
			return err
		}
	}
}

// wait returns the ready events, or ErrTimeout.
func (c *FD) wait(events int16) (int16, error) {
	return Poll(c.fd, events, c.deadline)
}

// Poll waits until fd is ready for events or the deadline has come.
func Poll(fd int, events int16, deadline time.Time) (int16, error) {
	for {
		left := time.Until(deadline)
		ms := int((left + time.Millisecond - 1) / time.Millisecond)
		if left < 0 {
			ms = 0
		}
		p := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(p[:], ms)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n > 0:
			return p[0].Revents, nil
		case ms == 0 || !time.Now().Before(deadline):
			return 0, ErrTimeout
		}
	}
}

func (c *FD) SetDeadline(t time.Time) error { c.deadline = t; return nil }

// Read returns what there is, or waits for it.
func (c *FD) Read(p []byte) (int, error) {
	if c.wrote {
		c.wrote = false
		if _, err := c.wait(unix.POLLIN); err != nil {
			return 0, err
		}
	}
	for {
		n, err := unix.Read(c.fd, p)
		switch {
		case err == unix.EAGAIN:
			if _, err := c.wait(unix.POLLIN); err != nil {
				return 0, err
			}
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write writes all of p, or stops with ErrAnswered when the peer speaks first.
func (c *FD) Write(p []byte) (int, error) {
	done := 0
	c.wrote = true
	for done < len(p) {
		n, err := unix.Write(c.fd, p[done:])
		if n > 0 {
			done += n
		}
		switch err {
		case nil, unix.EINTR:
		case unix.EAGAIN:
			ready, err := c.wait(unix.POLLOUT | unix.POLLIN)
			if err != nil {
				return done, err
			}
			if ready&unix.POLLOUT == 0 && ready&unix.POLLIN != 0 {
				return done, ErrAnswered
			}
		default:
			return done, err
		}
	}
	return done, nil
}

func (c *FD) Close() error { return unix.Close(c.fd) }

// File gives the socket away, for callers that read and write it at once, which
// an FD doesn't bear. c must not be used after it.
func (c *FD) File() *os.File { return os.NewFile(uintptr(c.fd), "socket") }
