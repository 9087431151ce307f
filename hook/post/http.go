package post

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

const (
	maxHead    = 64 << 10
	maxInterim = 8 // 1xx answers before the real one
)

var (
	errHTTP = errors.New("the answer is not HTTP")
	errHead = errors.New("the answer's head is too long")
)

// appendRequest writes the head of a POST; requestTarget is what follows the
// method, a path or, for a proxy, a whole URL.
func appendRequest(dst []byte, method, requestTarget, host string, headers []Header) []byte {
	dst = append(dst, method...)
	dst = append(dst, ' ')
	dst = append(dst, requestTarget...)
	dst = append(dst, " HTTP/1.1\r\nhost: "...)
	dst = append(dst, host...)
	for _, h := range headers {
		dst = append(dst, "\r\n"...)
		dst = append(dst, h.Name...)
		dst = append(dst, ": "...)
		dst = append(dst, h.Value...)
	}
	return append(dst, "\r\n\r\n"...)
}

// Tunnel asks the proxy at the other end of conn to connect it to t; auth are
// the proxy's credentials, encoded, or "".
func Tunnel(conn io.ReadWriter, t Target, auth string) error {
	if strings.IndexByte(t.Host, ':') >= 0 {
		t.Host = "[" + t.Host + "]"
	}
	host := t.Host + ":" + t.Port
	var headers []Header
	if auth != "" {
		headers = append(headers, Header{"proxy-authorization", "Basic " + auth})
	}
	if _, err := conn.Write(appendRequest(nil, "CONNECT", host, host, headers)); err != nil {
		return err
	}
	r := reader{src: conn}
	h, err := r.head()
	switch {
	case err != nil:
		return err
	case h.status != 200:
		return errors.New("the proxy refused the connection: status " + strconv.Itoa(h.status))
	case len(r.buf) > 0:
		return errHTTP // TLS servers don't speak first
	}
	return nil
}

// maxOverdue is how much of an answer is still taken after the deadline: what
// had arrived before this process got a processor again. A connection that
// only waits by the deadline would serve an endless stream for ever.
const maxOverdue = 1 << 20

// reader reads one answer from a connection.
type reader struct {
	src      io.Reader
	deadline time.Time // zero: src ends by itself
	overdue  int       // bytes that came after it
	buf      []byte    // read and not yet consumed
	err      error     // what ended src
}

// fill reads once more; false at the end.
func (r *reader) fill() bool {
	if r.err != nil {
		return false
	}
	if cap(r.buf)-len(r.buf) < 512 {
		r.buf = append(make([]byte, 0, max(4<<10, 2*cap(r.buf))), r.buf...)
	}
	n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if r.err = err; err == nil && !r.deadline.IsZero() && !time.Now().Before(r.deadline) {
		if r.overdue += n; r.overdue > maxOverdue {
			r.err = local.ErrTimeout
		}
	}
	return n > 0 || err == nil
}

// fault is why the stream ended before its time.
func (r *reader) fault() error {
	if r.err == nil || r.err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return r.err
}

// line consumes one line without its ending.
func (r *reader) line(limit int) ([]byte, error) {
	for from := 0; ; {
		if i := bytes.IndexByte(r.buf[from:], '\n'); i >= 0 {
			line := r.buf[:from+i]
			r.buf = r.buf[from+i+1:]
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		}
		if from = len(r.buf); from > limit {
			return nil, errHead
		}
		if !r.fill() {
			return nil, r.fault()
		}
	}
}

// answer is an answer's head.
type head struct {
	status  int
	length  int64 // -1: unknown
	chunked bool
}

// head reads status line and header fields, interim answers passed over.
func (r *reader) head() (h head, err error) {
	for range maxInterim {
		if h, err = r.oneHead(); err != nil || h.status >= 200 || h.status == 101 {
			return h, err
		}
	}
	return h, errHTTP
}

func (r *reader) oneHead() (head, error) {
	h := head{length: -1}
	line, err := r.line(maxHead)
	if err != nil {
		return h, err
	}
	// HTTP/1.x SP 3DIGIT
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return h, errHTTP
	}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil || h.status < 100 {
		return h, errHTTP
	}
	for size := 0; ; {
		line, err := r.line(maxHead)
		if err != nil {
			return h, err
		}
		if len(line) == 0 {
			return h, nil
		}
		if size += len(line); size > maxHead {
			return h, errHead
		}
		name, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.EqualFold(name, "content-length"):
			if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 {
				h.length = n
			}
		case strings.EqualFold(name, "transfer-encoding"):
			h.chunked = strings.EqualFold(value[strings.LastIndexByte(value, ',')+1:], "chunked") ||
				strings.HasSuffix(strings.ToLower(value), "chunked")
		}
	}
}

// body reads the answer's body, limit bytes at most. cut says that there was
// more. With an error what had come until then is returned as well.
func (r *reader) body(h head, limit int) (body []byte, cut bool, err error) {
	switch {
	case h.status == 204 || h.status == 304 || h.length == 0 && !h.chunked:
		return nil, false, nil
	case h.chunked:
		return r.chunks(limit)
	case h.length > int64(limit):
		body, err = r.take(nil, limit)
		return body, err == nil, err
	case h.length > 0:
		body, err = r.take(nil, int(h.length))
		return body, false, err
	}
	for len(r.buf) <= limit && r.fill() {
	}
	if len(r.buf) > limit {
		return r.buf[:limit], true, nil
	}
	if r.err != io.EOF {
		return r.buf, false, r.fault()
	}
	return r.buf, false, nil
}

// take appends n more bytes to dst, fewer only with an error.
func (r *reader) take(dst []byte, n int) ([]byte, error) {
	for len(r.buf) < n {
		if !r.fill() {
			dst = append(dst, r.buf...)
			r.buf = nil
			return dst, r.fault()
		}
	}
	if dst == nil {
		dst = r.buf[:n:n]
	} else {
		dst = append(dst, r.buf[:n]...)
	}
	r.buf = r.buf[n:]
	return dst, nil
}

func (r *reader) chunks(limit int) (body []byte, cut bool, err error) {
	body = []byte{}
	for {
		line, err := r.line(maxHead)
		if err != nil {
			return body, false, err
		}
		size, _, _ := strings.Cut(string(line), ";")
		n, err := strconv.ParseUint(strings.TrimSpace(size), 16, 31)
		if err != nil {
			return body, false, errHTTP
		}
		if n == 0 {
			return body, false, nil // trailers say nothing that is asked for
		}
		room := limit - len(body)
		if body, err = r.take(body, min(int(n), room)); err != nil {
			return body, false, err
		}
		if int(n) > room {
			return body, true, nil
		}
		if _, err := r.line(2); err != nil {
			return body, false, err
		}
	}
}

// isTimeout says whether err is a deadline of any layer.
func isTimeout(err error) bool {
	if errors.Is(err, local.ErrTimeout) {
		return true
	}
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
