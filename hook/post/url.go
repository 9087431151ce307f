package post

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

var errURL = errors.New("the endpoint is no usable http, https, http+unix or http+npipe URL")

// Target is a parsed endpoint.
type Target struct {
	TLS   bool
	Host  string // without brackets, in lower case
	Port  string
	Auth  string        // Basic credentials of the URL, encoded; "" if none
	path  string        // request target: path and query as they were written
	local *local.Target // socket or pipe; nil for TCP
}

// ParseTarget reads an endpoint. It keeps path and query verbatim and refuses what
// can't stand in a request line.
func ParseTarget(raw string) (t Target, err error) {
	for i := 0; i < len(raw); i++ {
		if raw[i] <= ' ' || raw[i] == 0x7f {
			return t, errURL
		}
	}
	if lt, ok := local.ParseURL(raw); ok {
		return Target{local: &lt, Host: "localhost", path: lt.Path}, nil
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	switch scheme = strings.ToLower(scheme); {
	case !ok:
		return t, errURL
	case scheme == "http":
		t.Port = "80"
	case scheme == "https":
		t.Port, t.TLS = "443", true
	default:
		return t, errURL
	}
	rest, _, _ = strings.Cut(rest, "#")
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, t.path = rest[:i], rest[i:]
	}
	if t.path == "" || t.path[0] != '/' {
		t.path = "/" + t.path
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, ok := unescape(authority[:i])
		if !ok {
			return t, errURL
		}
		if !strings.Contains(user, ":") {
			user += ":"
		}
		t.Auth = base64.StdEncoding.EncodeToString([]byte(user))
		authority = authority[i+1:]
	}
	if t.Host, err = t.splitPort(authority); err != nil {
		return t, err
	}
	return t, nil
}

// splitPort sets the port of host[:port] and returns the host.
func (t *Target) splitPort(s string) (string, error) {
	port := ""
	if strings.HasPrefix(s, "[") {
		i := strings.IndexByte(s, ']')
		if i < 0 {
			return "", errURL
		}
		s, port = s[1:i], s[i+1:]
	} else if i := strings.IndexByte(s, ':'); i >= 0 {
		s, port = s[:i], s[i:]
	}
	if port != "" && port != ":" {
		n, err := strconv.ParseUint(port[1:], 10, 16)
		if port[0] != ':' || err != nil {
			return "", errURL
		}
		t.Port = strconv.FormatUint(n, 10)
	}
	if s == "" {
		return "", errURL
	}
	return strings.ToLower(s), nil
}

// Authority is the value of the Host header.
func (t *Target) Authority() string {
	host := t.Host
	if strings.IndexByte(host, ':') >= 0 {
		host = "[" + host + "]"
	}
	if t.local != nil || t.TLS && t.Port == "443" || !t.TLS && t.Port == "80" {
		return host
	}
	return host + ":" + t.Port
}

// Loopback says whether the host is this machine in any spelling.
func Loopback(host string) bool { return loopback(host) != nil }

// loopback returns the addresses to try, in order, for a host that is this
// machine in any spelling: localhost, localhost., *.localhost, 127.1, ::1,
// ::ffff:127.0.0.1, 0.0.0.0. It resolves nothing.
func loopback(host string) []ip {
	host = strings.TrimSuffix(host, ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return []ip{v4(127, 0, 0, 1), v6one}
	}
	host, _, _ = strings.Cut(host, "%")
	if a, ok := parseIPv4(host); ok {
		switch {
		case a[0] == 127:
			return []ip{{v4: true, b: [16]byte{a[0], a[1], a[2], a[3]}}}
		case a == [4]byte{}:
			return []ip{v4(127, 0, 0, 1)}
		}
		return nil
	}
	return loopback6(host)
}

// ip is an address for the socket: its first four bytes for IPv4.
type ip struct {
	v4 bool
	b  [16]byte
}

var v6one = ip{b: [16]byte{15: 1}}

func v4(a, b, c, d byte) ip { return ip{v4: true, b: [16]byte{a, b, c, d}} }

// parseIPv4 reads the forms of inet_aton: one to four parts, decimal, octal or
// hexadecimal, the last filling what is left.
func parseIPv4(s string) (out [4]byte, ok bool) {
	var parts [4]uint64
	n := 0
	for part := range strings.SplitSeq(s, ".") {
		if n == 4 || part == "" || strings.IndexByte(part, '_') >= 0 || part[0] < '0' || part[0] > '9' {
			return out, false
		}
		v, err := strconv.ParseUint(part, 0, 32)
		if err != nil {
			return out, false
		}
		parts[n] = v
		n++
	}
	if n == 0 {
		return out, false
	}
	last := parts[n-1]
	if last >= 1<<(8*(5-n)) {
		return out, false
	}
	for i := range n - 1 {
		if parts[i] > 255 {
			return out, false
		}
		out[i] = byte(parts[i])
	}
	for i := 3; i >= n-1; i-- {
		out[i] = byte(last)
		last >>= 8
	}
	return out, true
}

func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(v))
		i += 2
	}
	return string(b), true
}
