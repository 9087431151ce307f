package guard

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/span"
)

// TestJudgedAsTheHookDoes: what goes to the remote tier is, byte for byte, what
// the hook itself would send over TCP for the same event.
func TestJudgedAsTheHookDoes(t *testing.T) {
	token := "ghp_" + strings.Repeat("aB3dE6", 6)
	payloads := map[string]string{
		"identifiers": `{"hook_event_name":"PreToolUse","session_id":"` + token + `","cwd":"/home/` + token + `","transcript_path":"/x/` + token + `","tool_name":"Bash","tool_input":{"command":"echo ` + token + ` ; export A_KEY=abc$(x)"}}`,
		"numbers":     `{"hook_event_name":"PreToolUse","n":12,"d":1.5e3,"b":true,"z":null,"list":["` + token + `",{"k":1}],"timestamp":1700000000000,"tool_name":"Bash","tool_input":{}}`,
		"keys":        `{"hook_event_name":"PreToolUse","` + token + `":1,"tool_name":"Bash","tool_input":{"` + token + `":"` + token + `"}}`,
		"collision":   `{"hook_event_name":"PreToolUse","hook":"` + token + `","surface":"x","tool_name":"Bash","tool_input":{"command":"mysql -phunter2"},"note":"mysql -phunter2"}`,
		"output":      `{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"x"},"tool_result":{"result_type":"success","text_result_for_llm":"{\"a\":\"` + token + `\"}"}}`,
	}
	for _, file := range fixtures(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		payloads[file] = string(data)
	}
	for name, payload := range payloads {
		t.Run(name, func(t *testing.T) {
			e, err := event.Parse([]byte(payload), "PreToolUse")
			if err != nil {
				t.Fatal(err)
			}
			s := span.New(e, event.CLI, span.Model{}, time.Unix(1700000000, 5))
			host := span.Host{Owner: "dev", Name: "box", Arch: "amd64", SDK: "1.0.0", Source: "user"}
			host.Describe(s)
			want := string(s.Judged().Question(MaxQuestion))
			got, err := judged(s.Question(MaxQuestion))
			if err != nil || string(got) != want {
				t.Errorf("%v\n got %s\nwant %s", err, got, want)
			}
		})
	}
	for _, body := range []string{"", "{}", `{"resourceSpans":[]}`, `{"input":{}}`, "x"} {
		if got, err := judged([]byte(body)); err == nil {
			t.Errorf("%q became %s", body, got)
		}
	}
}

// TestBreakerIsNobodysSwitch: questions that are broken, or have no time, don't
// rest the second tier for everybody.
func TestBreakerIsNobodysSwitch(t *testing.T) {
	var asked atomic.Int32
	var status atomic.Int32
	status.Store(http.StatusBadRequest)
	release := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if status.Load() == 0 {
			select {
			case <-r.Context().Done():
			case <-release:
			}
			return
		}
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"decision":"DENY","reason":"remote"}`)
	}))
	defer server.Close()
	defer close(release)
	e := loaded(t, examplePolicy+"remote: {endpoint: "+server.URL+", timeoutMs: 320, when: review}\n", Options{HTTP: server.Client()})
	push := question(t, payload(t, "Bash", map[string]any{"command": "git push"}, nil))
	send := func(budget string) string {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(push))
		r.Header.Set("X-Pinta-Guard-Budget-Ms", budget)
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, r)
		return w.Body.String()
	}
	for range breakerFails + 1 {
		send("8000")
	}
	status.Store(0)
	for range breakerFails + 1 {
		send("40")
	}
	status.Store(http.StatusOK)
	if got := send("8000"); !strings.Contains(got, `"remote"`) {
		t.Errorf("after %d questions the second tier rests: %s", asked.Load(), got)
	}
}

// TestRemoteTexts: what the second tier says is bounded and masked as a policy's
// own texts are, and found again by why.
func TestRemoteTexts(t *testing.T) {
	token := "ghp_" + strings.Repeat("aB3dE6", 6)
	var answer string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	defer server.Close()
	e := loaded(t, examplePolicy+"remote: {endpoint: "+server.URL+", timeoutMs: 400, when: always}\n", Options{HTTP: server.Client()})
	for text, want := range map[string][2]string{
		`{"decision":"DENY","reason":"their_rule","userMessage":"no"}`:        {"their_rule", "no"},
		`{"decision":"DENY","reason":5,"userMessage":["x"],"durationMs":"y"}`: {"guard_remote", ""},
		`{"decision":"DENY"}`: {"guard_remote", ""},
		`{"decision":"DENY","reason":"` + strings.Repeat("r", 500<<10) + `"}`:                   {"guard_remote", ""},
		`{"decision":"DENY","reason":"a ` + token + `","userMessage":"you sent ` + token + `"}`: {"guard_remote", "you sent [REDACTED:github_token]"},
	} {
		answer = text
		a := ask(t, e, payload(t, "Bash", map[string]any{"command": "ls"}, nil))
		v, ok := e.Why(fmt.Sprint(a["evaluationId"]))
		if a["decision"] != "DENY" || a["reason"] != want[0] || !ok || v.Rule != want[0] || v.Message != want[1] {
			t.Errorf("%.100s: %.300v, remembered %.300v", text, a, v)
		}
	}
	for _, answer = range []string{`{"Decision":"DENY"}`, `{"decision":"deny"}`, `{"decision":true}`, `[]`, `{"decision":"DENY"} x`} {
		if a := ask(t, e, payload(t, "Bash", map[string]any{"command": "ls"}, nil)); a["decision"] != "ALLOW" {
			t.Errorf("%s: %v", answer, a)
		}
		e.remote.reset()
	}
	answer = `{"decision":"DENY","userMessage":"` + strings.Repeat("é", 100<<10) + `"}`
	if a := ask(t, e, payload(t, "Bash", map[string]any{"command": "ls"}, nil)); len(a["userMessage"].(string)) > maxText+3 {
		t.Errorf("a message of %d bytes", len(a["userMessage"].(string)))
	}
}
