package manager

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// A held poll would cost its handler's stack, the request and the buffers of net/http, some 60 KiB together, for nearly all
// of the time. So the connection is taken from the server while it is held: what remains is the TLS state and one goroutine
// with a small stack that reads, which shows both that the device is gone (it sends nothing while it waits) and, by the
// read's deadline, that the time is up or that it was woken. Once answered the connection goes back to the server.

// answerTime bounds the writing of an answer.
const answerTime = 30 * time.Second

// lot gives held connections back to the server: it is a listener of theirs.
type lot struct {
	conns chan net.Conn
	ends  chan struct{}
	once  sync.Once
}

func newLot() *lot { return &lot{conns: make(chan net.Conn, 64), ends: make(chan struct{})} }

// Accept implements net.Listener.
func (l *lot) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ends:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *lot) Close() error { l.once.Do(func() { close(l.ends) }); return nil }

// Addr implements net.Listener.
func (l *lot) Addr() net.Addr { return &net.TCPAddr{} }

// back hands a connection to the server, or closes it if there is none any more.
func (l *lot) back(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.ends:
		c.Close()
	}
}

// hold waits for d, or until w is woken, and then answers, unless the client is gone. It returns at once if it could take
// the connection, with the rest to come.
func (m *Manager) hold(w http.ResponseWriter, r *http.Request, d time.Duration, add func(*waiter) (remove func()), answer func(http.ResponseWriter)) {
	conn, rest, err := http.NewResponseController(w).Hijack()
	if err != nil { // HTTP/2, or no server at all
		m.holdHere(w, r, d, add, answer)
		return
	}
	if rest.Reader.Buffered() > 0 {
		conn.Close() // who sends on without an answer is no agent
		return
	}
	m.hub.held.Add(1)
	p := &parked{conn: conn, keep: m.lot != nil && !r.Close && r.ProtoAtLeast(1, 1)}
	remove := add(&waiter{wake: p.wake})
	go m.park(p, d, remove, answer)
}

// holdHere waits in the handler.
func (m *Manager) holdHere(w http.ResponseWriter, r *http.Request, d time.Duration, add func(*waiter) func(), answer func(http.ResponseWriter)) {
	m.hub.held.Add(1)
	defer m.hub.held.Add(-1)
	woken, once := make(chan struct{}), sync.Once{}
	defer add(&waiter{wake: func() { once.Do(func() { close(woken) }) }})()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-woken:
	case <-t.C:
	case <-r.Context().Done():
		return
	}
	answer(w)
}

// parked is a connection that is held.
type parked struct {
	conn net.Conn
	keep bool // the connection after the answer

	mu    sync.Mutex
	state parkState
}

type parkState uint8

const (
	waiting parkState = iota
	woken
	over // the connection's deadline is somebody else's again
)

var past = time.Unix(1, 0)

// wake may come late, when the time was up before it.
func (p *parked) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == waiting {
		p.state = woken
		_ = p.conn.SetReadDeadline(past) // fails for a closed connection, which needs no waking
	}
}

// deadline sets when the wait ends, unless it has been woken before.
func (p *parked) deadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == woken {
		t = past
	}
	return p.conn.SetReadDeadline(t)
}

// wait tells whether the client is still there when the time is up or p was woken.
func (p *parked) wait(d time.Duration) bool {
	if p.deadline(time.Now().Add(d)) != nil {
		return false
	}
	var b [1]byte
	n, err := p.conn.Read(b[:])
	p.mu.Lock()
	p.state = over
	p.mu.Unlock()
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

func (m *Manager) park(p *parked, d time.Duration, remove func(), answer func(http.ResponseWriter)) {
	defer m.hub.held.Add(-1)
	there := p.wait(d)
	remove()
	if !there || !p.answer(m, answer) || p.conn.SetDeadline(time.Time{}) != nil {
		p.conn.Close()
		return
	}
	m.lot.back(p.conn)
}

// answer writes what the handler answers and tells whether the connection goes on.
func (p *parked) answer(m *Manager, answer func(http.ResponseWriter)) (keep bool) {
	defer func() {
		if v := recover(); v != nil {
			m.opt.Log.Error("a held poll panicked", "at", panicSite())
			keep = false
		}
	}()
	w := &answerWriter{header: http.Header{}, status: http.StatusOK}
	answer(w)
	w.header.Set("Date", m.opt.Now().UTC().Format(http.TimeFormat))
	res := http.Response{ProtoMajor: 1, ProtoMinor: 1, StatusCode: w.status, Header: w.header, ContentLength: int64(len(w.body)),
		Body: io.NopCloser(strings.NewReader(w.body)), Close: !p.keep || m.hub.released()}
	out := answers.Get().(*bytes.Buffer)
	defer answers.Put(out)
	out.Reset()
	if res.Write(out) != nil || p.conn.SetWriteDeadline(time.Now().Add(answerTime)) != nil {
		return false
	}
	_, err := p.conn.Write(out.Bytes()) // at once, or every header line would be a TLS record
	return err == nil && !res.Close
}

// answers are buffers: after a publication the same large answer is written to everybody.
var answers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// answerWriter keeps an answer until it is complete. A document that is written as one string isn't copied.
type answerWriter struct {
	header http.Header
	status int
	body   string
}

func (w *answerWriter) Header() http.Header         { return w.header }
func (w *answerWriter) WriteHeader(status int)      { w.status = status }
func (w *answerWriter) Write(b []byte) (int, error) { return w.WriteString(string(b)) }
func (w *answerWriter) WriteString(s string) (int, error) {
	w.body += s
	return len(s), nil
}
