package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/otlp"
	"github.com/pinta-ai/pinta-agent/sync/spool"
)

// wire is a transport to a receiver without sockets, so that time can be faked.
type wire struct {
	*receiver
	mu    sync.Mutex
	calls []call2
	delay time.Duration
	fail  func() error
}

type call2 struct {
	at     time.Time
	batch  string
	status int
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.delay > 0 {
		select {
		case <-time.After(w.delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if w.fail != nil {
		if err := w.fail(); err != nil {
			w.note(r, 0)
			return nil, err
		}
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	w.note(r, rec.Code)
	return rec.Result(), nil
}

func (w *wire) note(r *http.Request, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call2{time.Now(), r.Header.Get(BatchHeader), status})
}

func newWire() *wire {
	return &wire{receiver: &receiver{spans: map[string]int{}, batches: map[string]string{}}}
}

func (f *fixture) exporter(w *wire, batch int) *Exporter {
	return NewExporter(ExporterOptions{
		Spool: f.spool, Client: &http.Client{Transport: w}, Batch: batch,
		Destination: func() Destination {
			return Destination{URL: "https://manager.example.com/api/v1/device/v1/traces", Sign: func(string, string, []byte) (string, error) { return "Bearer x", nil }}
		},
	})
}

// A day without a Manager, 10 000 events meanwhile: none lost, none twice.
func TestOutageOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, spool.Options{})
		w := newWire()
		down := time.Now().Add(24 * time.Hour)
		w.fail = func() error {
			if time.Now().Before(down) {
				return errors.New("connection refused")
			}
			return nil
		}
		e := f.exporter(w, 256<<10)
		stop := run(t, e)
		for i := range 10_000 {
			f.send(t, hookSpan(i, "", kv("pad", strings.Repeat("x", i%500))))
			if i == 5_000 && e.Stats().State != ExportRetrying {
				t.Errorf("state %s during the outage", e.Stats().State)
			}
			time.Sleep(24 * time.Hour / 10_000)
		}
		w.mu.Lock()
		n := len(w.calls)
		w.mu.Unlock()
		if n < 24*60/10 || n > 24*60 {
			t.Errorf("%d attempts in a day", n)
		}
		time.Sleep(20 * time.Minute)
		stop()
		w.check(t, 10_000)
		if st := f.Stats().Spool; st.Records != 0 || st.Dropped() != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestReceiversFaults(t *testing.T) {
	status := func(codes ...int) func(http.ResponseWriter, *http.Request, int, []string) int {
		return func(_ http.ResponseWriter, _ *http.Request, try int, _ []string) int {
			if try <= len(codes) {
				return codes[try-1]
			}
			return 0
		}
	}
	const spans = 40
	for _, c := range []struct {
		name    string
		answer  func(http.ResponseWriter, *http.Request, int, []string) int
		after   time.Duration // when to look
		arrived int
		dropped string
		state   ExportState // seen at some time
	}{
		{"takes all", status(), time.Minute, spans, "", ExportOK},
		{"503, then well", status(503, 503, 502, 500), time.Minute, spans, "", ExportRetrying},
		{"408 is retried", status(408), time.Minute, spans, "", ExportRetrying},
		{"429 with Retry-After", func(w http.ResponseWriter, _ *http.Request, try int, _ []string) int {
			if try == 1 {
				w.Header().Set("Retry-After", "120")
				return 429
			}
			return 0
		}, 3 * time.Minute, spans, "", ExportRetrying},
		{"401 is held", status(401, 403, 404, 401), 10 * time.Minute, spans, "", ExportHeld},
		{"a redirect is held, not followed", func(w http.ResponseWriter, _ *http.Request, try int, _ []string) int {
			if try == 1 {
				w.Header().Set("Location", "https://evil.example.com/")
				return 307
			}
			return 0
		}, time.Minute, spans, "", ExportHeld},
		{"400 drops", status(400), time.Minute, 0, "400", ExportOK},
		{"415 drops", status(415), time.Minute, 0, "415", ExportOK},
		{"422 drops", status(422), time.Minute, 0, "422", ExportOK},
		{"413 splits", func(_ http.ResponseWriter, _ *http.Request, _ int, s []string) int {
			if len(s) > 7 {
				return 413
			}
			return 0
		}, time.Minute, spans, "", ExportOK},
		{"a Collector's 400 for its limit splits", func(w http.ResponseWriter, _ *http.Request, _ int, s []string) int {
			if len(s) > 7 {
				w.WriteHeader(400)
				_, _ = w.Write([]byte("\x08\x03\x12\x1ahttp: request body too large"))
				return 400
			}
			return 0
		}, time.Minute, spans, "", ExportOK},
		{"413 for one span drops it alone", func(_ http.ResponseWriter, _ *http.Request, _ int, s []string) int {
			for _, id := range s {
				if id == fmt.Sprintf("%016x", 18) {
					return 413
				}
			}
			return 0
		}, time.Minute, spans - 1, "413", ExportOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, spool.Options{})
				w := newWire()
				e := f.exporter(w, 0)
				seen := map[ExportState]bool{}
				w.answer = func(rw http.ResponseWriter, r *http.Request, try int, s []string) int {
					seen[e.Stats().State] = true
					return c.answer(rw, r, try, s)
				}
				for i := range spans {
					f.send(t, hookSpan(i, "", ""))
				}
				stop := run(t, e)
				time.Sleep(c.after)
				seen[e.Stats().State] = true
				if e.Stats().State != ExportOK || !seen[c.state] {
					t.Errorf("states %v, now %s", seen, e.Stats().State)
				}
				stop()
				w.check(t, c.arrived)
				st := e.Stats()
				if n := st.Dropped[c.dropped]; int(n) != spans-c.arrived {
					t.Errorf("dropped %v", st.Dropped)
				}
				if s := f.Stats().Spool; s.Records != 0 {
					t.Errorf("%d records wait still", s.Records)
				}
			})
		})
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, spool.Options{})
		w := newWire()
		w.answer = func(rw http.ResponseWriter, _ *http.Request, try int, _ []string) int {
			switch try {
			case 1:
				rw.Header().Set("Retry-After", "300")
				return 503
			case 2:
				rw.Header().Set("Retry-After", time.Now().Add(600*time.Second).UTC().Format(http.TimeFormat))
				return 429
			case 3:
				rw.Header().Set("Retry-After", "99999999")
				return 503
			}
			return 0
		}
		f.send(t, hookSpan(1, "", ""))
		stop := run(t, f.exporter(w, 0))
		time.Sleep(3 * time.Hour)
		stop()
		w.check(t, 1)
		for i, want := range []time.Duration{300 * time.Second, 600 * time.Second, longestAsked} {
			if gap := w.calls[i+1].at.Sub(w.calls[i].at); gap < want-time.Second || gap > want*3/2 {
				t.Errorf("attempt %d came after %v, asked for %v", i+2, gap, want)
			}
		}
		for _, c := range w.calls {
			if c.batch != w.calls[0].batch {
				t.Error("the batch id changed between attempts")
			}
		}
	})
}

func TestPartialSuccessIsCountedAndNotResent(t *testing.T) {
	for _, typ := range []string{typeProto, typeJSON} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, spool.Options{})
			w := newWire()
			w.answer = func(rw http.ResponseWriter, r *http.Request, _ int, _ []string) int {
				rw.Header().Set("Content-Type", typ)
				rw.WriteHeader(200)
				p := otlp.Answer{Rejected: 3, Message: "three are odd"}
				if typ == typeJSON {
					_, _ = rw.Write(p.JSON())
				} else {
					_, _ = rw.Write(p.Proto())
				}
				return 200
			}
			for i := range 10 {
				f.send(t, hookSpan(i, "", ""))
			}
			e := f.exporter(w, 0)
			stop := run(t, e)
			time.Sleep(time.Minute)
			stop()
			if st := e.Stats(); st.Rejected != 3 || st.Spans != 10 || st.Attempts != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestStopFinishesTheAttemptUnderWay(t *testing.T) {
	for _, c := range []struct {
		name    string
		delay   time.Duration
		within  time.Duration
		arrived int
	}{
		{"quick", 2 * time.Second, 2100 * time.Millisecond, 1},
		{"hanging", time.Hour, 4 * time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, spool.Options{})
				w := newWire()
				w.delay = c.delay
				f.send(t, hookSpan(1, "", ""))
				stop := run(t, f.exporter(w, 0))
				time.Sleep(700 * time.Millisecond)
				start := time.Now()
				stop()
				if d := time.Since(start); d > c.within {
					t.Errorf("stopped after %v", d)
				}
				w.check(t, c.arrived)
				if n := f.Stats().Spool.Records; int(n) != 1-c.arrived {
					t.Errorf("%d records left", n)
				}
				time.Sleep(2 * time.Hour) // nothing of it may be left running
			})
		})
	}
}

// A receiver that takes its time is waited for, not asked twice.
func TestSlowReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, spool.Options{})
		w := newWire()
		w.delay = 50 * time.Second
		e := f.exporter(w, 0)
		stop := run(t, e)
		for i := range 100 {
			f.send(t, hookSpan(i, "", ""))
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Minute)
		stop()
		w.check(t, 100)
		if st := e.Stats(); st.Attempts > 4 || st.Attempts != st.Batches {
			t.Errorf("%+v", st)
		}
	})
}

func TestKickEndsALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, spool.Options{})
		w := newWire()
		w.answer = func(rw http.ResponseWriter, _ *http.Request, try int, _ []string) int {
			if try == 1 {
				rw.Header().Set("Retry-After", "3000")
				return 503
			}
			return 0
		}
		f.send(t, hookSpan(1, "", ""))
		e := f.exporter(w, 0)
		stop := run(t, e)
		time.Sleep(time.Minute)
		e.Kick()
		time.Sleep(time.Second)
		stop()
		w.check(t, 1)
	})
}

// The destination is that of the moment of the attempt, and "" waits.
func TestDestinationChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, spool.Options{})
		var d Destination
		var mu sync.Mutex
		var hosts []string
		e := NewExporter(ExporterOptions{Spool: f.spool, Destination: func() Destination { mu.Lock(); defer mu.Unlock(); return d },
			Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				_, _ = io.Copy(io.Discard, r.Body)
				hosts = append(hosts, r.URL.Host+" "+r.Host)
				code := 503
				if r.URL.Host == "b" {
					code = 200
				}
				return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil))}, nil
			})}})
		set := func(u string) { mu.Lock(); d = Destination{URL: u}; mu.Unlock(); e.Kick() }
		f.send(t, hookSpan(1, "", ""))
		stop := run(t, e)
		time.Sleep(time.Minute)
		if e.Stats().State != ExportOff || len(hosts) != 0 {
			t.Errorf("without a destination: %+v %v", e.Stats(), hosts)
		}
		set("https://a/v1/traces")
		time.Sleep(time.Minute)
		set("https://b/v1/traces")
		time.Sleep(time.Minute)
		stop()
		if hosts[0] != "a a" || hosts[len(hosts)-1] != "b b" || e.Stats().State != ExportOK {
			t.Errorf("%v %+v", hosts, e.Stats())
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Nothing secret of a destination is printed.
func TestSecretsStayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, spool.Options{})
		var log bytes.Buffer
		d := Destination{URL: "https://user:canary1@collector.example.com/v1/traces?key=canary2", Header: map[string]string{"authorization": "canary3"}}
		e := NewExporter(ExporterOptions{Spool: f.spool, Log: textLog(&log), Destination: func() Destination { return d },
			Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) { return nil, errors.New("refused") })}})
		f.send(t, hookSpan(1, "", ""))
		stop := run(t, e)
		time.Sleep(time.Hour)
		stop()
		if all := log.String() + fmt.Sprintf("%+v %v %s", e.Stats(), d, d); strings.Contains(all, "canary") || !strings.Contains(all, "collector.example.com") {
			t.Error(all)
		}
	})
}

func TestCancelledBeforeTheStart(t *testing.T) {
	f := newFixture(t, spool.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.exporter(newWire(), 0).Run(ctx); err != nil {
		t.Error(err)
	}
}
