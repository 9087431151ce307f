package relay

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
	"github.com/pinta-ai/pinta-agent/sync/spool"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		childMain()
		return
	}
	goleak.VerifyTestMain(m)
}

// childEnv makes the test binary the relay process of the kill test.
const childEnv = "PINTA_TEST_RELAY_CHILD"

// hookSpan is what the hook sends: OTLP/JSON of one span, ids made of n.
func hookSpan(n int, resource, attrs string) string {
	return fmt.Sprintf(`{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"copilot"}},`+
		`{"key":"service.version","value":{"stringValue":"1.0.102"}},{"key":"process.pid","value":{"intValue":"4711"}},`+
		`{"key":"host.name","value":{"stringValue":"box"}}%s]},"scopeSpans":[{"scope":{"name":"pinta-copilot","version":"0.1.0"},`+
		`"spans":[{"traceId":"%032x","spanId":"%016x","name":"copilot.pre_tool_use","kind":1,"startTimeUnixNano":"1800000000000000000",`+
		`"endTimeUnixNano":"1800000000000000000","attributes":[{"key":"ingest.type","value":{"stringValue":"copilot"}},`+
		`{"key":"copilot.hook","value":{"stringValue":"PreToolUse"}},{"key":"copilot.surface","value":{"stringValue":"cli"}}%s]}]}]}]}`,
		resource, n+1, n+1, attrs)
}

func kv(key, value string) string {
	return fmt.Sprintf(`,{"key":%q,"value":{"stringValue":%q}}`, key, value)
}

type fixture struct {
	*Relay
	spool *spool.Spool
	dir   string
	peer  serve.Peer
}

func newFixture(t testing.TB, o spool.Options) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir(), peer: serve.Peer{UID: 1000, GID: 1000, PID: 1}}
	var err error
	if f.spool, err = spool.Open(f.dir, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.spool.Close() })
	f.Relay = New(Options{Spool: f.spool, Identity: identityOf, Clock: o.Clock})
	return f
}

func textLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func identityOf(p serve.Peer) Identity {
	return Identity{DeviceID: "01DEVICE", Group: "eng", User: map[int]string{1000: "ann", 1001: "bob"}[p.UID], Host: "box", OS: "linux"}
}

func (f *fixture) post(t testing.TB, typ, encoding string, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, "/v1/traces", bytes.NewReader(body))
	req.Header.Set("Content-Type", typ)
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	req = req.WithContext(serve.WithPeer(req.Context(), f.peer))
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, req)
	return w
}

func (f *fixture) send(t testing.TB, body string) {
	t.Helper()
	if w := f.post(t, typeJSON, "", []byte(body)); w.Code != 200 || w.Body.String() != "{}" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
}

// spooled returns what waits, and takes it.
func (f *fixture) spooled(t testing.TB) (all []*tracepb.ResourceSpans) {
	t.Helper()
	for {
		b, err := f.spool.Next(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			return all
		}
		var td tracepb.TracesData
		if err := proto.Unmarshal(encodeBatch(b.Records), &td); err != nil {
			t.Fatal(err)
		}
		all = append(all, td.ResourceSpans...)
		if err := f.spool.Done(b); err != nil {
			t.Fatal(err)
		}
	}
}

// receiver is a Manager or a collector: it notes spans, and batches by id.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	spans   map[string]int
	batches map[string]string
	tries   int
	// answer decides on a request before it counts: 0 takes it.
	answer func(w http.ResponseWriter, r *http.Request, try int, spans []string) (status int)
	errs   []string
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{spans: map[string]int{}, batches: map[string]string{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	spans, err := readExport(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.errs = append(c.errs, err.Error())
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.tries++
	if c.answer != nil {
		if status := c.answer(w, r, c.tries, spans); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	w.Header().Set("Content-Type", typeProto)
	c.take(r.Header.Get(BatchHeader), spans)
}

func (c *receiver) take(batch string, spans []string) {
	content := strings.Join(spans, " ")
	if batch != "" {
		if old, ok := c.batches[batch]; ok {
			if old != content {
				c.errs = append(c.errs, "batch "+batch+" came with another content")
			}
			return
		}
		c.batches[batch] = content
	}
	for _, s := range spans {
		c.spans[s]++
	}
}

func readExport(r *http.Request) (ids []string, err error) {
	if r.Header.Get("Content-Type") != typeProto || r.Header.Get("Content-Encoding") != "gzip" {
		return nil, fmt.Errorf("headers %v", r.Header)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	var td tracepb.TracesData
	if err := proto.Unmarshal(b, &td); err != nil {
		return nil, err
	}
	for _, rs := range td.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				ids = append(ids, hex.EncodeToString(s.SpanId))
			}
		}
	}
	return ids, nil
}

func (c *receiver) check(t testing.TB, n int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.errs) > 0 {
		t.Errorf("receiver: %v", c.errs)
	}
	if len(c.spans) != n {
		t.Errorf("%d spans arrived, want %d", len(c.spans), n)
	}
	for s, times := range c.spans {
		if times != 1 {
			t.Errorf("span %s arrived %d times", s, times)
		}
	}
}

func (c *receiver) count() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.spans) }

func run(t testing.TB, e *Exporter) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Error("the exporter did not stop within 5 s")
		}
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestFromHookToReceiver(t *testing.T) {
	for _, manager := range []bool{true, false} {
		t.Run(map[bool]string{true: "manager", false: "collector"}[manager], func(t *testing.T) {
			f := newFixture(t, spool.Options{})
			c := newReceiver(t)
			var auths []string
			d := Destination{URL: c.URL + "/v1/traces", Header: map[string]string{"x-key": "k"}}
			if manager {
				d.Sign = func(method, uri string, body []byte) (string, error) {
					return fmt.Sprintf("Bearer %s %s %d", method, uri, len(body)), nil
				}
			}
			c.answer = func(w http.ResponseWriter, r *http.Request, try int, _ []string) int {
				auths = append(auths, fmt.Sprintf("%s|%s|%d", r.Header.Get("Authorization"), r.Header.Get("x-key"), r.ContentLength))
				if manager != (r.Header.Get(BatchHeader) != "") {
					return 400
				}
				return 0
			}
			e := NewExporter(ExporterOptions{Spool: f.spool, Client: &http.Client{Transport: &http.Transport{}}, Linger: 50 * time.Millisecond, Destination: func() Destination { return d }})
			stop := run(t, e)
			for i := range 50 {
				f.send(t, hookSpan(i, "", ""))
			}
			eventually(t, "50 spans", func() bool { return c.count() == 50 })
			stop()
			c.check(t, 50)
			for _, a := range auths {
				auth, rest, _ := strings.Cut(a, "|")
				key, n, _ := strings.Cut(rest, "|")
				if want := "Bearer POST /v1/traces " + n; manager && (auth != want || key != "") || !manager && (auth != "" || key != "k") {
					t.Errorf("headers %q", a)
				}
			}
			if st := e.Stats(); st.Spans != 50 || st.State != ExportOK {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestIdentityIsTheKernels(t *testing.T) {
	f := newFixture(t, spool.Options{})
	f.peer.UID = 1001
	claim := `"attributes":[` + kv("pinta.user.name", "root")[1:] + `]`
	f.send(t, strings.Replace(hookSpan(1, kv("pinta.user.name", "root")+kv("pinta.device.id", "01OTHER")+kv("os.type", "linux"),
		kv("pinta.user.email", "root@example.com")+kv("host.name", "elsewhere")+kv("copilot.prompt", "hi")),
		`"kind":1,`, `"kind":1,"events":[{"name":"e",`+claim+`}],"links":[{`+claim+`}],`, 1))
	all := f.spooled(t)
	if len(all) != 1 {
		t.Fatalf("%d", len(all))
	}
	var got []string
	for _, a := range all[0].Resource.Attributes {
		got = append(got, a.Key+"="+a.Value.GetStringValue())
	}
	want := []string{"service.name=copilot", "service.version=1.0.102", "process.pid=", "pinta.device.id=01DEVICE", "pinta.device.group=eng", "pinta.user.name=bob", "host.name=box", "os.type=linux"}
	if !slices.Equal(got, want) {
		t.Errorf("resource %q", got)
	}
	for _, a := range all[0].ScopeSpans[0].Spans[0].Attributes {
		if isIdentity(a.Key) {
			t.Errorf("claim %s stayed on the span", a.Key)
		}
	}
	if span := all[0].ScopeSpans[0].Spans[0]; len(span.Events[0].Attributes)+len(span.Links[0].Attributes) != 0 {
		t.Errorf("claims stayed on %v", span)
	}
	if n := f.Stats().Claimed; n != 6 {
		t.Errorf("%d false claims, want 6 (the honest host.name and os.type are none)", n)
	}
}

func TestSpanIsTakenOnce(t *testing.T) {
	f := newFixture(t, spool.Options{})
	f.send(t, hookSpan(1, "", ""))
	f.send(t, hookSpan(1, "", ""))
	f.peer.UID = 1001 // another user's span of the same id is another span
	f.send(t, hookSpan(1, "", ""))
	if n := len(f.spooled(t)); n != 2 {
		t.Errorf("%d spans", n)
	}
	f.peer.UID = 1000
	f.send(t, hookSpan(1, "", "")) // delivered, and still known
	if n := len(f.spooled(t)); n != 0 {
		t.Errorf("%d spans after delivery", n)
	}
	if st := f.Stats(); st.Spool.Duplicates != 2 || st.Counters.Hooks != 2 {
		t.Errorf("%+v", st)
	}
}

// Over TCP a token tells the user, and the kernel nothing: what one sends there
// is neither another's nor takes the place of another's.
func TestCallersOverTCPAreTold(t *testing.T) {
	f := newFixture(t, spool.Options{})
	for _, user := range []string{"ann", "bob", "ann"} {
		f.peer = serve.Peer{UID: -1, GID: -1, User: user}
		f.send(t, hookSpan(1, "", ""))
	}
	if n := len(f.spooled(t)); n != 2 {
		t.Errorf("%d spans, want one of each user", n)
	}
}

func TestIntakeForms(t *testing.T) {
	hook := hookSpan(7, "", "")
	td, err := decodeJSON([]byte(hook))
	if err != nil {
		t.Fatal(err)
	}
	pb, _ := proto.Marshal(td)
	zip := func(b []byte) []byte { return pack(b) }
	for _, c := range []struct {
		name, typ, enc string
		body           []byte
		status, spans  int
	}{
		{"hook's JSON", typeJSON, "", []byte(hook), 200, 1},
		{"with charset", typeJSON + "; charset=utf-8", "", []byte(hook), 200, 1},
		{"JSON packed", typeJSON, "gzip", zip([]byte(hook)), 200, 1},
		{"protobuf", typeProto, "", pb, 200, 1},
		{"protobuf packed", typeProto, "gzip", zip(pb), 200, 1},
		{"integers as numbers", typeJSON, "", []byte(strings.NewReplacer(`"4711"`, `4711`, `"1800000000000000000"`, `1800000000000000000`).Replace(hook)), 200, 1},
		{"upper-case ids", typeJSON, "", []byte(strings.ReplaceAll(hook, fmt.Sprintf("%016x", 8), "00000000000000AF")), 200, 1},
		{"enum by name", typeJSON, "", []byte(strings.ReplaceAll(hook, `"kind":1`, `"kind":"SPAN_KIND_INTERNAL"`)), 200, 1},
		{"unknown members", typeJSON, "", []byte(strings.ReplaceAll(hook, `"kind":1`, `"kind":1,"later":{"x":[1]}`)), 200, 1},
		{"byte order mark", typeJSON, "", append([]byte("\xef\xbb\xbf"), hook...), 200, 1},
		{"half a surrogate pair", typeJSON, "", []byte(strings.ReplaceAll(hook, `"PreToolUse"`, `"Pre\ud83dUse \ud83d\ude00 \\ud83d"`)), 200, 1},
		{"invalid UTF-8", typeJSON, "", []byte(strings.ReplaceAll(hook, `"PreToolUse"`, "\"Pre\xffUse\"")), 200, 1},
		{"no spans", typeJSON, "", []byte(`{}`), 200, 0},
		{"id of zeros", typeJSON, "", []byte(strings.ReplaceAll(hook, fmt.Sprintf("%032x", 8), strings.Repeat("0", 32))), 200, 0},
		{"id too short", typeJSON, "", []byte(strings.ReplaceAll(hook, fmt.Sprintf("%016x", 8), "0008")), 200, 0},
		{"no hex id", typeJSON, "", []byte(strings.ReplaceAll(hook, fmt.Sprintf("%016x", 8), "zzzzzzzzzzzzzzzz")), 200, 0},
		{"no JSON", typeJSON, "", []byte(`{"resourceSpans":`), 400, 0},
		{"no protobuf", typeProto, "", []byte("\x0a\xff"), 400, 0},
		{"no gzip", typeJSON, "gzip", []byte(hook), 400, 0},
		{"torn gzip", typeJSON, "gzip", zip([]byte(hook))[:100], 400, 0},
		{"nested too deep", typeJSON, "", []byte(`{"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}"), 400, 0},
		{"too large", typeJSON, "", bytes.Repeat([]byte(" "), maxBody+1), 413, 0},
		{"unpacks too large", typeJSON, "gzip", zip(bytes.Repeat([]byte(" "), maxBody+1)), 413, 0},
		{"other type", "text/plain", "", []byte(hook), 415, 0},
		{"other encoding", typeJSON, "br", []byte(hook), 415, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, spool.Options{})
			w := f.post(t, c.typ, c.enc, c.body)
			if w.Code != c.status {
				t.Fatalf("status %d %s", w.Code, w.Body)
			}
			got := f.spooled(t)
			if len(got) != c.spans {
				t.Fatalf("%d spans, answer %s", len(got), w.Body)
			}
			if c.spans == 1 {
				s := got[0].ScopeSpans[0].Spans[0]
				if id := binary.BigEndian.Uint64(s.SpanId); id != 8 && id != 0xaf || s.StartTimeUnixNano != 1800000000000000000 || s.Kind != 1 {
					t.Errorf("%v", s)
				}
				if pid := got[0].Resource.Attributes[2]; pid.Value.GetIntValue() != 4711 {
					t.Errorf("%v", pid)
				}
			}
			if strings.Contains(c.name, "id") && c.status == 200 && c.spans == 0 && !strings.Contains(w.Body.String(), `"rejectedSpans":"1"`) {
				t.Errorf("answer %s", w.Body)
			}
		})
	}
}

func TestCallerMustBeKnown(t *testing.T) {
	f := newFixture(t, spool.Options{})
	req := httptest.NewRequest(http.MethodPost, "/v1/traces", strings.NewReader(hookSpan(1, "", "")))
	req.Header.Set("Content-Type", typeJSON)
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, req)
	if w.Code != 403 || len(f.spooled(t)) != 0 {
		t.Errorf("%d", w.Code)
	}
}

// A resource that many spans share must not become gigabytes.
func TestSharedResourceIsNoBomb(t *testing.T) {
	f := newFixture(t, spool.Options{})
	td, err := decodeJSON([]byte(hookSpan(1, kv("pad", strings.Repeat("x", 2<<20)), "")))
	if err != nil {
		t.Fatal(err)
	}
	spans := &td.ResourceSpans[0].ScopeSpans[0].Spans
	for i := range 100 {
		*spans = append(*spans, &tracepb.Span{TraceId: (*spans)[0].TraceId, SpanId: binary.BigEndian.AppendUint64(nil, uint64(i)+100)})
	}
	body, _ := proto.Marshal(td)
	if w := f.post(t, typeProto, "", body); w.Code != 413 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	*spans = (*spans)[:3]
	body, _ = proto.Marshal(td)
	if w := f.post(t, typeProto, "", body); w.Code != 200 || len(f.spooled(t)) != 3 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Two bytes of an empty attribute must not become seventy in memory.
func TestEmptyAttributesAreNoBomb(t *testing.T) {
	f := newFixture(t, spool.Options{})
	body := hookSpan(1, strings.Repeat(",{}", 1<<20), "")
	if w := f.post(t, typeJSON, "", []byte(body)); w.Code != 413 {
		t.Errorf("JSON: %d %.200s", w.Code, w.Body)
	}
	td := &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{}}}}}}}
	td.ResourceSpans[0].ScopeSpans[0].Spans[0].Attributes = slices.Repeat([]*commonpb.KeyValue{{}}, 2<<20-100)
	packed, _ := proto.Marshal(td)
	if w := f.post(t, typeProto, "", packed); w.Code != 413 {
		t.Errorf("protobuf: %d %.200s", w.Code, w.Body)
	}
}

// Whose bodies never come to an end takes no other user's turn.
func TestSlowBodiesOfOneUser(t *testing.T) {
	f := newFixture(t, spool.Options{})
	slow := func(size int64) *http.Request {
		req := httptest.NewRequest(http.MethodPost, "/v1/traces", nil)
		req.ContentLength = size
		return req.WithContext(serve.WithPeer(req.Context(), f.peer))
	}
	var taken []func()
	for range 100 {
		if release, ok := f.reserve(slow(maxBody)); ok {
			taken = append(taken, release)
		}
	}
	if len(taken) != userInFlight/maxBody {
		t.Errorf("one user has %d bodies under way", len(taken))
	}
	f.peer.UID = 1001
	f.send(t, hookSpan(1, "", ""))
	for _, release := range taken {
		release()
	}
	if len(f.shares.used) != 0 {
		t.Errorf("%v", f.shares.used)
	}
}

func TestOverloadAndFullSpool(t *testing.T) {
	f := newFixture(t, spool.Options{})
	if !f.memory.TryAcquire(inFlight) {
		t.Fatal("memory is taken")
	}
	w := f.post(t, typeJSON, "", []byte(hookSpan(1, "", "")))
	if w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("overload: %d", w.Code)
	}
	f.memory.Release(inFlight)
	f.spool.Close()
	w = f.post(t, typeProto, "", nil)
	if w.Code != 200 {
		t.Errorf("nothing to spool: %d", w.Code)
	}
	w = f.post(t, typeJSON, "", []byte(hookSpan(1, "", "")))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), f.dir) {
		t.Errorf("spool: %d %s", w.Code, w.Body)
	}
	if st := f.Stats(); st.Refused != 2 || st.Counters.Hooks != 0 {
		t.Errorf("%+v", st)
	}
}
