package post

import (
	"errors"
	"net/netip"
	"strconv"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

// route is how a request line has to be written for the way it takes.
type route struct {
	prefix string // "http://host:port" when a proxy reads the request
	auth   string // credentials for that proxy
}

// connect opens the way to t: directly to a socket, a pipe or this machine,
// else by net's dialer, TLS and proxies, which only such runs pay for.
func connect(t target, env Env, deadline time.Time) (local.Conn, route, error) {
	if t.local != nil {
		conn, err := local.Dial(*t.local, deadline)
		return conn, route{}, err
	}
	addrs := loopback(t.host)
	if addrs == nil || t.tls {
		return connectFar(t, addrs != nil, env, deadline)
	}
	port, err := strconv.ParseUint(t.port, 10, 16)
	if err != nil {
		return nil, route{}, errURL
	}
	err = errors.New("no address")
	for _, a := range addrs {
		var conn local.Conn
		if conn, err = dialIP(a, uint16(port), deadline); err == nil {
			return conn, route{}, nil
		}
	}
	return nil, route{}, err
}

func loopback6(host string) []ip {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	a = a.Unmap()
	switch {
	case a.Is4() && a.IsLoopback():
		b := a.As4()
		return []ip{v4(b[0], b[1], b[2], b[3])}
	case a == netip.IPv6Unspecified(), a.IsLoopback():
		return []ip{v6one}
	}
	return nil
}
