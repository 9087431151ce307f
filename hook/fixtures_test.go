package hook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/redact"
	"github.com/pinta-ai/pinta-agent/hook/span"
)

// payloads are the real payloads of several versions of the Copilot CLI: the
// file's name begins with the key under which the host runs the hook.
func payloads(t testing.TB, version string) map[string][]byte {
	files, err := filepath.Glob(filepath.Join("testdata/fixtures", version, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no payloads of %s: %v", version, err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		if strings.HasPrefix(filepath.Base(f), "_env") {
			continue
		}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.ToSlash(strings.TrimPrefix(f, filepath.Join("testdata", "fixtures")+string(filepath.Separator)))] = data
	}
	return out
}

func bindingOf(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return name
}

// TestPayloads: each real payload is recognised, and its span carries every
// member as it came.
func TestPayloads(t *testing.T) {
	unknown := map[string]bool{"premcptoolcall": true, "userprompttransformed": true}
	for file, data := range payloads(t, "*") {
		t.Run(file, func(t *testing.T) {
			binding := bindingOf(file)
			e, err := event.Parse(event.Decode(data), binding)
			if err != nil {
				t.Fatal(err)
			}
			if want := event.KindOf(binding); e.Kind != want || (want == event.Unknown) != unknown[strings.ToLower(binding)] {
				t.Errorf("kind %d, name %q", e.Kind, e.Name)
			}
			if e.Session() == "" {
				t.Error("no session")
			}
			if e.Guarded() != (e.Kind == event.PreToolUse || e.Kind == event.PostToolUse || e.Kind == event.PermissionRequest) {
				t.Errorf("guarded: %v", e.Guarded())
			}
			if e.Guarded() && e.Tool() == "" {
				t.Error("no tool")
			}
			if _, ok := e.Output(); ok != (e.Kind == event.PostToolUse) {
				t.Errorf("output: %v", ok)
			}
			s := span.New(e, event.CLI, span.Model{}, time.UnixMilli(1767323045678))
			s.Trace[0] = 1
			s.Redact(redact.NewMasker(nil))
			s.Fit()
			roundTrip(t, data, s)
		})
	}
}

// roundTrip compares the span's attributes with the payload's members.
func roundTrip(t *testing.T, payload []byte, s *span.Span) {
	doc, err := decodeOrdered(s.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	spans := spansIn(t, doc.(object))
	if len(spans) != 1 {
		t.Fatalf("%d spans", len(spans))
	}
	if err := checkSpan(object{}, spans[0], "span"); err != nil {
		t.Error(err)
	}
	members, err := decodeOrdered(payload)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members.(object) {
		if m.value == nil || event.IsDiscriminator(m.key) || m.key == "model" {
			continue
		}
		got, ok := spans[0].attrs.get("copilot." + m.key)
		if !ok {
			t.Errorf("%s is lost", m.key)
			continue
		}
		switch m.value.(type) {
		case object, []any:
			if got, err = decodeOrdered([]byte(got.(string))); err != nil {
				t.Errorf("%s: %v", m.key, err)
			}
		case json.Number:
			if got.(json.Number) != m.value.(json.Number) {
				t.Errorf("%s: %v became %v", m.key, m.value, got)
			}
		}
		if err := match(m.value, got, m.key); err != nil {
			t.Error(err)
		}
	}
}

// TestPayloadsDenied runs the real payloads of the newest version through the
// binary under a guard that denies everything: each guarded event gets the one
// form that its host honours, each other event nothing.
func TestPayloadsDenied(t *testing.T) {
	const answer = `{"decision":"DENY","reason":"deny_x","userMessage":"Blocked","durationMs":3,"evaluationId":"ev-1"}`
	w := newWorld(t, []reply{answering(answer)}, []reply{answering("{}")})
	w.envFile(t, defaultFile)
	for file, data := range payloads(t, "1.0.102") {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			binding := bindingOf(file)
			r := invoke(t, feed{data: data}, w.env(map[string]string{"PINTA_COPILOT_EVENT": binding}), w.root)
			if err := checkInvariants(r); err != nil {
				t.Fatal(err)
			}
			want := ""
			switch binding {
			case "preToolUse":
				want = `{"permissionDecision":"deny","permissionDecisionReason":"Blocked (evaluation ev-1)"}`
			case "PreToolUse":
				want = `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"Blocked (evaluation ev-1)"}}`
			case "PermissionRequest", "permissionRequest":
				want = `{"behavior":"deny","message":"Blocked (evaluation ev-1)"}`
			case "PostToolUse", "postToolUse":
				if !strings.HasPrefix(r.stdout, `{"modifiedResult":{"resultType":"success","textResultForLlm":"Blocked (evaluation ev-1)\n\n`) {
					t.Errorf("stdout %q", r.stdout)
				}
				return
			}
			if strings.TrimSuffix(r.stdout, "\n") != want {
				t.Errorf("stdout %q, expected %q", r.stdout, want)
			}
		})
	}
}
