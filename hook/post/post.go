// Package post is the hook's HTTP client: one POST to a collector or guard, by
// one deadline, without redirects, over a local socket, a pipe or TCP on this
// machine; package remote adds other machines, TLS and proxies.
// It exists because linking net/http alone doubles the hook's start-up time; it
// is no general client and keeps no connection.
package post

import (
	"errors"
	"strconv"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

// Header is one request header, its name in lower case.
type Header struct{ Name, Value string }

// Env finds the variables that rule proxies and extra certificates.
type Env func(key string) string

// Request is one POST.
type Request struct {
	URL     string
	Headers []Header
	Body    []byte
	Limit   int // of the answer's body, in bytes
}

// Answer is what came back. Body is no longer than the limit.
type Answer struct {
	Status int
	Body   []byte
	Cut    bool // the body was longer than the limit
}

// ErrTimeout says that the deadline came before the whole answer.
var ErrTimeout = errors.New("no answer in time")

// Local says whether url leads to a socket or pipe, that is to this machine by
// no network at all.
func Local(url string) bool {
	_, ok := local.ParseURL(url)
	return ok
}

// Do sends req and returns the answer, whatever its status. One deadline
// covers connect, TLS, head and body. When only the body failed, the error
// comes with what had been read.
func Do(req Request, env Env, deadline time.Time) (Answer, error) {
	a, err := do(req, env, deadline)
	if err != nil && isTimeout(err) {
		err = ErrTimeout
	}
	return a, err
}

func do(req Request, env Env, deadline time.Time) (a Answer, err error) {
	t, err := ParseTarget(req.URL)
	if err != nil {
		return a, err
	}
	conn, via, err := connect(t, env, deadline)
	if err != nil {
		return a, err
	}
	defer func() { _ = conn.Close() }()

	out := appendHead(make([]byte, 0, 1<<10+min(len(req.Body), maxJoined)), &req, &t, &via)
	small := len(req.Body) <= maxJoined
	if small {
		out = append(out, req.Body...)
	}

	// A server may answer, and hang up, before it has read everything: 413.
	// Only if it has not answered does the failed write count.
	_, werr := conn.Write(out)
	if !small && werr == nil {
		_, werr = conn.Write(req.Body)
	}
	if werr != nil && isTimeout(werr) {
		return a, werr
	}
	r := reader{src: conn, deadline: deadline}
	h, err := r.head()
	if err != nil {
		if werr != nil && werr != local.ErrAnswered {
			return a, werr
		}
		return a, err
	}
	a.Status = h.status
	a.Body, a.Cut, err = r.body(h, req.Limit)
	return a, err
}

// appendHead writes request line and headers.
func appendHead(dst []byte, req *Request, t *Target, via *Route) []byte {
	headers := make([]Header, 0, len(req.Headers)+4)
	headers = append(headers, req.Headers...)
	headers = append(headers, Header{"connection", "close"}, Header{"content-length", strconv.Itoa(len(req.Body))})
	if t.Auth != "" && !has(req.Headers, "authorization") {
		headers = append(headers, Header{"authorization", "Basic " + t.Auth})
	}
	if via.Auth != "" {
		headers = append(headers, Header{"proxy-authorization", "Basic " + via.Auth})
	}
	return appendRequest(dst, "POST", via.Prefix+t.path, t.Authority(), headers)
}

// maxJoined is up to which size a body is copied behind its head for one
// write instead of two.
const maxJoined = 64 << 10

func has(headers []Header, name string) bool {
	for _, h := range headers {
		if h.Name == name {
			return true
		}
	}
	return false
}
