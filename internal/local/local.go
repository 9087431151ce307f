// Package local is both ends of the agent's local endpoint, a Unix-domain
// socket or a Windows named pipe: its URL form, dialing, listening, and who is
// at the other end as the kernel says. It speaks no HTTP and, in its dialing
// half, imports neither net nor anything that start-up would pay for.
package local

import (
	"errors"
	"io"
	"strings"
	"time"
)

// Target is where a URL of a local endpoint leads.
type Target struct {
	Network string // "unix" or "pipe"
	Address string // socket path, or \\.\pipe\name
	Path    string // request path with its query, "/" at least
}

// Conn is one end of a connection. Every call ends by the deadline.
type Conn interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
}

var (
	// ErrTimeout says that the deadline came first.
	ErrTimeout = errors.New("deadline exceeded")
	// ErrAnswered says that a Write stopped because the peer had already sent
	// something: an HTTP server that refuses a body before it has read it.
	ErrAnswered = errors.New("the peer answered before everything was written")
)

const (
	unixScheme = "http+unix://"
	pipeScheme = "http+npipe://"
	pipeRoot   = `\\.\pipe\`
)

// ParseURL reads the two URL forms of hook.md 4.1:
// http+unix://<percent-encoded socket path>/path and
// http+npipe://./pipe/<name>/path. ok is false for everything else.
func ParseURL(raw string) (t Target, ok bool) {
	switch {
	case hasPrefixFold(raw, unixScheme):
		host, path := cutPath(raw[len(unixScheme):])
		sock, ok := unescape(host)
		if !ok || sock == "" || strings.IndexByte(sock, 0) >= 0 {
			return Target{}, false
		}
		return Target{"unix", sock, path}, true
	case hasPrefixFold(raw, pipeScheme):
		rest := raw[len(pipeScheme):]
		if !hasPrefixFold(rest, "./pipe/") {
			return Target{}, false
		}
		name, path := cutPath(rest[len("./pipe/"):])
		name, ok := unescape(name)
		if !ok || name == "" || strings.ContainsAny(name, "\x00/\\") {
			return Target{}, false
		}
		return Target{"pipe", pipeRoot + name, path}, true
	}
	return Target{}, false
}

// URL is the inverse of ParseURL. path begins with a slash.
func URL(address, path string) string {
	if name, ok := strings.CutPrefix(address, pipeRoot); ok {
		return pipeScheme + "./pipe/" + escape(name) + path
	}
	return unixScheme + escape(address) + path
}

func cutPath(s string) (host, path string) {
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		host, path = s[:i], s[i:]
	} else {
		host = s
	}
	path, _, _ = strings.Cut(path, "#")
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	return host, path
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~':
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
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
		hi, lo := unhex(s[i+1]), unhex(s[i+2])
		if hi > 15 || lo > 15 {
			return "", false
		}
		b = append(b, hi<<4|lo)
		i += 2
	}
	return string(b), true
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 0xff
}
