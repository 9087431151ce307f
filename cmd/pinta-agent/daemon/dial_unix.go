//go:build unix

package daemon

import (
	"fmt"
	"net"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

// dial connects to a socket of this machine as the hook does. What net/http
// gets is a connection of package net: it reads, writes and closes at once.
func dial(t local.Target, deadline time.Time) (net.Conn, error) {
	c, err := local.Dial(t, deadline)
	if err != nil {
		return nil, err
	}
	fd, ok := c.(*local.FD)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("%s is no socket", t.Address)
	}
	f := fd.File()
	defer f.Close()
	return net.FileConn(f)
}
