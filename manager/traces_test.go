package manager

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/otlp"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

func attr(k, v string) *common.KeyValue {
	return &common.KeyValue{Key: k, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}}}
}

// span makes a request with one span.
func span(name string, at time.Time, attrs ...*common.KeyValue) *trace.TracesData {
	return &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource:   &resource.Resource{Attributes: []*common.KeyValue{attr("pinta.user.name", "ann"), attr("host.name", "pc"), attr("pinta.device.id", "claimed")}},
		ScopeSpans: []*trace.ScopeSpans{{Spans: []*trace.Span{{Name: name, TraceId: make([]byte, 16), SpanId: []byte("12345678"), StartTimeUnixNano: uint64(at.UnixNano()), Attributes: attrs}}}},
	}}}
}

func (d *dev) send(batch string, data *trace.TracesData) error {
	raw, err := proto.Marshal(data)
	d.b.must(err)
	return d.sendRaw(batch, raw, "")
}

func (d *dev) sendRaw(batch string, raw []byte, encoding string) error {
	ctx := d.b.Context()
	if encoding != "" {
		ctx = api.WithEncoding(ctx, encoding)
	}
	return api.Done(d.client().ExportTraces(ctx, api.ExportTracesParams{PintaBatchID: batch}, raw))
}

func (b *bed) events(p api.ListEventsParams) []api.Event {
	b.Helper()
	page, err := api.JSON[api.EventPage](b.admin(api.RoleViewer).ListEvents(b.Context(), p))
	b.must(err)
	return page.Events
}

func zip(raw []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(raw)
	w.Close()
	return z.Bytes()
}

func TestTracesExactlyOnce(t *testing.T) {
	b := newBed(t)
	d, e := b.device(), b.device()
	for range 3 {
		b.must(d.send("batch-01", span("one", b.now())))
	}
	b.must(e.send("batch-01", span("two", b.now()))) // another device's batch of the same name
	raw, err := proto.Marshal(span("three", b.now()))
	b.must(err)
	b.must(d.sendRaw("batch-02", zip(raw), "gzip"))
	b.restart()
	b.must(d.send("batch-01", span("one", b.now())))
	got := b.events(api.ListEventsParams{})
	equal(t, len(got), 3)
	equal(t, got[0].DeviceID, d.id) // by the JWT, not by what is claimed
	equal(t, got[0].User, "ann")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := d.send("batch-03", span("four", b.now())); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	equal(t, len(b.events(api.ListEventsParams{})), 4)
}

func TestTracesRefused(t *testing.T) {
	b := newBed(t)
	d := b.device()
	deep := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: "x"}}
	for range 500 {
		deep = &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{deep}}}}
	}
	nested, err := proto.Marshal(span("deep", b.now(), &common.KeyValue{Key: "k", Value: deep}))
	b.must(err)
	_, err = d.report()
	b.must(err) // its boot is known now
	before := b.dump()
	b.code(d.sendRaw("batch-01", []byte("no protobuf"), ""), api.ProblemCodeMalformed)
	b.code(d.sendRaw("batch-01", nested, ""), api.ProblemCodeMalformed)
	b.code(d.sendRaw("batch-01", []byte("no gzip"), "gzip"), api.ProblemCodeMalformed)
	b.code(d.sendRaw("batch-01", zip([]byte("cut"))[:15], "gzip"), api.ProblemCodeMalformed)
	b.code(d.sendRaw("batch-01", zip(make([]byte, maxUnpacked+1)), "gzip"), api.ProblemCodeTooLarge)
	b.code(d.sendRaw("batch-01", zip(bytes.Repeat([]byte{1<<3 | 2, 0}, 1<<20)), "gzip"), api.ProblemCodeTooLarge) // empty, but many
	b.code(d.sendRaw("batch-01", []byte("x"), "br"), api.ProblemCodeUnsupportedMediaType)
	b.code(d.sendRaw("batch-01", make([]byte, 8<<20+1), ""), api.ProblemCodeTooLarge)
	b.code(d.sendRaw("short", []byte("x"), ""), api.ProblemCodeMalformed)
	b.code(d.sendRaw("batch-01", []byte{}, ""), api.ProblemCodeEmptyBody)
	equal(t, b.dump(), before)
}

// payloadSpan gives a hook's payload the attributes that the hook gives it.
func payloadSpan(t *testing.T, hook string, text []byte, at time.Time) *trace.TracesData {
	t.Helper()
	var payload map[string]json.RawMessage
	if err := json.Unmarshal(text, &payload); err != nil {
		t.Fatal(err)
	}
	attrs := []*common.KeyValue{attr("ingest.type", "copilot"), attr("copilot.hook", hook)}
	for k, v := range payload {
		name, value := "copilot."+k, string(v)
		var s string
		if json.Unmarshal(v, &s) == nil {
			value = s
		}
		if k == "hook_event_name" || k == "hookEventName" || k == "hookName" {
			continue
		}
		attrs = append(attrs, attr(name, value))
	}
	return span("copilot.event", at, attrs...)
}

// Every host shape of a tool call and its result is found by the same words: each captured payload of all versions.
func TestEventShapes(t *testing.T) {
	b := newBed(t)
	d := b.device()
	files, err := filepath.Glob("testdata/payloads/*.json")
	b.must(err)
	if len(files) < 8 {
		t.Fatalf("%d payloads", len(files))
	}
	for i, f := range files {
		text, err := os.ReadFile(f)
		b.must(err)
		b.must(d.send(fmt.Sprintf("batch-%04d", i), payloadSpan(t, strings.SplitN(filepath.Base(f), ".", 2)[0], text, b.now())))
	}
	all := b.events(api.ListEventsParams{Limit: 1000})
	equal(t, len(all), len(files))
	for i, e := range all {
		name := filepath.Base(files[i])
		kind := strings.ToLower(strings.SplitN(name, ".", 2)[0])
		if e.Kind != kind {
			t.Errorf("%s: kind %q", name, e.Kind)
		}
		if strings.Contains(kind, "tool") || kind == "permissionrequest" {
			if e.Tool == "" || e.HostTool == "" || e.Session == "" || e.Input == "" {
				t.Errorf("%s: tool %q host %q session %q input %q", name, e.Tool, e.HostTool, e.Session, e.Input)
			}
		}
		if kind == "posttooluse" && (e.Output == "" || strings.HasPrefix(e.Output, `{"result`)) {
			t.Errorf("%s: output %q", name, e.Output)
		}
		if strings.Contains(name, "subagent") && strings.HasPrefix(kind, "subagent") && e.Agent == "" {
			t.Errorf("%s: no agent", name)
		}
	}
	for _, tool := range []string{"shell", "SHELL"} {
		for _, e := range b.events(api.ListEventsParams{Tool: tool}) {
			equal(t, e.Tool, "shell")
		}
	}
	if n := len(b.events(api.ListEventsParams{Tool: "shell", Kind: "posttooluse"})); n < 2 {
		t.Errorf("%d shell results", n)
	}
}

func TestEventSearch(t *testing.T) {
	b := newBed(t)
	d := b.device()
	for i := range 30 {
		b.must(d.send(fmt.Sprintf("batch-%04d", i), span("s", b.now(), attr("copilot.hook", "PreToolUse"), attr("copilot.tool_name", "Bash"),
			attr("copilot.tool_input", fmt.Sprintf(`{"command":"echo %d"}`, i)), attr("copilot.agentName", []string{"main", "helper"}[i%2]), attr("pinta.guard.decision", []string{"allow", "deny"}[i/15]))))
	}
	equal(t, len(b.events(api.ListEventsParams{Decision: "deny"})), 15)
	equal(t, len(b.events(api.ListEventsParams{Agent: "helper", Decision: "DENY"})), 8)
	equal(t, len(b.events(api.ListEventsParams{Text: "ECHO 29"})), 1)
	equal(t, len(b.events(api.ListEventsParams{Device: "another"})), 0)
	equal(t, len(b.events(api.ListEventsParams{User: "ann", Tool: "bash", Kind: "pretooluse", Session: ""})), 30)
	equal(t, len(b.events(api.ListEventsParams{Since: b.now().Add(time.Hour).Format(time.RFC3339)})), 0)
	equal(t, len(b.events(api.ListEventsParams{Until: b.now().Add(-time.Hour).Format(time.RFC3339)})), 0)
	tail := b.events(api.ListEventsParams{Last: 3})
	equal(t, len(tail), 3)
	b.contains(tail[2].Input, "echo 29")
	var all []api.Event
	for p := (api.ListEventsParams{Limit: 7}); ; {
		page, err := api.JSON[api.EventPage](b.admin(api.RoleViewer).ListEvents(t.Context(), p))
		b.must(err)
		all = append(all, page.Events...)
		if !page.More {
			break
		}
		p.After = page.Next
	}
	equal(t, len(all), 30)
	_, err := api.JSON[api.EventPage](b.admin(api.RoleViewer).ListEvents(t.Context(), api.ListEventsParams{Since: "yesterday"}))
	b.code(err, api.ProblemCodeMalformed)

	// Waiting for what is to come.
	page, err := api.JSON[api.EventPage](b.admin(api.RoleViewer).ListEvents(t.Context(), api.ListEventsParams{Last: 1}))
	b.must(err)
	got := make(chan int, 1)
	go func() { got <- len(b.events(api.ListEventsParams{After: page.Next, Wait: 30, Decision: "review"})) }()
	b.must(d.send("batch-else", span("s", b.now(), attr("pinta.guard.decision", "allow"))))
	b.must(d.send("batch-this", span("s", b.now(), attr("pinta.guard.decision", "review"))))
	equal(t, <-got, 1)
}

func TestRetention(t *testing.T) {
	b := newBed(t, func(o *Options) { o.EventBytes = 64 << 10 })
	d := b.device()
	for i := range 20 {
		b.must(d.send(fmt.Sprintf("batch-%04d", i), span("s", b.now(), attr("copilot.tool_input", strings.Repeat("x", 4000)))))
	}
	b.must(b.m.retain(t.Context()))
	left := b.events(api.ListEventsParams{})
	if len(left) == 0 || len(left) > 16 {
		t.Fatalf("%d events of about 8 KiB within 64 KiB", len(left))
	}
	b.later(31 * 24 * time.Hour)
	b.must(d.send("batch-late", span("s", b.now())))
	b.must(b.m.retain(t.Context()))
	equal(t, len(b.events(api.ListEventsParams{})), 1)
	known := 0
	b.must(b.m.view(t.Context(), func(tx store.Tx) error {
		for range tx.Scan(string(batches), store.Range{}) {
			known++
		}
		return nil
	}))
	equal(t, known, 1) // what no device sends again is forgotten
}

func TestForward(t *testing.T) {
	var mu sync.Mutex
	var got []string
	answers := []int{503, 429, 200, 400, 200}
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := forwarded(t, r)
		mu.Lock()
		defer mu.Unlock()
		status := 200
		if len(answers) > 0 {
			status, answers = answers[0], answers[1:]
		}
		if status == 200 {
			got = append(got, data.ResourceSpans[0].ScopeSpans[0].Spans[0].Name)
		}
		w.WriteHeader(status)
	}))
	defer sink.Close()
	b := newBed(t, func(o *Options) { o.Forward = sink.URL })
	d := b.device()
	for i := range 4 {
		b.must(d.send(fmt.Sprintf("batch-%04d", i), span(fmt.Sprint(i), b.now())))
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		mu.Lock()
		all := strings.Join(got, " ")
		mu.Unlock()
		if all == "0 2 3" { // the second was refused for good
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("forwarded %q", all)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// forwarded is what a collector is given, and its size.
func forwarded(t *testing.T, r *http.Request) (data *trace.TracesData, size int) {
	data = &trace.TracesData{}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		t.Error(err)
		return data, 0
	}
	raw, _ := io.ReadAll(z)
	if err := proto.Unmarshal(raw, data); err != nil {
		t.Error(err)
	}
	return data, len(raw)
}

// TestForwardPartsWhatIsTooLarge: a batch over the collector's limit comes in parts, in order, each span once; only the
// span that is too large alone is dropped.
func TestForwardPartsWhatIsTooLarge(t *testing.T) {
	var mu sync.Mutex
	var got []string
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, size := forwarded(t, r)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case size > 2000 && len(got)%2 == 0:
			http.Error(w, "http: request body too large", http.StatusBadRequest) // as the OpenTelemetry Collector says it
			return
		case size > 2000:
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		for _, rs := range data.ResourceSpans {
			for _, s := range rs.ScopeSpans[0].Spans {
				got = append(got, s.Name)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Write(otlp.Answer{Rejected: 1, Message: "one was odd"}.Proto())
	}))
	defer sink.Close()
	var log bytes.Buffer
	b := newBed(t, func(o *Options) {
		o.Forward, o.Log = sink.URL, slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
	})
	d := b.device()
	all := &trace.TracesData{}
	for i := range 7 {
		one := span(fmt.Sprint(i), b.now(), attr("text", strings.Repeat("x", 900)))
		if i == 3 {
			one = span("huge", b.now(), attr("text", strings.Repeat("y", 3000)))
		}
		all.ResourceSpans = append(all.ResourceSpans, one.ResourceSpans...)
	}
	b.must(d.send("batch-0000", all))
	b.must(d.send("batch-0001", span("last", b.now())))
	var left int64
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		b.must(b.m.view(t.Context(), func(tx store.Tx) (err error) {
			left, err = orZero(counters.Get(tx, counterOutbox))
			return err
		}))
		mu.Lock()
		names := strings.Join(got, " ")
		mu.Unlock()
		if names == "0 1 2 4 5 6 last" && left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("forwarded %q, %d bytes left", names, left)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if text := log.String(); !strings.Contains(text, "a span is too large") || !strings.Contains(text, "one was odd") {
		t.Errorf("log: %s", text)
	}
}

// A value of lists in lists is told once: text of JSON in text of JSON would double with each level.
func TestNestedValuesStaySmall(t *testing.T) {
	b := newBed(t)
	d := b.device()
	value := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: `"`}}
	for range 18 {
		value = &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: []*common.KeyValue{{Key: "k", Value: value}}}}}
	}
	list := &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{
		{Value: &common.AnyValue_StringValue{StringValue: "a"}}, {Value: &common.AnyValue_IntValue{IntValue: 1 << 60}}, {Value: &common.AnyValue_DoubleValue{DoubleValue: math.NaN()}},
	}}}}
	b.must(d.send("batch-01", span("nested", b.now(), &common.KeyValue{Key: "deep", Value: value}, &common.KeyValue{Key: "list", Value: list})))
	got := b.events(api.ListEventsParams{})
	equal(t, len(got), 1)
	if n := len(got[0].Attributes["deep"]); n > 1000 {
		t.Errorf("18 levels take %d bytes", n)
	}
	equal(t, got[0].Attributes["list"], `["a",1152921504606846976,"NaN"]`)
}
