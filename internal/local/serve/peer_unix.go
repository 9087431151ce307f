//go:build linux || darwin

package serve

import (
	"fmt"
	"net"
	"syscall"
)

// control runs f on the connection's descriptor.
func control(c net.Conn, f func(fd int) error) error {
	s, ok := c.(syscall.Conn)
	if _, isUnix := c.(*net.UnixConn); !ok || !isUnix {
		return fmt.Errorf("who is at the other end of a %T: only a local socket can tell", c)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
