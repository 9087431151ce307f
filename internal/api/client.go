package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// MaxAnswer bounds what is read of an answer, in bytes.
const MaxAnswer = 16 << 20

// ErrNotModified is what Raw returns for a 304.
var ErrNotModified = errors.New("nothing newer")

// Doer sends a request; *http.Client and retrying clients do.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Client calls a Manager. Its methods are generated; their answers go through JSON, Raw or Done, which turn a problem
// document into a *Problem.
type Client struct {
	BaseURL string // of the Manager, without Prefix
	HTTP    Doer
	// Authorize signs a request whose body is exactly this one; nil for the enrolment and public surface. Retries must call
	// the method again: a device JWT is good for one try.
	Authorize func(r *http.Request, body []byte) error
	UserAgent string
}

// call is one request in the making.
type call struct {
	method, path string // path holds %s for each of args
	args         []any
	query        url.Values
	header       http.Header
}

func pathArg[T ~string | ~int64](v T) any { return url.PathEscape(fmt.Sprint(v)) }

func (q *call) inQuery(name string, v any) {
	if s := text(v); s != "" {
		if q.query == nil {
			q.query = url.Values{}
		}
		q.query.Set(name, s)
	}
}

func (q *call) inHeader(name string, v any) {
	if s := text(v); s != "" {
		if q.header == nil {
			q.header = http.Header{}
		}
		q.header.Set(name, s)
	}
}

// text is the wire form of a parameter; the zero value is absent.
func text(v any) string {
	switch v := v.(type) {
	case int:
		if v == 0 {
			return ""
		}
		return strconv.Itoa(v)
	default:
		return fmt.Sprint(v)
	}
}

func (c *Client) do(ctx context.Context, q call, contentType string, body any) (*http.Response, error) {
	raw, isRaw := body.([]byte)
	if body != nil && !isRaw {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode the body of %s %s: %w", q.method, q.path, err)
		}
	}
	u := strings.TrimSuffix(c.BaseURL, "/") + Prefix + fmt.Sprintf(q.path, q.args...)
	if len(q.query) > 0 {
		u += "?" + q.query.Encode()
	}
	var reader io.Reader
	if raw != nil {
		reader = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, q.method, u, reader)
	if err != nil {
		return nil, fmt.Errorf("call the manager: %w", err)
	}
	for k, v := range q.header {
		r.Header[k] = v
	}
	if e, ok := ctx.Value(encodingKey{}).(string); ok && raw != nil {
		r.Header.Set("Content-Encoding", e)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if c.UserAgent != "" {
		r.Header.Set("User-Agent", c.UserAgent)
	}
	if c.Authorize != nil {
		if err := c.Authorize(r, raw); err != nil {
			return nil, fmt.Errorf("sign the call of the manager: %w", err)
		}
	}
	return c.HTTP.Do(r)
}

type encodingKey struct{}

// WithEncoding declares the content encoding of a raw body, e.g. gzip.
func WithEncoding(ctx context.Context, encoding string) context.Context {
	return context.WithValue(ctx, encodingKey{}, encoding)
}

// JSON reads an answer in JSON: api.JSON[api.ReportReply](c.ReportDevice(ctx, report)).
func JSON[T any](res *http.Response, err error) (T, error) {
	var v T
	body, err := Raw(res, err)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("read the manager's answer: %w", err)
	}
	return v, nil
}

// Done reads an answer that only says whether it worked.
func Done(res *http.Response, err error) error {
	_, err = Raw(res, err)
	return err
}

// Raw reads an answer as it is: a JWS or protobuf. Errors: *Problem, ErrNotModified, or what the transport says.
func Raw(res *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := readAll(res)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the manager's answer: %w", err)
	case len(body) > MaxAnswer:
		return nil, fmt.Errorf("the manager's answer is over %d bytes", MaxAnswer)
	case res.StatusCode == http.StatusNotModified:
		return nil, ErrNotModified
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return body, nil
	}
	return nil, problemOf(res, body)
}

// readAll reads a body of MaxAnswer+1 bytes at most, into one buffer if its length is told.
func readAll(res *http.Response) ([]byte, error) {
	if n := res.ContentLength; n >= 0 && n <= MaxAnswer {
		body := make([]byte, n)
		_, err := io.ReadFull(res.Body, body)
		return body, err
	}
	return io.ReadAll(io.LimitReader(res.Body, MaxAnswer+1))
}

// maxRetryAfter bounds the pause that an answer may ask for, in seconds: it may be a proxy's, or mistaken, and nobody is to be
// silent for days because of it.
const maxRetryAfter = 3600

// problemOf reads a problem document. What somebody else answers, a proxy say, becomes one with an empty code: it proves
// nothing about the device or its token.
func problemOf(res *http.Response, body []byte) *Problem {
	var p Problem
	mt, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if mt != "application/problem+json" || json.Unmarshal(body, &p) != nil || p.Code == "" {
		p = Problem{Type: "about:blank", Title: "answer " + strconv.Itoa(res.StatusCode) + " that is not the Manager's"}
	}
	p.Status = res.StatusCode
	if p.RetryAfter == 0 {
		p.RetryAfter = RetryAfter(res.Header.Get("Retry-After"), time.Now())
	}
	p.RetryAfter = min(max(p.RetryAfter, 0), maxRetryAfter)
	return &p
}

// retryAfter reads the header's two forms; 0 if there is none.
func RetryAfter(h string, now time.Time) int {
	if s, err := strconv.Atoi(h); err == nil {
		return max(0, s)
	}
	if t, err := http.ParseTime(h); err == nil {
		return max(0, int(t.Sub(now).Seconds())+1)
	}
	return 0
}
