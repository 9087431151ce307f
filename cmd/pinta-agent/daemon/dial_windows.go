package daemon

import (
	"net"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

// dial connects to a pipe of this machine as the hook does.
func dial(t local.Target, deadline time.Time) (net.Conn, error) {
	c, err := local.Dial(t, deadline)
	if err != nil {
		return nil, err
	}
	return netConn{c}, nil
}

// netConn gives a pipe the methods that net/http asks for.
type netConn struct{ local.Conn }

func (netConn) LocalAddr() net.Addr                  { return &net.UnixAddr{} }
func (netConn) RemoteAddr() net.Addr                 { return &net.UnixAddr{} }
func (c netConn) SetReadDeadline(t time.Time) error  { return c.SetDeadline(t) }
func (c netConn) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }
