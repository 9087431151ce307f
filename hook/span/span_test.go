package span

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/redact"
)

func parse(t testing.TB, payload string) *event.Event {
	t.Helper()
	e, err := event.Parse(event.Decode([]byte(payload)), "")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func build(t testing.TB, payload string) *Span {
	s := New(parse(t, payload), event.CLI, Model{}, time.Unix(1700000000, 1))
	s.Trace[15] = 1
	(&Host{PID: 7, Owner: "dev", Name: "h", Arch: "amd64", SDK: "1.2.3"}).Describe(s)
	return s
}

// strict reads our JSON as a collector that follows the protocol to the
// letter: unknown fields are errors. OTLP/JSON spells ids in hex where
// protojson expects base64.
func strict(t testing.TB, data []byte) *tracepb.TracesData {
	t.Helper()
	var doc any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for k, x := range v {
				if s, ok := x.(string); ok && (k == "traceId" || k == "spanId") {
					id, err := hex.DecodeString(s)
					if err != nil || s != strings.ToLower(s) {
						t.Fatalf("%s %q", k, s)
					}
					v[k] = base64.StdEncoding.EncodeToString(id)
					continue
				}
				walk(x)
			}
		}
	}
	walk(doc)
	again, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var out tracepb.TracesData
	if err := (protojson.UnmarshalOptions{}).Unmarshal(again, &out); err != nil {
		t.Fatalf("%v\n%.400s", err, data)
	}
	return &out
}

func attrs(t testing.TB, s *Span) map[string]any {
	out := map[string]any{}
	for _, kv := range strict(t, s.Append(nil)).ResourceSpans[0].ScopeSpans[0].Spans[0].Attributes {
		if _, twice := out[kv.Key]; twice {
			t.Errorf("%s occurs twice", kv.Key)
		}
		if !utf8.ValidString(kv.Key) {
			t.Errorf("key %q", kv.Key)
		}
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_IntValue:
			out[kv.Key] = v.IntValue
		case *commonpb.AnyValue_DoubleValue:
			out[kv.Key] = v.DoubleValue
		case *commonpb.AnyValue_BoolValue:
			out[kv.Key] = v.BoolValue
		case *commonpb.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		default:
			t.Errorf("%s is a %T", kv.Key, v)
		}
	}
	return out
}

func TestOTLP(t *testing.T) {
	s := build(t, `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_input":{"a":1e400,"b":[9007199254740993,"<&>"]},
		"i":9007199254740993,"max":9223372036854775807,"over":9223372036854775808,"neg":-0,"d":0.5,"e":1E2,"inf":1e400,"t":true,"n":null,"s":"x\u0000\ud800y","long":`+"0."+strings.Repeat("1", 500)+`}`)
	s.Dropped = 2
	td := strict(t, s.Append(nil))
	span := td.ResourceSpans[0].ScopeSpans[0].Spans[0]
	if span.Name != "copilot.pre_tool_use" || span.Kind != 1 || span.StartTimeUnixNano != 1700000000000000001 || span.EndTimeUnixNano != span.StartTimeUnixNano ||
		len(span.TraceId) != 16 || len(span.SpanId) != 8 || span.DroppedAttributesCount != 2 {
		t.Errorf("span %v", span)
	}
	if scope := td.ResourceSpans[0].ScopeSpans[0].Scope; scope.Name != ScopeName || scope.Version == "" {
		t.Errorf("scope %v", scope)
	}
	got := attrs(t, s)
	for key, want := range map[string]any{
		"ingest.type": "copilot", "copilot.hook": "PreToolUse", "copilot.surface": "cli", "copilot.session_id": "s", "copilot.tool_input": `{"a":1e400,"b":[9007199254740993,"<&>"]}`,
		"copilot.i": int64(9007199254740993), "copilot.max": int64(9223372036854775807), "copilot.over": "9223372036854775808", "copilot.neg": int64(0), "copilot.d": 0.5, "copilot.e": 100.0,
		"copilot.inf": "1e400", "copilot.t": true, "copilot.s": "x\x00\uFFFDy", "copilot.long": "0." + strings.Repeat("1", 500),
	} {
		if got[key] != want {
			t.Errorf("%s = %v (%T), want %v", key, got[key], got[key], want)
		}
	}
	if _, ok := got["copilot.n"]; ok {
		t.Error("null was sent")
	}
}

func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"": "copilot.unknown", "PreToolUse": "copilot.pre_tool_use", "preToolUse": "copilot.pre_tool_use", "HTTPDone": "copilot.httpdone", "a1B": "copilot.a1_b",
		"x y/ä": "copilot.x_y__", strings.Repeat("aB", 100): "copilot." + strings.Repeat("a_b", 40),
	} {
		if got := Name(name); got != want || len(got) > 128 {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestKeysStayApart(t *testing.T) {
	e := parse(t, `{"hook_event_name":"Stop","hook":"a","surface":"b","payload.hook":"c","model":"unknown","model_source":"h","model_original_source":"o"}`)
	s := New(e, event.CLI, Model{Name: "m", Source: "transcript.x", Displaced: "h"}, time.Now())
	got := attrs(t, s)
	for key, want := range map[string]any{
		"copilot.hook": "Stop", "copilot.payload.hook": "a", "copilot.payload.surface": "b", "copilot.payload.payload.hook": "c",
		"copilot.model": "m", "copilot.model_source": "transcript.x", "copilot.model_original_source": "h", "copilot.payload.model_original_source": "o",
	} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
	order := s.Attrs
	if order[len(order)-1].Key != "copilot.model_original_source" || s.Attrs[6].Key != "copilot.model" {
		t.Errorf("order %v", order)
	}
}

func TestDeepValuesAreText(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 5000) + `"AKIAIOSFODNN7EXAMPLE"` + strings.Repeat("}", 5000)
	s := build(t, `{"hook_event_name":"PreToolUse","tool_name":"x","tool_input":`+deep+`}`)
	if got := attrs(t, s)["copilot.tool_input"]; got != deep {
		t.Errorf("carried %d bytes", len(fmt.Sprint(got)))
	}
	s.Redact(redact.NewMasker(nil))
	if got := attrs(t, s)["copilot.tool_input"]; strings.Contains(got.(string), "AKIA") {
		t.Error("the deep value was not redacted")
	}
}

func TestMasksEverywhere(t *testing.T) {
	s := build(t, `{"hook_event_name":"PostToolUse","session_id":"id-hunter2","tool_name":"x","n":48213377,"tool_input":{"k":"hunter2"},"tool_result":{"hunter2":"a hunter2"},"hunter2":1}`)
	s.Redact(redact.NewMasker([]redact.Redaction{{Value: "hunter2", Category: "pw"}, {Value: "48213377", Category: "pin"}}))
	if body := string(s.Append(nil)); strings.Contains(body, "hunter2") || strings.Contains(body, "48213377") {
		t.Errorf("%s", body)
	}
	attrs(t, s)
}

// TestResourceIsClean: the version comes from the payload, too.
func TestResourceIsClean(t *testing.T) {
	const key = "AKIAIOSFODNN7EXAMPLE"
	s := build(t, `{"hook_event_name":"Stop"}`)
	s.Resource = nil
	(&Host{Version: key + " hunter2", Owner: "hunter2", Name: key, Arch: "amd64", SDK: "1.2.3"}).Describe(s)
	before := string(s.Append(nil))
	if body := string(s.Judged().Append(nil)); strings.Contains(body, key) || string(s.Append(nil)) != before {
		t.Errorf("judged %s", body)
	}
	s.Redact(redact.NewMasker([]redact.Redaction{{Value: "hunter2", Category: "pw"}}))
	if body := string(s.Append(nil)); strings.Contains(body, key) || strings.Contains(body, "hunter2") {
		t.Errorf("sent %s", body)
	}
}

// TestKeysAreRedactedAsValues: behind the prefix a key begins as a text does.
func TestKeysAreRedactedAsValues(t *testing.T) {
	s := build(t, `{"hook_event_name":"Stop","API_KEY=hunter2":1,"{\"a\":\"\\u0041KIAIOSFODNN7EXAMPLE\"}":2}`)
	s.Redact(redact.NewMasker(nil))
	got := attrs(t, s)
	for _, want := range []string{"copilot.API_KEY=[REDACTED:env_var_secret]", `copilot.{"a":"[REDACTED:aws_access_key]"}`} {
		if _, ok := got[want]; !ok {
			t.Errorf("no %s in %v", want, got)
		}
	}
}

func TestCutKeysStayApart(t *testing.T) {
	long := strings.Repeat("k", MaxString)
	s := build(t, `{"hook_event_name":"Stop","`+long+`a":1,"`+long+`b":2,"`+long+`c":3}`)
	s.Fit()
	if got := attrs(t, s); len(got) != 6 {
		t.Errorf("%d attributes", len(got))
	}
}

func TestRedactedKeysStayApart(t *testing.T) {
	s := build(t, `{"hook_event_name":"Stop","AKIAIOSFODNN7EXAMPLE":1,"AKIAIOSFODNN7EXAMPLF":2}`)
	s.Redact(redact.NewMasker(nil))
	if got := attrs(t, s); len(got) != 5 {
		t.Errorf("%v", got)
	}
}

func TestFit(t *testing.T) {
	many := func(n, size int, unit string) string {
		var b strings.Builder
		b.WriteString(`{"hook_event_name":"UserPromptSubmit"`)
		for i := range n {
			fmt.Fprintf(&b, `,"k%d":"%s"`, i, strings.Repeat(unit, size))
		}
		return b.String() + "}"
	}
	for name, payload := range map[string]string{
		"one long":         many(1, 150_000, "a"),
		"twenty long":      many(20, 100_000, "z"),
		"escapes":          many(20, 60_000, `\u0001`),
		"two-byte runes":   many(12, 70_000, "é"),
		"four-byte runes":  many(12, 30_000, "😀"),
		"many small":       many(30_000, 40, "s"),
		"many empty":       many(60_000, 0, ""),
		"one and many":     strings.TrimSuffix(many(8000, 60, "s"), "}") + `,"big":"` + strings.Repeat("b", 700_000) + `"}`,
		"one long key":     `{"hook_event_name":"Stop","` + strings.Repeat("k", 500_000) + `":1}`,
		"a thousand quite": many(1000, 2000, `\"`),
	} {
		t.Run(name, func(t *testing.T) {
			s := build(t, payload)
			s.Redact(redact.NewMasker(nil))
			s.Say("pinta.guard.decision", "deny")
			s.Fit()
			if n := len(s.appendSpan(nil)); n > MaxSpan {
				t.Errorf("span of %d bytes", n)
			}
			if n := len(s.Append(nil)); n > MaxPost {
				t.Errorf("body of %d bytes", n)
			}
			got := attrs(t, s)
			if got["ingest.type"] != "copilot" || got["pinta.guard.decision"] != "deny" {
				t.Error("a fixed attribute is gone")
			}
			for k, v := range got {
				text, ok := v.(string)
				if !ok {
					continue
				}
				body, _, cut := strings.Cut(text, "…[TRUNCATED:")
				if len(body) > MaxString || cut && len(body) < minString-utf8.UTFMax {
					t.Errorf("%.20s has %d bytes", k, len(text))
				}
			}
		})
	}
}

func TestFitSaysTheOriginalLength(t *testing.T) {
	s := build(t, `{"hook_event_name":"UserPromptSubmit","prompt":"`+strings.Repeat("é", 75_001)+`"}`)
	s.Fit()
	want := strings.Repeat("é", MaxString/2) + "…[TRUNCATED:150002]"
	if got := attrs(t, s)["copilot.prompt"]; got != want {
		t.Errorf("%d bytes, end %q", len(got.(string)), got.(string)[len(got.(string))-30:])
	}
}

func TestQuestion(t *testing.T) {
	pad := strings.Repeat("0123456789abcdef", 6<<16) // 6 MiB
	for name, c := range map[string]struct {
		payload string
		keeps   []string
	}{
		"small":               {`{"hook_event_name":"PreToolUse","tool_name":"x","tool_input":{"command":"ls"}}`, []string{`{\"command\":\"ls\"}`}},
		"long input":          {`{"hook_event_name":"PreToolUse","tool_name":"x","tool_input":{"content":"HEAD` + pad + `TAIL","path":"p"}}`, []string{"HEAD", "TAIL", `\"path\":\"p\"`}},
		"string arguments":    {`{"hook_event_name":"PreToolUse","toolName":"x","toolArgs":"{\"content\":\"HEAD` + pad + `TAIL\",\"path\":\"p\"}"}`, []string{"HEAD", "TAIL", `\"path\":\"p\"`}},
		"prompt and input":    {`{"hook_event_name":"PreToolUse","tool_name":"x","other":"` + pad + `","tool_input":{"command":"COMMAND"}}`, []string{"COMMAND"}},
		"many long strings":   {`{"hook_event_name":"PreToolUse","tool_name":"x","tool_input":["` + strings.Repeat(strings.Repeat("y", 90_000)+`","`, 60) + `END"]}`, []string{"END"}},
		"many short strings":  {`{"hook_event_name":"PreToolUse","tool_name":"x","tool_input":["` + strings.Repeat(`abcdefgh","`, 600_000) + `END"]}`, []string{"END"}},
		"numbers":             {`{"hook_event_name":"PreToolUse","tool_name":"x","tool_input":[` + strings.Repeat(`123456789,`, 600_000) + `7]}`, nil},
		"escapes":             {`{"hook_event_name":"PreToolUse","tool_name":"x","tool_input":{"c":"` + strings.Repeat(`\u0001\"`, 700_000) + `END"}}`, []string{"END"}},
		"wide, then the tool": {`{"hook_event_name":"PreToolUse"` + wide(200_000) + `,"tool_name":"x","tool_input":{"command":"COMMAND"}}`, []string{"COMMAND", `copilot.tool_name`}},
		"wide":                {`{"hook_event_name":"PreToolUse","tool_name":"x"` + strings.Repeat(`,"k":"v"`, 10) + wide(200_000) + `}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := build(t, c.payload)
			before := string(s.Append(nil))
			for _, limit := range []int{4 << 20, 921_600} {
				body := s.Question(limit)
				if len(body) > limit {
					t.Errorf("%d bytes of %d", len(body), limit)
				}
				if len(before) <= limit && string(body) != before {
					t.Error("what fits was changed")
				}
				strict(t, body)
				for _, k := range c.keeps {
					if !bytes.Contains(body, []byte(k)) {
						t.Errorf("lacks %s", k)
					}
				}
				if len(before) > limit && len(c.keeps) > 0 && strings.HasPrefix(name, "long") && len(body) < limit/2 {
					t.Errorf("shrunk to %d of %d", len(body), limit)
				}
				checkNested(t, body)
			}
			if string(s.Append(nil)) != before {
				t.Error("the span itself was changed")
			}
		})
	}
}

func wide(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"x%d":%d`, i, i)
	}
	return b.String()
}

// checkNested: a tool's input that was JSON still is.
func checkNested(t *testing.T, body []byte) {
	var doc struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					Attributes []struct {
						Key   string
						Value struct{ StringValue string }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	for _, a := range doc.ResourceSpans[0].ScopeSpans[0].Spans[0].Attributes {
		if a.Key == "copilot.tool_input" && strings.HasPrefix(a.Value.StringValue, "{") && !json.Valid([]byte(a.Value.StringValue)) {
			t.Errorf("%s is no JSON any more", a.Key)
		}
	}
}

func TestHostVersion(t *testing.T) {
	for _, c := range []struct {
		payload string
		env     map[string]string
		want    string
	}{
		{`{}`, nil, ""},
		{`{"version":7}`, nil, ""},
		{`{"version":" 1.2 "}`, nil, "1.2"},
		{`{"copilot_version":"unknown","cliVersion":"3.4"}`, nil, "3.4"},
		{`{}`, map[string]string{"COPILOT_CLI_VERSION": "2"}, "2"},
		{`{}`, map[string]string{"COPILOT_CLI_BINARY_VERSION": "0.0.0", "COPILOT_CLI_VERSION": "2"}, "2"},
		{`{}`, map[string]string{"COPILOT_CLI_RESOLVED_DIST_DIR": "/home/u/.cache/copilot/pkg/linux-x64/1.0.102"}, "1.0.102"},
		{`{}`, map[string]string{"COPILOT_CLI_RESOLVED_DIST_DIR": `C:\Users\u\copilot\1.0.57\dist`}, "1.0.57"},
		{`{}`, map[string]string{"COPILOT_CLI_RESOLVED_DIST_DIR": "/home/2.dev/pkg/1.0.102"}, "1.0.102"},
		{`{}`, map[string]string{"COPILOT_CLI_RESOLVED_DIST_DIR": "/opt/copilot"}, ""},
	} {
		if got := HostVersion(parse(t, c.payload), func(k string) string { return c.env[k] }); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.payload, c.env, got, c.want)
		}
	}
}

func FuzzSpan(f *testing.F) {
	f.Add(`{"hook_event_name":"PreToolUse","tool_name":"x","tool_input":{"a":[1,2.5,"x"]}}`, 300)
	f.Add(`{"a":"\ud800","b":1e999,"c":-0,"d":{"x":"AKIAIOSFODNN7EXAMPLE"}}`, 5000)
	f.Fuzz(func(t *testing.T, payload string, limit int) {
		e, err := event.Parse(event.Decode([]byte(payload)), "")
		if err != nil {
			return
		}
		s := New(e, event.CLI, Model{}, time.Now())
		s.Trace[0] = 1
		strict(t, s.Question(min(max(limit, 2000), 1<<20)))
		strict(t, s.Judged().Append(nil))
		s.Redact(redact.NewMasker([]redact.Redaction{{Value: "a", Category: "c"}}))
		s.Fit()
		attrs(t, s)
	})
}
