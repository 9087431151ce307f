package hook_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestSixtyAtOnce: sixty hooks of as many sessions, with a collector that is
// down, lose no span; later each is delivered once.
func TestSixtyAtOnce(t *testing.T) {
	const n = 60
	w := newWorld(t, []reply{answering(defaultGuard)}, []reply{{status: 503}})
	w.envFile(t, strings.Replace(defaultFile, "PINTA_GUARD_ENDPOINT", "NO", 1))
	var wg sync.WaitGroup
	runs := make([]outcome, n)
	for i := range n {
		wg.Go(func() {
			runs[i] = invoke(t, feed{data: fmt.Appendf(nil, `{"hook_event_name":"Stop","session_id":"s%d","n":%d}`, i, i)}, w.env(nil), w.root)
			if err := checkRun(object{{"stdout_empty", true}}, runs[i]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	waiting := map[any]bool{}
	for _, s := range w.queued(t) {
		waiting[s.attrs.any("copilot.n")] = true
	}
	for i, r := range runs {
		if !waiting[json.Number(fmt.Sprint(i))] {
			t.Errorf("span %d doesn't wait; its run took %v and said %q", i, r.took, r.stderr)
		}
	}
	if t.Failed() {
		return
	}
	w.collector.mu.Lock()
	w.collector.script, w.collector.seen = []reply{answering("{}")}, nil
	w.collector.mu.Unlock()
	r := invoke(t, feed{data: []byte(`{"hook_event_name":"Stop","session_id":"last","n":60}`)}, w.env(map[string]string{"PINTA_TELEMETRY_TIMEOUT_MS": "4000"}), w.root)
	if err := checkInvariants(r); err != nil {
		t.Fatal(err)
	}
	seen, traces := map[any]int{}, map[string]bool{}
	for _, s := range spansOf(t, w.collector.requests()) {
		seen[s.attrs.any("copilot.n")]++
		traces[s.trace] = true
	}
	for i := range n + 1 {
		if c := seen[json.Number(fmt.Sprint(i))]; c != 1 {
			t.Errorf("span %d came %d times", i, c)
		}
	}
	if len(traces) != n+1 || len(w.queued(t)) != 0 {
		t.Errorf("%d traces of %d sessions, %d spans still wait", len(traces), n+1, len(w.queued(t)))
	}
}

// TestSocketSeesTheEvent: over the local socket the judged span is not
// redacted, what is sent on is.
func TestSocketSeesTheEvent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a pipe there: package local")
	}
	const secret = "AKIAIOSFODNN7EXAMPLE"
	w := newWorld(t, []reply{answering(defaultGuard)}, []reply{answering("{}")})
	path := filepath.Join(w.root, "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { _ = http.Serve(l, http.HandlerFunc(w.guard.serve)) }()
	escaped := strings.ReplaceAll(path, "/", "%2F")
	w.envFile(t, "PINTA_GUARD_ENDPOINT=http+unix://"+escaped+"/guard/evaluate\nPINTA_GUARD_TIMEOUT_MS=2000\nCOPILOT_PLUGIN_OPTION_ENDPOINT=${COLLECTOR}/v1/traces\n")
	r := invoke(t, feed{data: []byte(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"bash","tool_input":{"command":"use ` + secret + `"}}`)}, w.env(map[string]string{"HTTP_PROXY": "http://127.0.0.1:9"}), w.root)
	if err := checkRun(object{{"stdout_empty", true}}, r); err != nil {
		t.Fatal(err)
	}
	asked, sent := w.guard.requests(), w.collector.requests()
	if len(asked) != 1 || asked[0].path != "/guard/evaluate" || !strings.Contains(string(asked[0].body), secret) {
		t.Errorf("the guard was asked %d times", len(asked))
	}
	if len(sent) != 1 || strings.Contains(string(sent[0].body), secret) || !strings.Contains(string(sent[0].body), "[REDACTED:aws_access_key]") {
		t.Errorf("the collector was sent %d bodies", len(sent))
	}
}

// TestReadersGone: a host that has closed stdout and stderr gets status 0, no
// signal (hook.md 1, I1).
func TestReadersGone(t *testing.T) {
	w := newWorld(t, []reply{answering(denyAnswer)}, []reply{answering("{}")})
	w.envFile(t, defaultFile)
	code := runWithoutReaders(t, []byte(`{"hook_event_name":"PreToolUse","tool_name":"bash","session_id":"s"}`), w.env(nil), w.root)
	if code != 0 {
		t.Errorf("status %d", code)
	}
	if len(w.queued(t)) != 1 {
		t.Error("the span was lost with the reader")
	}
}
