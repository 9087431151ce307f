package post

import (
	"errors"
	"net/netip"
	"strconv"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

// Route is how a request has to be written for the way it takes.
type Route struct {
	Prefix string // "http://host:port" before the path when a proxy reads the request
	Auth   string // Basic credentials for that proxy, encoded
}

// Remote connects to what is not on this machine or wants TLS. Package remote
// sets it; a program without that package reaches this machine only.
var Remote func(t Target, env Env, deadline time.Time) (local.Conn, Route, error)

var errRemote = errors.New("this build reaches this machine only")

// connect opens the way to t.
func connect(t Target, env Env, deadline time.Time) (local.Conn, Route, error) {
	if t.local != nil {
		conn, err := local.Dial(*t.local, deadline)
		return conn, Route{}, err
	}
	if t.TLS || loopback(t.Host) == nil {
		if Remote == nil {
			return nil, Route{}, errRemote
		}
		return Remote(t, env, deadline)
	}
	port, err := strconv.ParseUint(t.Port, 10, 16)
	if err != nil {
		return nil, Route{}, errURL
	}
	err = errors.New("no address")
	for _, a := range loopback(t.Host) {
		var conn local.Conn
		if conn, err = dialIP(a, uint16(port), deadline); err == nil {
			return conn, Route{}, nil
		}
	}
	return nil, Route{}, err
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
