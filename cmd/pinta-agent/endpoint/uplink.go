package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

// The device key stays with the parent. What the child has for the Manager it
// hands over as a whole request; the parent makes only those that a relay
// needs, so a child that was taken over can neither sign nor do anything else
// in the device's name.

// uplink is the child's transport: requests to the Manager go to the parent,
// all others to the network.
type uplink struct {
	send    func(fromChild) error
	manager func() string // base URL
	direct  http.RoundTripper

	mu      sync.Mutex
	last    int64
	closed  bool
	waiting map[int64]chan *uploaded
}

func newUplink(send func(fromChild) error, manager func() string, direct http.RoundTripper) *uplink {
	return &uplink{send: send, manager: manager, direct: direct, waiting: map[int64]chan *uploaded{}}
}

// RoundTrip implements http.RoundTripper.
func (u *uplink) RoundTrip(r *http.Request) (*http.Response, error) {
	base, err := url.Parse(u.manager())
	if err != nil || base.Host == "" || r.URL.Host != base.Host || r.URL.Scheme != base.Scheme {
		return u.direct.RoundTrip(r)
	}
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		if body, err = io.ReadAll(io.LimitReader(r.Body, maxUpload+1)); err != nil {
			return nil, err
		}
	}
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		return nil, errEnding
	}
	u.last++
	id := u.last
	answer := make(chan *uploaded, 1)
	u.waiting[id] = answer
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		delete(u.waiting, id)
		u.mu.Unlock()
	}()
	if err := u.send(fromChild{Upload: &upload{ID: id, Method: r.Method, URI: r.URL.RequestURI(), Header: r.Header, Body: body}}); err != nil {
		return nil, err
	}
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case a := <-answer:
		if a.Error != "" {
			return nil, errors.New(a.Error)
		}
		return &http.Response{StatusCode: a.Status, Status: fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)),
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.Header, Request: r,
			Body: io.NopCloser(bytes.NewReader(a.Body)), ContentLength: int64(len(a.Body))}, nil
	}
}

func (u *uplink) answer(a *uploaded) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if waiting := u.waiting[a.ID]; waiting != nil {
		delete(u.waiting, a.ID) // a second answer would wait for ever
		waiting <- a
	}
}

var errEnding = errors.New("the service is ending")

// close ends what waits for answers: none comes any more, and the next child
// makes the upload again.
func (u *uplink) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for id, waiting := range u.waiting {
		select {
		case waiting <- &uploaded{ID: id, Error: errEnding.Error()}:
		default: // it was answered just now
		}
	}
}

const (
	maxUpload     = 8 << 20
	uploadTime    = time.Minute
	tracesURI     = api.Prefix + "/device/v1/traces"
	contentHeader = "Content-Type"
)

// passedHeaders are what an upload may carry besides its body.
var passedHeaders = []string{contentHeader, "Content-Encoding", "Pinta-Batch-Id", "User-Agent"}

// carry makes a child's upload with the device's transport, if it is one that
// a relay may ask for.
func carry(ctx context.Context, u *upload, manager string, device http.RoundTripper) *uploaded {
	a := &uploaded{ID: u.ID}
	if u.Method != http.MethodPost || u.URI != tracesURI || len(u.Body) > maxUpload {
		a.Error = "refused: a relay may only deliver traces"
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, u.Method, manager+u.URI, bytes.NewReader(u.Body))
	if err != nil {
		a.Error = err.Error()
		return a
	}
	for _, name := range passedHeaders {
		if v := u.Header.Get(name); v != "" {
			r.Header.Set(name, v)
		}
	}
	response, err := device.RoundTrip(r)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	defer response.Body.Close()
	if a.Body, err = io.ReadAll(io.LimitReader(response.Body, 64<<10)); err != nil {
		a.Error = err.Error()
		return a
	}
	a.Status = response.StatusCode
	a.Header = http.Header{contentHeader: response.Header[contentHeader], "Retry-After": response.Header["Retry-After"]}
	return a
}
