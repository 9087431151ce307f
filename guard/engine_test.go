package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/span"
)

const examplePolicy = `
mode: enforce
timeoutMs: 500
rules:
  - id: deny_resource_destruction
    on: tool_input            # tool_input | tool_output
    tools: [shell]
    when: commands.exists(c, c.name == 'rm' && c.flags.exists(f, f == 'r' || f == 'recursive')) && !cwd.startsWith('/tmp/')
    except: user == 'ci-bot'
    until: 2027-01-31
    action: deny
    message: "Recursive delete outside /tmp is not allowed. Move files to the trash folder instead."
    tags: [destructive]
  - id: mask_secrets
    on: tool_output
    detect: [secrets]
    action: mask
    message: Secrets are hidden.
  - id: review_push
    on: tool_input
    tools: [shell]
    when: commands.exists(c, c.name == 'git' && 'push' in c.args)
    action: review
`

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func authored(t testing.TB, text string) *Authored {
	t.Helper()
	a, err := ParsePolicy(write(t, "policy.yaml", text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func loaded(t testing.TB, text string, opt Options) *Engine {
	t.Helper()
	raw, err := authored(t, text).GuardJSON()
	if err != nil {
		t.Fatal(err)
	}
	e := NewEngine(opt)
	if err := e.Load(raw, 1, "engineering"); err != nil {
		t.Fatal(err)
	}
	return e
}

// spanOf is the question that the hook sends for an event.
func spanOf(e *event.Event, surface event.Surface, source string) []byte {
	s := span.New(e, surface, span.Model{}, time.Now())
	host := span.Host{Owner: "dev", Name: "box", Arch: "amd64", SDK: "1.0.0", Source: source}
	host.Describe(s)
	return s.Question(8 << 20)
}

// question is the body that the hook sends for a payload.
func question(t testing.TB, payload string) []byte {
	t.Helper()
	e, err := event.Parse([]byte(payload), "")
	if err != nil {
		t.Fatal(err)
	}
	return spanOf(e, event.CLI, "user")
}

func ask(t testing.TB, e *Engine, payload string) map[string]any {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/guard/evaluate", bytes.NewReader(question(t, payload)))
	r.Header.Set("X-Pinta-Guard-Budget-Ms", "2000")
	e.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func payload(t testing.TB, tool string, input map[string]any, output any) string {
	t.Helper()
	p := map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/home/dev/repo", "tool_name": tool, "tool_input": input}
	if output != nil {
		p["hook_event_name"] = "PostToolUse"
		p["tool_result"] = map[string]any{"result_type": "success", "text_result_for_llm": output}
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFirstSlice(t *testing.T) {
	var seen []Verdict
	e := loaded(t, examplePolicy, Options{OnVerdict: func(v Verdict) { seen = append(seen, v) }})
	a := ask(t, e, payload(t, "Bash", map[string]any{"command": "sudo rm -rf /srv/data"}, nil))
	if a["decision"] != "DENY" || a["reason"] != "deny_resource_destruction" || !strings.HasPrefix(a["userMessage"].(string), "Recursive") || a["evaluationId"] == nil {
		t.Errorf("got %v", a)
	}
	a = ask(t, e, payload(t, "Bash", map[string]any{"command": `git commit -m "never rm -rf /"`}, nil))
	if a["decision"] != "ALLOW" || a["evaluationId"] != nil {
		t.Errorf("got %v", a)
	}
	a = ask(t, e, payload(t, "Bash", map[string]any{"command": "git push origin"}, nil))
	if a["decision"] != "REVIEW" {
		t.Errorf("got %v", a)
	}
	token := "ghp_" + strings.Repeat("aB3dE6", 6)
	a = ask(t, e, payload(t, "Bash", map[string]any{"command": "cat x"}, "token: "+token+"\n"))
	if a["decision"] != "DENY" || a["outputAction"] != "mask" {
		t.Fatalf("got %v", a)
	}
	r := a["redactions"].([]any)[0].(map[string]any)
	if r["value"] != token || r["category"] != "github_token" {
		t.Errorf("got %v", r)
	}
	if v, ok := e.Why(a["evaluationId"].(string)); !ok || v.Rule != "mask_secrets" || strings.Contains(v.Excerpt, token) {
		t.Errorf("why: %+v", v)
	}
	if len(seen) != 4 {
		t.Errorf("%d verdicts", len(seen))
	}
	_ = context.Background()
}

// TestLate: a verdict that stands at the deadline is given, whether or not its
// excerpt is made by then.
func TestLate(t *testing.T) {
	e := loaded(t, examplePolicy, Options{})
	ev, err := EventFromPayload([]byte(payload(t, "Bash", map[string]any{"command": "rm -rf /srv"}, nil)), "")
	if err != nil {
		t.Fatal(err)
	}
	none := make(chan outcome)
	if out := late(none, ev); !out.overrun || out.rule != nil {
		t.Errorf("nothing is known: %+v", out)
	}
	want := e.current.Load().judge(t.Context(), ev)
	if out := late(none, ev); out.overrun || out.rule == nil || out.rule != want.rule {
		t.Errorf("decided: %+v, want %+v", out, want)
	}
	if a := e.Evaluate(t.Context(), ev, 1); a.FailOpenReason != "timeout" { // no verdict of before is given again
		t.Errorf("%+v", a)
	}
}
