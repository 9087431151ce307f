package relay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/pinta-ai/pinta-agent/internal/otlp"
	"github.com/pinta-ai/pinta-agent/internal/version"
	"github.com/pinta-ai/pinta-agent/sync/spool"
)

// BatchHeader carries a batch's id to the Manager, which takes each id once.
const BatchHeader = "Pinta-Batch-Id"

const (
	firstWait    = time.Second
	longestWait  = 5 * time.Minute  // of what is retried
	longestHold  = 15 * time.Minute // of what is held
	longestAsked = time.Hour        // the most a server may ask for by Retry-After
	attemptTime  = time.Minute
	lastAttempt  = 3 * time.Second // what an attempt under way has left when Run is to stop
	maxAnswer    = 64 << 10
	minBatch     = 16 << 10
)

// Destination is where spans go. The zero Destination keeps them in the spool.
type Destination struct {
	URL    string            // in full, of the traces endpoint
	Header map[string]string // for a collector; secrets
	// Sign makes it the Manager: it returns the Authorization of one attempt at a
	// request (uri is path and query, body as sent), and batches carry their id.
	Sign func(method, uri string, body []byte) (header string, err error)
}

// String names the destination without what may be secret in it.
func (d Destination) String() string {
	u, err := url.Parse(d.URL)
	if err != nil || d.URL == "" {
		return "(none)"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// LogValue keeps headers out of logs.
func (d Destination) LogValue() slog.Value { return slog.StringValue(d.String()) }

// ExporterOptions wire an Exporter.
type ExporterOptions struct {
	Spool *spool.Spool
	// Client brings the transport: TLS, CA and proxy. Its redirect policy is
	// replaced: none is followed.
	Client *http.Client
	// Destination is asked before each attempt.
	Destination func() Destination
	Batch       int           // bytes of spans a request, 1 MiB
	Linger      time.Duration // how long a batch may wait for more, 500 ms
	Clock       func() time.Time
	Log         *slog.Logger
}

// ExportState says how delivery goes.
type ExportState string

const (
	ExportOff      ExportState = "off"      // no destination
	ExportOK       ExportState = "ok"       // the last attempt succeeded, or none was needed yet
	ExportRetrying ExportState = "retrying" // the receiver fails or can't be reached
	ExportHeld     ExportState = "held"     // the receiver refuses us (401, 403, 404, redirects): a person must act
)

// ExportStats count since NewExporter.
type ExportStats struct {
	State       ExportState       `json:"state"`
	Destination string            `json:"destination"`
	Detail      string            `json:"detail,omitempty"` // of the last failure, while not ok
	Since       time.Time         `json:"since"`            // of the state
	LastSuccess time.Time         `json:"lastSuccess"`
	Attempts    uint64            `json:"attempts"`
	Batches     uint64            `json:"batches"`
	Spans       uint64            `json:"spans"`    // taken by the receiver, the rejected included
	Rejected    uint64            `json:"rejected"` // by partial success
	Dropped     map[string]uint64 `json:"dropped"`  // spans, by the status that the receiver gave for good
}

// Exporter delivers a spool, one batch at a time.
type Exporter struct {
	o      ExporterOptions
	client *http.Client
	kick   chan struct{}
	batch  int // bytes, smaller after a 413

	mu    sync.Mutex
	stats ExportStats
}

// NewExporter returns an Exporter that Run starts.
func NewExporter(o ExporterOptions) *Exporter {
	o.Batch = cmp.Or(o.Batch, 1<<20)
	o.Linger = cmp.Or(o.Linger, 500*time.Millisecond)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Exporter{o: o, kick: make(chan struct{}, 1), batch: o.Batch}
	e.stats = ExportStats{State: ExportOK, Since: o.Clock(), Dropped: map[string]uint64{}}
	return e
}

// Kick makes a waiting Exporter try at once: the destination or the identity
// changed.
func (e *Exporter) Kick() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// Stats returns what there is now.
func (e *Exporter) Stats() ExportStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := e.stats
	st.Dropped = maps.Clone(st.Dropped)
	return st
}

// Run delivers until ctx ends, then finishes the attempt under way for at most
// 3 s. What is not delivered stays in the spool.
func (e *Exporter) Run(ctx context.Context) error {
	hard, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastAttempt, kill) })()
	e.client = &http.Client{
		Transport:     attempts{next: e.o.Client.Transport, hard: hard},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer e.client.CloseIdleConnections()
	for ctx.Err() == nil {
		d := e.o.Destination()
		if d.URL == "" {
			e.state(ExportOff, d, "")
			e.wait(ctx, 10*time.Second)
			continue
		}
		b, err := e.o.Spool.Next(e.batch)
		switch {
		case err != nil:
			e.state(ExportRetrying, d, err.Error())
			e.wait(ctx, 10*time.Second)
		case b == nil:
			if e.stateNow() == ExportOff {
				e.state(ExportOK, d, "")
			}
			e.gather(ctx)
		default:
			e.deliver(ctx, b)
		}
	}
	return nil
}

// gather waits for something to deliver, and then for more of it.
func (e *Exporter) gather(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-e.kick:
		return
	case <-e.o.Spool.Wake():
	}
	for deadline := time.Now().Add(e.o.Linger); ; {
		left := time.Until(deadline)
		if left <= 0 || e.o.Spool.Stats().Bytes >= int64(e.batch) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(left, 100*time.Millisecond)):
		}
	}
}

func (e *Exporter) wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-e.kick:
	case <-time.After(d):
	}
}

// deliver brings one batch to an end, or leaves it under way when ctx ends or a
// kick comes.
func (e *Exporter) deliver(ctx context.Context, b *spool.Batch) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-e.kick:
			cancel()
		case <-done:
		}
	}()
	for b != nil {
		status, answer, err := e.post(ctx, b)
		n := uint64(len(b.Records))
		switch {
		case err != nil:
			if ctx.Err() == nil { // not even an attempt: the request can't be made
				e.state(ExportRetrying, e.o.Destination(), reason(err))
				e.wait(ctx, 10*time.Second)
			}
			return
		case status == http.StatusRequestEntityTooLarge && len(b.Records) > 1:
			e.batch = max(b.Bytes/2, minBatch)
			half, err := e.o.Spool.Halve(b)
			if err != nil {
				e.o.Log.Warn("export: batch too large and not halved", "err", err)
				e.wait(ctx, firstWait)
				return
			}
			b = half
			continue
		case status >= 200 && status < 300:
			if e.batch < e.o.Batch {
				e.batch = min(e.o.Batch, e.batch+e.batch/4)
			}
			e.count(func(s *ExportStats) {
				s.Batches, s.Spans = s.Batches+1, s.Spans+n
				s.Rejected += min(uint64(max(answer.Rejected, 0)), n)
				s.LastSuccess = e.o.Clock()
			})
			if answer.Rejected > 0 {
				e.o.Log.Warn("export: spans rejected", "spans", answer.Rejected, "message", clip(answer.Message))
			}
		default:
			e.count(func(s *ExportStats) { s.Dropped[strconv.Itoa(status)] += n })
			e.o.Log.Warn("export: spans dropped", "spans", n, "status", status, "message", clip(answer.Message))
		}
		if err := e.o.Spool.Done(b); err != nil {
			e.o.Log.Warn("export", "err", err)
		}
		return
	}
}

// post sends a batch until there is an answer for good.
func (e *Exporter) post(ctx context.Context, b *spool.Batch) (status int, answer otlp.Answer, err error) {
	body := pack(encodeBatch(b.Records))
	to := e.o.Destination()
	client := &retryablehttp.Client{
		HTTPClient: e.client, RetryMax: math.MaxInt,
		Backoff: func(_, _ time.Duration, attempt int, res *http.Response) time.Duration {
			return backoff(attempt, res, e.o.Clock())
		},
		CheckRetry: func(ctx context.Context, res *http.Response, err error) (bool, error) {
			return e.judge(ctx, to, res, err)
		},
		PrepareRetry: func(req *http.Request) error {
			to = e.o.Destination()
			return address(req, to, b.ID, body)
		},
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, to.URL, body)
	if err == nil {
		err = address(req.Request, to, b.ID, body)
	}
	if err != nil {
		return 0, otlp.Answer{}, err
	}
	res, err := client.Do(req)
	if err != nil {
		if res != nil {
			res.Body.Close()
		}
		return 0, otlp.Answer{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode < 300 && err != nil {
		raw = nil // taken, whatever it had to say
	}
	e.state(ExportOK, to, "")
	answer = otlp.ReadAnswer(res.Header.Get("Content-Type"), raw)
	if res.StatusCode >= 300 {
		answer = otlp.Answer{Message: printable(raw)}
	}
	return otlp.Status(res.StatusCode, raw), answer, nil
}

// address makes a request one to d. It is called for each attempt, as a
// signature is good for one.
func address(req *http.Request, d Destination, batch string, body []byte) error {
	u, err := url.Parse(d.URL)
	if err != nil || u.Host == "" {
		return errors.New("no destination")
	}
	req.URL, req.Host = u, u.Host
	req.Header = http.Header{
		"Content-Type":     {typeProto},
		"Content-Encoding": {"gzip"},
		"User-Agent":       {"pinta-agent/" + version.Version},
	}
	if d.Sign == nil {
		for k, v := range d.Header {
			req.Header.Set(k, v)
		}
		return nil
	}
	req.Header.Set(BatchHeader, batch)
	auth, err := d.Sign(req.Method, u.RequestURI(), body)
	if err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	req.Header.Set("Authorization", auth)
	return nil
}

// judge is the classes of manager.md 5: what is final ends the retries.
func (e *Exporter) judge(ctx context.Context, to Destination, res *http.Response, err error) (retry bool, _ error) {
	e.count(func(s *ExportStats) { s.Attempts++ })
	if err != nil {
		e.state(ExportRetrying, to, reason(err))
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		return true, nil
	}
	switch s := res.StatusCode; {
	case s >= 200 && s < 300, s == 400, s == 413, s == 415, s == 422:
		return false, nil
	case held(s):
		e.state(ExportHeld, to, res.Status)
	default:
		e.state(ExportRetrying, to, res.Status)
	}
	return true, ctx.Err()
}

func held(status int) bool {
	return status == 401 || status == 403 || status == 404 || status >= 300 && status < 400
}

// backoff is full jitter between nothing and twice as long each time; what the
// server asks for is waited at least, with jitter on top.
func backoff(attempt int, res *http.Response, now time.Time) time.Duration {
	most := longestWait
	if res != nil && held(res.StatusCode) {
		most = longestHold
	}
	if attempt < 16 {
		most = min(most, firstWait<<attempt)
	}
	wait := rand.N(most)
	if res == nil {
		return wait
	}
	asked, ok := retryAfter(res.Header.Get("Retry-After"), now)
	if !ok {
		return wait
	}
	asked = min(asked, longestAsked)
	return asked + rand.N(asked/4+firstWait/4)
}

func retryAfter(v string, now time.Time) (time.Duration, bool) {
	if s, err := strconv.ParseInt(v, 10, 32); err == nil && s >= 0 {
		return time.Duration(s) * time.Second, true
	}
	if t, err := http.ParseTime(v); err == nil && t.After(now) {
		return t.Sub(now), true
	}
	return 0, false
}

// attempts gives each attempt its own time, apart from the context that ends
// the waits between them.
type attempts struct {
	next http.RoundTripper
	hard context.Context
}

func (a attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(a.hard, attemptTime)
	res, err := a.next.RoundTrip(req.Clone(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	res.Body = endBody{res.Body, cancel}
	return res, nil
}

func (a attempts) CloseIdleConnections() {
	if c, ok := a.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type endBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b endBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

func (e *Exporter) count(f func(*ExportStats)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.stats)
}

func (e *Exporter) stateNow() ExportState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats.State
}

// state notes how it goes, and logs a change once.
func (e *Exporter) state(to ExportState, d Destination, detail string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	detail = clip(detail)
	if e.stats.State != to {
		e.stats.Since = e.o.Clock()
		if to == ExportOK || to == ExportOff {
			e.o.Log.Info("export: "+string(to), "destination", d)
		} else {
			e.o.Log.Warn("export: "+string(to), "destination", d, "detail", detail)
		}
	}
	e.stats.State, e.stats.Destination, e.stats.Detail = to, d.String(), detail
}

// reason is an error without the URL, which may hold secrets.
func reason(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

func printable(b []byte) string {
	return string(bytes.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return ' '
		}
		return r
	}, b[:min(len(b), 256)]))
}

func clip(s string) string { return printable([]byte(s)) }

var packers = sync.Pool{New: func() any { z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed); return z }}

// pack compresses; the same input gives the same bytes.
func pack(b []byte) []byte {
	var out bytes.Buffer
	z := packers.Get().(*gzip.Writer)
	z.Reset(&out)
	_, _ = z.Write(b) // a bytes.Buffer takes all
	_ = z.Close()
	packers.Put(z)
	return out.Bytes()
}
