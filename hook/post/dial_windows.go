package post

import (
	"net"
	"net/netip"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

func dialIP(a ip, port uint16, deadline time.Time) (local.Conn, error) {
	addr := netip.AddrFrom16(a.b)
	if a.v4 {
		addr = netip.AddrFrom4([4]byte(a.b[:4]))
	}
	d := net.Dialer{Deadline: deadline}
	conn, err := d.Dial("tcp", netip.AddrPortFrom(addr, port).String())
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(deadline)
	return conn, nil
}
