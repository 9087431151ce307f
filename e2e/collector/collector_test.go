package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
	"github.com/pinta-ai/pinta-agent/sync/relay"
	"github.com/pinta-ai/pinta-agent/sync/spool"
)

// asCollector makes the test binary the Collector's process.
const asCollector = "PINTA_TEST_COLLECTOR"

func TestMain(m *testing.M) {
	if os.Getenv(asCollector) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// server is a Collector with its own port and output file.
type server struct {
	t           *testing.T
	url         string
	config, out string
	cmd         *exec.Cmd
}

func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	s := &server{t: t, url: "http://" + addr, config: filepath.Join(dir, "config.yaml"), out: filepath.Join(dir, "traces.json")}
	err = os.WriteFile(s.config, fmt.Appendf(nil, `
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {lines: {path: %q}}
service:
  telemetry: {metrics: {level: none}, logs: {level: warn}}
  pipelines: {traces: {receivers: [otlp], exporters: [lines]}}
`, addr, filepath.ToSlash(s.out)), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(os.Args[0], "--config", s.config)
	s.cmd.Env = append(os.Environ(), asCollector+"=1")
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	until(s.t, "the Collector listens", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Wait()
	s.cmd = nil
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// span is one span in a comparable form; attributes keep their type.
type span struct {
	trace, id, name string
	start           int64
	attrs, resource map[string]any
}

func flatten(td ptrace.Traces) (all []span) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				all = append(all, span{
					trace: s.TraceID().String(), id: s.SpanID().String(), name: s.Name(), start: int64(s.StartTimestamp()),
					attrs: s.Attributes().AsRaw(), resource: rs.Resource().Attributes().AsRaw(),
				})
			}
		}
	}
	return all
}

func decode(t *testing.T, b []byte) []span {
	t.Helper()
	td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(b)
	if err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return flatten(td)
}

// got is what the Collector wrote, in its own reading.
func (s *server) got() (all []span) {
	f, err := os.Open(s.out)
	if err != nil {
		return nil
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if json.Valid(lines.Bytes()) { // the last may be half written
			all = append(all, decode(s.t, lines.Bytes())...)
		}
	}
	return all
}

func (s *server) wait(n int) []span {
	s.t.Helper()
	until(s.t, fmt.Sprintf("%d spans at the Collector", n), func() bool { return len(s.got()) >= n })
	return s.got()
}

// hookBinary builds the real hook.
var hookBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "pinta-hook")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "pinta-hook")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/pinta-hook")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

// runHook runs the hook against an endpoint, and returns the bodies that it
// sent, which a proxy took down on their way.
func runHook(t *testing.T, endpoint string, events ...string) (bodies [][]byte) {
	t.Helper()
	bin, err := hookBinary()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		bodies = append(bodies, b)
		mu.Unlock()
		req, _ := http.NewRequest(r.Method, endpoint, bytes.NewReader(b))
		req.Header = r.Header
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	defer proxy.Close()
	for _, event := range events {
		cmd := exec.Command(bin)
		cmd.Stdin = strings.NewReader(event)
		home := t.TempDir()
		cmd.Env = []string{"HOME=" + home, "USERPROFILE=" + home, "COPILOT_HOME=" + home, "PATH=/usr/bin:/bin", "SystemRoot=" + os.Getenv("SystemRoot"),
			"COPILOT_PLUGIN_OPTION_ENDPOINT=" + proxy.URL + "/v1/traces", "PINTA_TELEMETRY_TIMEOUT_MS=4000", "COPILOT_CLI_BINARY_VERSION=1.0.102"}
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("hook: %v %s", err, out)
		}
	}
	if len(bodies) != len(events) {
		t.Fatalf("the hook sent %d bodies for %d events", len(bodies), len(events))
	}
	return bodies
}

var events = []string{
	`{"hook_event_name":"UserPromptSubmit","session_id":"00000000-0000-4000-8000-000000000001","timestamp":"2026-01-02T03:04:05.678Z","cwd":"/home/user/repo","prompt":"grüße \u0000\ud83d\ude00 <&>"}`,
	`{"hook_event_name":"PreToolUse","session_id":"00000000-0000-4000-8000-000000000001","cwd":"/home/user/repo","tool_name":"Bash","tool_input":{"command":"echo out-ok","n":12345678901234567890},"count":9007199254740993,"ratio":0.25,"flag":true}`,
	`{"hook_event_name":"PostToolUse","session_id":"00000000-0000-4000-8000-000000000001","tool_name":"Bash","tool_input":{"command":"echo out-ok"},"tool_result":{"result_type":"success","text_result_for_llm":"out-ok\n"}}`,
}

func compare(t *testing.T, sent, got []span, wantResource func(map[string]any) map[string]any) {
	t.Helper()
	byID := map[string]span{}
	for _, s := range got {
		byID[s.id] = s
	}
	for _, s := range sent {
		g, ok := byID[s.id]
		if !ok {
			t.Errorf("span %s is missing", s.id)
			continue
		}
		if g.trace != s.trace || g.name != s.name || g.start != s.start || fmt.Sprint(g.attrs) != fmt.Sprint(s.attrs) || len(s.attrs) < 4 {
			t.Errorf("sent %+v\ngot  %+v", s, g)
		}
		if want := wantResource(s.resource); fmt.Sprint(g.resource) != fmt.Sprint(want) {
			t.Errorf("resource\n%v, want\n%v", g.resource, want)
		}
	}
	if len(got) != len(sent) {
		t.Errorf("%d spans arrived, %d were sent", len(got), len(sent))
	}
}

// The hook alone, with any collector and nothing of ours running.
func TestHookToCollector(t *testing.T) {
	c := newServer(t)
	var sent []span
	for _, b := range runHook(t, c.url+"/v1/traces", events...) {
		sent = append(sent, decode(t, b)...)
	}
	compare(t, sent, c.wait(len(sent)), maps.Clone)
}

// agent is a relay and its exporter, delivering to a Collector.
type agent struct {
	*relay.Exporter
	relay *relay.Relay
	spool *spool.Spool
	http  *httptest.Server
}

func newAgent(t *testing.T, to string) *agent {
	t.Helper()
	s, err := spool.Open(t.TempDir(), spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{spool: s, relay: relay.New(relay.Options{Spool: s, Identity: func(serve.Peer) relay.Identity {
		return relay.Identity{DeviceID: "01DEVICE", Group: "eng", User: "ann", Host: "box", OS: "linux"}
	}})}
	a.Exporter = relay.NewExporter(relay.ExporterOptions{
		Spool: s, Client: &http.Client{Transport: &http.Transport{}}, Batch: 16 << 10, Linger: 20 * time.Millisecond,
		Destination: func() relay.Destination { return relay.Destination{URL: to} },
	})
	a.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.relay.Handler().ServeHTTP(w, r.WithContext(serve.WithPeer(r.Context(), serve.Peer{UID: 1000})))
	}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }()
	t.Cleanup(func() { a.http.Close(); cancel(); <-done; s.Close() })
	return a
}

func withIdentity(res map[string]any) map[string]any {
	m := maps.Clone(res)
	for k, v := range map[string]string{"pinta.device.id": "01DEVICE", "pinta.device.group": "eng", "pinta.user.name": "ann", "host.name": "box", "os.type": "linux"} {
		m[k] = v
	}
	return m
}

// Through the relay, in either encoding, ids and attributes stay what they were.
func TestHookToRelayToCollector(t *testing.T) {
	for _, typ := range []string{"application/json", "application/x-protobuf"} {
		t.Run(typ, func(t *testing.T) {
			c := newServer(t)
			a := newAgent(t, c.url+"/v1/traces")
			endpoint := a.http.URL + "/v1/traces"
			if typ != "application/json" {
				endpoint = proxyToProtobuf(t, endpoint)
			}
			var sent []span
			for _, b := range runHook(t, endpoint, events...) {
				sent = append(sent, decode(t, b)...)
			}
			compare(t, sent, c.wait(len(sent)), withIdentity)
		})
	}
}

// proxyToProtobuf re-encodes what passes by the Collector's own code.
func proxyToProtobuf(t *testing.T, to string) string {
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(b)
		if err == nil {
			b, err = (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		}
		if err != nil {
			t.Error(err)
		}
		res, err := http.Post(to, "application/x-protobuf", bytes.NewReader(b))
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
	}))
	t.Cleanup(p.Close)
	return p.URL
}

// A Collector that is killed, stopped and started again loses nothing; all that
// may repeat is the batch whose answer the kill took away.
func TestCollectorRestarts(t *testing.T) {
	c := newServer(t)
	a := newAgent(t, c.url+"/v1/traces")
	const n = 600
	for i := range n {
		body := fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%032x","spanId":"%016x","name":"x","kind":1,"startTimeUnixNano":1,"endTimeUnixNano":1,"attributes":[{"key":"n","value":{"intValue":%d}}]}]}]}]}`, i+1, i+1, i)
		res, err := http.Post(a.http.URL, "application/json", strings.NewReader(body))
		if err != nil || res.StatusCode != 200 {
			t.Fatal(err, res)
		}
		res.Body.Close()
		switch i {
		case 200:
			c.kill()
		case 400:
			c.stop()
		case 300, 500:
			c.start()
		}
	}
	a.Kick()
	until(t, "everything is delivered", func() bool { return a.spool.Stats().Records == 0 })
	seen := map[string]int{}
	until(t, "all spans are written", func() bool {
		clear(seen)
		for _, s := range c.got() {
			seen[s.id]++
		}
		return len(seen) == n
	})
	twice := 0
	for _, k := range seen {
		twice += k - 1
	}
	if st := a.Stats(); twice > 16<<10/100 || st.Spans != n {
		t.Errorf("%d spans came twice; %+v", twice, st)
	}
}
