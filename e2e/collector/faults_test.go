package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/pinta-ai/pinta-agent/sync/relay"
)

// gate stands in front of a Collector and takes down what is answered. answer
// may answer in its place, or change what the Collector gets to see.
type gate struct {
	url string

	mu       sync.Mutex
	tries    int
	statuses []int
}

func newGate(t *testing.T, to *server, answer func(try int, w http.ResponseWriter, body []byte, r *http.Request) bool) *gate {
	g := &gate{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		g.mu.Lock()
		g.tries++
		try := g.tries
		g.mu.Unlock()
		noted := httptest.NewRecorder()
		if !answer(try, noted, body, r) {
			request, err := http.NewRequest(r.Method, to.url+"/v1/traces", bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header = r.Header
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer response.Body.Close()
			for _, name := range []string{"Content-Type", "Retry-After"} {
				if v := response.Header.Get(name); v != "" {
					noted.Header().Set(name, v)
				}
			}
			noted.WriteHeader(response.StatusCode)
			_, _ = io.Copy(noted, response.Body)
		}
		g.mu.Lock()
		g.statuses = append(g.statuses, noted.Code)
		g.mu.Unlock()
		for name, v := range noted.Header() {
			w.Header()[name] = v
		}
		w.WriteHeader(noted.Code)
		_, _ = w.Write(noted.Body.Bytes())
	}))
	t.Cleanup(srv.Close)
	g.url = srv.URL + "/v1/traces"
	return g
}

func (g *gate) saw(status int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.statuses, status)
}

// configure replaces text of the Collector's configuration and starts it anew.
func (s *server) configure(old, new string) {
	s.t.Helper()
	s.stop()
	data, err := os.ReadFile(s.config)
	if err != nil || !bytes.Contains(data, []byte(old)) {
		s.t.Fatalf("%v in %s", err, data)
	}
	if err := os.WriteFile(s.config, bytes.Replace(data, []byte(old), []byte(new), 1), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.start()
}

const sent = 60

// give has the agent take spans of about 1 KiB.
func (a *agent) give(t *testing.T) {
	t.Helper()
	for i := range sent {
		body := fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%032x","spanId":"%016x","name":"x","kind":1,"startTimeUnixNano":1,"endTimeUnixNano":1,"attributes":[{"key":"pad","value":{"stringValue":%q}}]}]}]}]}`,
			i+1, i+1, strings.Repeat(fmt.Sprintf("%04d", i*7919%10_000), 250))
		res, err := http.Post(a.http.URL, "application/json", strings.NewReader(body))
		if err != nil || res.StatusCode != 200 {
			t.Fatal(err, res)
		}
		res.Body.Close()
	}
	a.Kick()
}

// once checks that all but lost spans arrived, each once.
func (s *server) once(t *testing.T, a *agent, lost int) {
	t.Helper()
	until(t, "everything is dealt with", func() bool { a.Kick(); return a.spool.Stats().Records == 0 })
	got := s.wait(sent - lost)
	seen := map[string]bool{}
	for _, x := range got {
		seen[x.id] = true
	}
	if len(got) != len(seen) || len(seen) != sent-lost {
		t.Errorf("%d spans arrived, %d different: want %d", len(got), len(seen), sent-lost)
	}
}

// TestCollectorFaults: whatever a Collector, or what stands before one,
// answers, no span is lost and none sent again that was taken (manager.md 5).
func TestCollectorFaults(t *testing.T) {
	pass := func(int, http.ResponseWriter, []byte, *http.Request) bool { return false }

	t.Run("the Collector's own 503: its disk is full", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("needs /dev/full")
		}
		c := newServer(t)
		c.configure(filepath.ToSlash(c.out), "/dev/full")
		g := newGate(t, c, pass)
		a := newAgent(t, g.url)
		a.give(t)
		until(t, "the Collector refuses", func() bool { return g.saw(503) })
		if got := a.spool.Stats().Records; got != sent {
			t.Errorf("%d spans wait, want all %d", got, sent)
		}
		c.configure("/dev/full", filepath.ToSlash(c.out))
		c.once(t, a, 0)
	})

	t.Run("429 with Retry-After", func(t *testing.T) {
		c := newServer(t)
		g := newGate(t, c, func(try int, w http.ResponseWriter, _ []byte, _ *http.Request) bool {
			if try <= 2 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return try <= 2
		})
		a := newAgent(t, g.url)
		a.give(t)
		until(t, "the refusal is told", func() bool { return a.Stats().State == relay.ExportRetrying || g.saw(200) })
		c.once(t, a, 0)
	})

	t.Run("413 of a proxy in front: split until it fits", func(t *testing.T) {
		c := newServer(t)
		g := newGate(t, c, func(_ int, w http.ResponseWriter, body []byte, _ *http.Request) bool {
			if len(body) > 400 {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
			}
			return len(body) > 400
		})
		a := newAgent(t, g.url)
		a.give(t)
		c.once(t, a, 0)
		if !g.saw(413) {
			t.Error("nothing was too large: the test tests nothing")
		}
	})

	t.Run("the Collector's own limit of a body", func(t *testing.T) {
		c := newServer(t)
		c.configure("http: {", "http: {max_request_body_size: 3000, ")
		g := newGate(t, c, pass)
		a := newAgent(t, g.url)
		a.give(t)
		until(t, "everything is dealt with", func() bool { a.Kick(); return a.spool.Stats().Records == 0 })
		g.mu.Lock()
		t.Logf("answers %v, dropped %v", g.statuses, a.Stats().Dropped)
		g.mu.Unlock()
		c.once(t, a, 0)
	})

	t.Run("partial success: counted, not sent again", func(t *testing.T) {
		c := newServer(t)
		g := newGate(t, c, func(try int, w http.ResponseWriter, body []byte, r *http.Request) bool {
			if try > 1 {
				return false
			}
			request, _ := http.NewRequest(r.Method, c.url+"/v1/traces", bytes.NewReader(body))
			request.Header = r.Header
			response, err := http.DefaultClient.Do(request)
			if err != nil || response.StatusCode != 200 {
				t.Error(err, response)
				return false
			}
			response.Body.Close()
			answer := ptraceotlp.NewExportResponse()
			answer.PartialSuccess().SetRejectedSpans(3)
			answer.PartialSuccess().SetErrorMessage("three are odd")
			data, _ := answer.MarshalProto()
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(data)
			return true
		})
		a := newAgent(t, g.url)
		a.give(t)
		c.once(t, a, 0)
		if st := a.Stats(); st.Rejected != 3 {
			t.Errorf("%d rejected spans are counted, want 3", st.Rejected)
		}
	})
}
