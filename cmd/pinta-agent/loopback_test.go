//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// adapter is another implementation of the protocol, which calls over TCP.
type adapter struct{ address string }

// call posts a span to path with the token and what else the caller sets.
func (a adapter) call(t *testing.T, path, token, body string, change func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("X-Pinta-Relay-Token", token)
	}
	if change != nil {
		change(r)
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// spanOf is a tool call as an adapter tells it; claimed is whom it names as its user.
func spanOf(id int, claimed string) string {
	return fmt.Sprintf(`{"resourceSpans":[{"resource":{"attributes":[{"key":"pinta.user.name","value":{"stringValue":%q}}]},"scopeSpans":[{"spans":[`+
		`{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"%016x","name":"copilot.PreToolUse","kind":1,"startTimeUnixNano":"1","endTimeUnixNano":"2","attributes":[`+
		`{"key":"ingest.type","value":{"stringValue":"copilot"}},{"key":"copilot.hook","value":{"stringValue":"PreToolUse"}},{"key":"copilot.turn","value":{"intValue":%d}},`+
		`{"key":"copilot.tool_name","value":{"stringValue":"Bash"}},{"key":"copilot.tool_input","value":{"stringValue":"{\"command\":\"ls\"}"}}]}]}]}]}`, claimed, id, id)
}

const perUserPolicy = `mode: enforce
timeoutMs: 1500
rules:
  - id: not_for_dev
    on: tool_input
    tools: [shell]
    when: user == 'dev'
    action: deny
    message: "Not for dev."
`

// relayTokenIn reads the token from a user's env file; empty if there is none.
func relayTokenIn(t *testing.T, m *world.Machine, user string) string {
	t.Helper()
	path := filepath.Join(m.Home(user), ".copilot", "pinta-copilot.env")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: mode %v, %v: want 0600", path, info.Mode(), err)
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "PINTA_RELAY_TOKEN="); ok {
			return v
		}
	}
	return ""
}

// TestLoopbackAdapters: an adapter that can't reach a socket is judged and
// recorded over TCP as the user whose token it shows, whatever it claims; all
// else is refused, and without the setting there is neither port nor token
// (security.md S6, S19).
func TestLoopbackAdapters(t *testing.T) {
	ctx := t.Context()
	site, err := world.Open(ctx, t.TempDir(), programs(t))
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	m := site.Machine(filepath.Join(site.Dir, "machine"))
	for _, user := range []string{"dev", "eve"} {
		if err := os.MkdirAll(m.Home(user), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	layout, err := settings.NewLayout(m.Root)
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp := adapter{free.Addr().String()}
	free.Close()
	configure(t, layout, "loopbackListen: "+tcp.address+"\n")
	if _, err := site.Publish(ctx, perUserPolicy); err != nil {
		t.Fatal(err)
	}
	token, err := site.Token(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Enroll(ctx, token.Token); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() { m.Agent.Stop() }()

	dev, eve := relayTokenIn(t, m, "dev"), relayTokenIn(t, m, "eve")
	if raw, err := base64.RawURLEncoding.DecodeString(dev); err != nil || len(raw) != 32 || dev == eve {
		t.Fatalf("tokens %q and %q: want 32 bytes for each user", dev, eve)
	}
	err = world.Until(ctx, 10*time.Second, func() error { // the listener is there and knows the users
		if status, body := tcp.call(t, "/v1/traces", dev, `{"resourceSpans":[]}`, nil); status != http.StatusOK {
			return fmt.Errorf("status %d: %s", status, body)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, m.Agent.Tail())
	}
	judged := func(user, token, want string) {
		t.Helper()
		status, body := tcp.call(t, "/guard/evaluate", token, spanOf(1, "root"), nil)
		var answer struct {
			Decision string `json:"decision"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || answer.Decision != want {
			t.Errorf("%s is answered %d %s: want %s", user, status, body, want)
		}
	}
	judged("dev", dev, "DENY")
	judged("eve", eve, "ALLOW")
	for i, user := range map[int]string{11: "dev", 12: "eve"} {
		if status, body := tcp.call(t, "/v1/traces", map[string]string{"dev": dev, "eve": eve}[user], spanOf(i, "root"), nil); status != http.StatusOK {
			t.Errorf("%s's span is answered %d %s", user, status, body)
		}
	}
	for name, test := range map[string]struct {
		token  string
		change func(*http.Request)
		want   int
	}{
		"no token":      {"", nil, http.StatusUnauthorized},
		"a wrong token": {strings.Repeat("A", 43), nil, http.StatusUnauthorized},
		"wrong host":    {dev, func(r *http.Request) { r.Host = "evil.example.com" }, http.StatusForbidden},
		"a web page":    {dev, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") }, http.StatusForbidden},
		"a GET":         {dev, func(r *http.Request) { r.Method, r.Body, r.ContentLength = http.MethodGet, nil, 0 }, http.StatusForbidden},
	} {
		for _, path := range []string{"/v1/traces", "/guard/evaluate"} {
			if status, body := tcp.call(t, path, test.token, spanOf(99, "dev"), test.change); status != test.want || strings.Contains(body, "dev") {
				t.Errorf("%s at %s is answered %d %q: want %d", name, path, status, body, test.want)
			}
		}
	}
	received := func(id string) (found []world.Span) {
		for _, s := range site.Collector.Received() {
			if s.ID == id {
				found = append(found, s)
			}
		}
		return found
	}
	for id, user := range map[string]string{"000000000000000b": "dev", "000000000000000c": "eve"} {
		err := world.Until(ctx, 20*time.Second, func() error {
			spans := received(id)
			if len(spans) != 1 {
				return fmt.Errorf("span of %s came %d times", user, len(spans))
			}
			if a := spans[0].Attributes; a["pinta.user.name"] != user || a["pinta.device.id"] != m.Device {
				return world.Forever(fmt.Errorf("span of %s is %s's on %s", user, a["pinta.user.name"], a["pinta.device.id"]))
			}
			return nil
		})
		if err != nil {
			t.Errorf("%v\n%s", err, m.Agent.Tail())
		}
	}
	if got := received(fmt.Sprintf("%016x", 99)); len(got) > 0 {
		t.Errorf("a refused span was delivered: %+v", got)
	}

	// Tokens outlive a restart: adapters read them once.
	m.Agent.Stop()
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if again := relayTokenIn(t, m, "dev"); again != dev {
		t.Errorf("after a restart the token is another one")
	}

	// Without the setting there is neither.
	m.Agent.Stop()
	configure(t, layout, "")
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	err = world.Until(ctx, 10*time.Second, func() error {
		if relayTokenIn(t, m, "dev") != "" {
			return fmt.Errorf("the env file holds a token without a listener")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if c, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.WithoutCancel(ctx), "tcp", tcp.address); err == nil {
		c.Close()
		t.Error("a port is open without the setting")
	}
}
