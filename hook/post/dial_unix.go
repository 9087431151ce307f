//go:build unix

package post

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

func dialIP(a ip, port uint16, deadline time.Time) (local.Conn, error) {
	if a.v4 {
		return local.Connect(&unix.SockaddrInet4{Port: int(port), Addr: [4]byte(a.b[:4])}, deadline)
	}
	return local.Connect(&unix.SockaddrInet6{Port: int(port), Addr: a.b}, deadline)
}
