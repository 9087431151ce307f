package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

func post(t testing.TB, e *Engine, body string, header map[string]string, ctx context.Context) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/guard/evaluate", strings.NewReader(body)).WithContext(ctx)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	e.Handler().ServeHTTP(w, r)
	return w
}

func TestHandlerStatus(t *testing.T) {
	e := loaded(t, examplePolicy, Options{})
	ok := string(question(t, payload(t, "Bash", map[string]any{"command": "ls"}, nil)))
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"span":             {ok, 200},
		"blank around":     {" \n" + ok + "\n", 200},
		"old form":         {`{"input":{"tool":"bash"},"context":{}}`, 410},
		"old and new":      {`{"input":{},` + ok[1:], 200},
		"empty":            {"", 400},
		"no JSON":          {"rm -rf /", 400},
		"array":            {"[]", 400},
		"no spans":         {`{"resourceSpans":[]}`, 400},
		"span of another":  {`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"x","attributes":[]}]}]}]}`, 400},
		"two spans":        {strings.Replace(ok, `"spans":[`, `"spans":[{"name":"x","attributes":[]},`, 1), 400},
		"two scopes":       {strings.Replace(ok, `"scopeSpans":[`, `"scopeSpans":[{"spans":[]},`, 1), 400},
		"two resources":    {strings.Replace(ok, `"resourceSpans":[`, `"resourceSpans":[{},`, 1), 400},
		"spans twice":      {strings.Replace(ok, `"resourceSpans":`, ok[1:len(ok)-1]+`,"resourceSpans":`, 1), 400},
		"no name":          {strings.Replace(ok, `{"key":"copilot.hook","value":{"stringValue":"PreToolUse"}}`, `{"key":"copilot.hook","value":{"intValue":5}}`, 1), 400},
		"wrong types":      {`{"resourceSpans":{"a":1}}`, 400},
		"truncated":        {ok[:len(ok)/2], 400},
		"trailing":         {ok + "x", 400},
		"too deep":         {`{"resourceSpans":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + "}", 400},
		"larger than 8MiB": {`{"resourceSpans":"` + strings.Repeat("x", MaxQuestion) + `"}`, 413},
		"just under 8 MiB": {ok + strings.Repeat(" ", MaxQuestion-len(ok)), 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := post(t, e, c.body, map[string]string{"X-Pinta-Guard-Budget-Ms": "8000"}, t.Context())
			if w.Code != c.want {
				t.Errorf("status %d, want %d: %.200s", w.Code, c.want, w.Body)
			}
			if w.Code != 200 {
				var p struct{ Code, Detail string }
				if json.Unmarshal(w.Body.Bytes(), &p) != nil || p.Code == "" || p.Detail == "" || w.Header().Get("Content-Type") != "application/problem+json" {
					t.Errorf("no problem document: %s", w.Body)
				}
			}
		})
	}
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/guard/evaluate", nil))
	if w.Code != 405 {
		t.Errorf("GET: %d", w.Code)
	}
}

// slowEngine has a rule that takes long on a large output.
func slowPolicy(onOverrun string) string {
	return "onOverrun: " + onOverrun + `
rules:
  - {id: slow, on: tool_output, slow: true, when: "output.matches(r'(?i)[a-x]{1,900}y[a-z]{1,200}[a-x]{1,900}y$')", action: deny}
`
}

func TestBudget(t *testing.T) {
	big := payload(t, "Bash", map[string]any{"command": "x"}, strings.Repeat("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx!y", 1<<21/40))
	for onOverrun, want := range map[string]string{"allow": "ALLOW", "deny": "DENY"} {
		t.Run(onOverrun, func(t *testing.T) {
			var mu sync.Mutex
			var seen []Verdict
			e := loaded(t, slowPolicy(onOverrun), Options{OnVerdict: func(v Verdict) { mu.Lock(); seen = append(seen, v); mu.Unlock() }})
			t.Cleanup(func() { // an evaluation that ran out of time ends a little after its answer
				for range cap(e.slots) {
					e.slots <- struct{}{}
				}
			})
			body := string(question(t, big))
			start := time.Now()
			w := post(t, e, body, map[string]string{"X-Pinta-Guard-Budget-Ms": "60"}, t.Context())
			took := time.Since(start)
			var a struct{ Decision, FailOpenReason, EvaluationID, Reason string }
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			if a.Decision != want || (a.FailOpenReason == "timeout") != (want == "ALLOW") || (a.EvaluationID != "") != (want == "DENY") {
				t.Errorf("got %s", w.Body)
			}
			if took > 5*time.Second {
				t.Errorf("answered after %v", took)
			}
			if len(seen) != 1 || !seen[0].Overrun {
				t.Errorf("the overrun is no event: %+v", seen)
			}
		})
	}
	for header, want := range map[string]time.Duration{"150": 150 * time.Millisecond, "0.5": 500 * time.Microsecond, "99999": 8 * time.Second,
		"": 0, "-5": 0, "0": 0, "NaN": 0, "Inf": 8 * time.Second, "x": 0, "1e3": time.Second} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("X-Pinta-Guard-Budget-Ms", header)
		if got := budget(r); got != want {
			t.Errorf("budget %q: %v, want %v", header, got, want)
		}
	}
}

// TestPadding: what is made large buys nothing: the denied command is found
// behind any padding that the hook would send.
func TestPadding(t *testing.T) {
	e := loaded(t, examplePolicy, Options{})
	bad := "rm -rf /srv"
	for name, command := range map[string]string{
		"no-ops before":     strings.Repeat(": no-op;\n", 20000) + bad,
		"comment before":    strings.Repeat("# padding\n", 20000) + bad,
		"string before":     "echo '" + strings.Repeat("x", 1<<20) + "'; " + bad,
		"heredoc before":    "cat <<'E' >/dev/null\n" + strings.Repeat("padding $(x) `y` {\n", 20000) + "E\n" + bad,
		"after":             bad + "\n" + strings.Repeat("true;", 20000),
		"nested":            strings.Repeat("( ", 400) + bad + strings.Repeat(" )", 400),
		"in a bad script":   bad + "\n" + strings.Repeat("(", 100000),
		"very deep":         strings.Repeat("( ", 30000) + bad + strings.Repeat(" )", 30000),
		"many substitution": strings.Repeat("$(true)", 20000) + ";" + bad,
	} {
		t.Run(name, func(t *testing.T) {
			a := ask(t, e, payload(t, "Bash", map[string]any{"command": command}, nil))
			if a["decision"] != "DENY" && a["failOpenReason"] != "timeout" {
				t.Errorf("got %v", a)
			}
			ev, err := EventFromPayload([]byte(payload(t, "Bash", map[string]any{"command": command}, nil)), "")
			if err != nil {
				t.Fatal(err)
			}
			if a := e.Evaluate(t.Context(), ev, time.Minute); a.Decision != "DENY" {
				t.Errorf("with time: %+v", a)
			}
		})
	}
}

func TestModes(t *testing.T) {
	bad := payload(t, "Bash", map[string]any{"command": "rm -rf /srv"}, nil)
	for mode, want := range map[string]struct{ decision, would, id string }{
		"enforce": {"DENY", "", "id"}, "monitor": {"ALLOW", "DENY", ""}, "off": {"ALLOW", "", ""},
	} {
		t.Run(mode, func(t *testing.T) {
			var v Verdict
			e := loaded(t, strings.Replace(examplePolicy, "mode: enforce", "mode: "+mode, 1), Options{OnVerdict: func(one Verdict) { v = one }})
			a := ask(t, e, bad)
			if a["decision"] != want.decision || (a["evaluationId"] != nil) != (want.id != "") {
				t.Errorf("got %v", a)
			}
			if mode != "off" && (v.Rule != "deny_resource_destruction" || v.Would != want.would || v.EvaluationID == "") {
				t.Errorf("verdict %+v", v)
			}
			if mode == "monitor" && (a["reason"] != nil || a["userMessage"] != nil) {
				t.Errorf("monitor says %v", a)
			}
		})
	}
}

// TestBeforeConfig: the guard's own files are protected before there is a
// config, nothing else is judged, and Unmanaged leaves even that.
func TestBeforeConfig(t *testing.T) {
	own := payload(t, "Bash", map[string]any{"command": "rm ~/.copilot/hooks/pinta-copilot.json"}, nil)
	if a := ask(t, NewEngine(Options{}), own); a["decision"] != "DENY" || a["reason"] != "pinta_protect_files" {
		t.Errorf("got %v", a)
	}
	if a := ask(t, NewEngine(Options{}), payload(t, "Bash", map[string]any{"command": "rm -rf /srv"}, nil)); a["decision"] != "ALLOW" {
		t.Errorf("got %v", a)
	}
	if a := ask(t, NewEngine(Options{Unmanaged: true}), own); a["decision"] != "ALLOW" {
		t.Errorf("got %v", a)
	}
	if a := ask(t, loaded(t, examplePolicy, Options{}), own); a["decision"] != "DENY" {
		t.Errorf("with a config: %v", a)
	}
	tuned := examplePolicy + `
  - {id: pinta_protect_files, on: tool_input, when: "writes.exists(p, p.contains('.copilot/hooks'))", action: review}
`
	if a := ask(t, loaded(t, tuned, Options{}), own); a["decision"] != "REVIEW" {
		t.Errorf("tuned: %v", a)
	}
}

func TestExceptAndUser(t *testing.T) {
	now := time.Date(2027, 1, 31, 23, 0, 0, 0, time.UTC)
	e := loaded(t, examplePolicy, Options{Clock: func() time.Time { return now }, UserName: func(p serve.Peer) string {
		return map[int]string{1000: "ci-bot", 1001: "dev"}[p.UID]
	}})
	body := string(question(t, payload(t, "Bash", map[string]any{"command": "rm -rf /srv"}, nil)))
	decision := func(ctx context.Context) string {
		var a struct{ Decision string }
		_ = json.Unmarshal(post(t, e, body, nil, ctx).Body.Bytes(), &a)
		return a.Decision
	}
	bot, dev := serve.WithPeer(t.Context(), serve.Peer{UID: 1000}), serve.WithPeer(t.Context(), serve.Peer{UID: 1001})
	if d := decision(bot); d != "ALLOW" {
		t.Errorf("the excepted user: %s", d)
	}
	if d := decision(dev); d != "DENY" {
		t.Errorf("another user: %s", d)
	}
	if d := decision(t.Context()); d != "DENY" {
		t.Errorf("nobody, though the span claims an owner: %s", d)
	}
	now = now.Add(time.Hour)
	if d := decision(bot); d != "DENY" {
		t.Errorf("after the exception's last day: %s", d)
	}
}

// TestTCP: over TCP the span comes redacted, and detectors work on the markers;
// on the socket a marker is text that somebody wrote.
func TestTCP(t *testing.T) {
	e := loaded(t, examplePolicy, Options{})
	token := "ghp_" + strings.Repeat("aB3dE6", 6)
	text := "a " + token + " b"
	tcp := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{}))
	unix := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.UnixAddr{Net: "unix"}))
	plain := string(question(t, payload(t, "Bash", map[string]any{"command": "x"}, text)))
	redacted := string(question(t, payload(t, "Bash", map[string]any{"command": "x"}, "a [REDACTED:github_token] b")))
	short := string(question(t, payload(t, "Bash", map[string]any{"command": "x"}, "mysql [REDACTED:cli_password_short]")))
	for name, c := range map[string]struct {
		ctx   context.Context
		body  string
		value string // "" is ALLOW
	}{
		"plain on the socket":  {unix, plain, token},
		"marker over TCP":      {tcp, redacted, "[REDACTED:github_token]"},
		"marker on the socket": {unix, redacted, ""},
		"plain over TCP":       {tcp, plain, token},
		"a kind of redaction":  {tcp, short, "[REDACTED:cli_password_short]"},
	} {
		t.Run(name, func(t *testing.T) {
			var a Answer
			var raw struct {
				Decision, OutputAction string
				Redactions             []Redaction
			}
			w := post(t, e, c.body, nil, c.ctx)
			if err := json.Unmarshal(w.Body.Bytes(), &raw); err != nil {
				t.Fatal(err, a)
			}
			if c.value == "" {
				if raw.Decision != "ALLOW" {
					t.Errorf("got %s", w.Body)
				}
				return
			}
			if raw.OutputAction != "mask" || len(raw.Redactions) != 1 || raw.Redactions[0].Value != c.value || raw.Redactions[0].Category == "" {
				t.Errorf("got %s", w.Body)
			}
		})
	}
}

// TestTwins: the same call of both registrations gets one verdict and counts
// once; two calls of one source are two.
func TestTwins(t *testing.T) {
	var repeats []bool
	var decisions []string
	e := loaded(t, examplePolicy, Options{OnVerdict: func(v Verdict) {
		repeats = append(repeats, v.Repeat)
		decisions = append(decisions, v.Decision+v.Rule)
	}})
	run := func(source, command string) {
		ev, err := event.Parse([]byte(payload(t, "Bash", map[string]any{"command": command}, nil)), "")
		if err != nil {
			t.Fatal(err)
		}
		post(t, e, string(spanOf(ev, event.CLI, source)), nil, t.Context())
	}
	for _, source := range []string{"user", "machine", "user", "user", "machine", "machine", ""} {
		run(source, "rm -rf /srv")
	}
	run("machine", "ls")
	want := []bool{false, true, false, false, true, true, false, false}
	for i := range want {
		if repeats[i] != want[i] {
			t.Errorf("run %d: repeat %v", i, repeats[i])
		}
		if i < 7 && decisions[i] != decisions[0] {
			t.Errorf("run %d: %s, first %s", i, decisions[i], decisions[0])
		}
	}
}

// TestRemote: the second tier decides a review within the budget; a broken one
// leaves the local answer, and is left alone after a few failures.
func TestRemote(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	status, answer := 200, `{"decision":"DENY","reason":"remote_rule","userMessage":"The reviewers said no."}`
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(data))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	now := time.Now()
	e := loaded(t, examplePolicy+"remote: {endpoint: "+server.URL+", timeoutMs: 400, when: review}\n", Options{HTTP: server.Client(), Clock: func() time.Time { return now }})
	token := "ghp_" + strings.Repeat("aB3dE6", 6)
	push := payload(t, "Bash", map[string]any{"command": "git push https://" + token + "@github.com/x"}, nil)
	if a := ask(t, e, push); a["decision"] != "DENY" || a["reason"] != "remote_rule" || a["evaluationId"] == nil {
		t.Errorf("got %v", a)
	}
	if len(bodies) != 1 || strings.Contains(bodies[0], token) || !strings.Contains(bodies[0], "REDACTED") || !strings.Contains(bodies[0], "git push") {
		t.Errorf("the span left unredacted: %.300s", bodies)
	}
	if a := ask(t, e, payload(t, "Bash", map[string]any{"command": "ls"}, nil)); a["decision"] != "ALLOW" || len(bodies) != 1 {
		t.Errorf("asked for what is no review: %v", a)
	}
	answer = `{"decision":"ALLOW"}`
	if a := ask(t, e, push); a["decision"] != "ALLOW" {
		t.Errorf("got %v", a)
	}
	status = 500
	for range 10 {
		if a := ask(t, e, push); a["decision"] != "REVIEW" || a["reason"] != "review_push" {
			t.Errorf("got %v", a)
		}
	}
	if n := len(bodies) - 2; n != breakerFails {
		t.Errorf("%d questions to a broken tier", n)
	}
	now, status = now.Add(breakerRest), 200
	if a := ask(t, e, push); a["decision"] != "ALLOW" {
		t.Errorf("after the rest: %v", a)
	}
	// A denial by a local rule never waits for the second tier.
	n := len(bodies)
	if a := ask(t, e, payload(t, "Bash", map[string]any{"command": "rm -rf /srv"}, nil)); a["decision"] != "DENY" || len(bodies) != n {
		t.Errorf("got %v", a)
	}
}

func TestConcurrentQuestions(t *testing.T) {
	e := loaded(t, examplePolicy, Options{})
	raw, err := authored(t, examplePolicy).GuardJSON()
	if err != nil {
		t.Fatal(err)
	}
	deny := question(t, payload(t, "Bash", map[string]any{"command": "rm -rf /srv"}, nil))
	secret := question(t, payload(t, "Bash", map[string]any{"command": "x"}, "ghp_"+strings.Repeat("aB3dE6", 6)))
	var done sync.WaitGroup
	for i := range 8 {
		done.Go(func() {
			for range 40 {
				w := httptest.NewRecorder()
				body := deny
				if i%2 == 0 {
					body = secret
				}
				r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
				r.Header.Set("X-Pinta-Guard-Budget-Ms", "8000")
				e.Handler().ServeHTTP(w, r)
				if !strings.Contains(w.Body.String(), `"DENY"`) {
					t.Errorf("got %s", w.Body)
				}
			}
		})
	}
	for v := range int64(5) {
		if err := e.Load(raw, v+2, "g"); err != nil {
			t.Error(err)
		}
	}
	done.Wait()
}

// TestTooManyFindings: what can't be listed whole is withheld, not half masked.
func TestTooManyFindings(t *testing.T) {
	e := loaded(t, examplePolicy, Options{})
	var b strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&b, "AKIA%s\n", strings.Map(func(r rune) rune { return 'A' + r - '0' }, fmt.Sprintf("%016d", i*7919)))
	}
	if a := ask(t, e, payload(t, "Bash", map[string]any{"command": "x"}, b.String())); a["outputAction"] != "withhold" && a["failOpenReason"] != "timeout" {
		t.Errorf("%v %v", a["decision"], a["outputAction"])
	}
}

// TestRecordLater: the answer doesn't wait for what is kept of it.
func TestRecordLater(t *testing.T) {
	recorded, held := make(chan Verdict, 1), make(chan struct{})
	e := loaded(t, examplePolicy, Options{OnVerdict: func(v Verdict) {
		<-held
		recorded <- v
	}})
	server := httptest.NewServer(e.Handler())
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	resp, err := server.Client().Post(server.URL, "application/json", bytes.NewReader(question(t, payload(t, "Bash", map[string]any{"command": "rm -rf /srv"}, nil))))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(answer), `"DENY"`) || resp.ContentLength != int64(len(answer)) {
		t.Errorf("%s %v", answer, err)
	}
	close(held)
	if v := <-recorded; v.Decision != "DENY" {
		t.Errorf("%+v", v)
	}
}
