//go:build unix

package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

// taking is a child that takes every config but version 13, and notes what it
// was given. It ends at the first message while the file away is there.
const taking = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
while read -r line; do
	[ -e away ] && exit 0
	case $line in *'"config":{"seq"'*) ;; *) continue ;; esac
	seq=$(printf %s "$line" | sed 's/.*"config":{"seq":\([0-9]*\).*/\1/')
	version=$(printf %s "$line" | sed 's/.*"version":\([0-9]*\).*/\1/')
	echo "$version" >>given
	case $version in
	13) echo '{"applied":{"seq":'$seq',"error":"rule x: bad"}}' ;;
	*) echo '{"applied":{"seq":'$seq'}}' ;;
	esac
	echo '{"ready":true}'
done
`

// parentOf runs a Parent whose child is a script.
func parentOf(t *testing.T, script string, before ...Config) (p *Parent, dir string) {
	t.Helper()
	dir = t.TempDir()
	l, err := serve.Listen(filepath.Join(dir, "s"), serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "child")
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	p = New(Options{Listener: l, Program: program, Setup: Setup{SpoolDir: dir}, Log: slog.New(slog.DiscardHandler)})
	for _, c := range before {
		if err := p.Serve(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		l.Close()
	})
	return p, dir
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// TestConfigWhileTheChildIsAway: a config that comes while there is no child is
// in force when the next one has taken it; one that it refuses is told so, and
// the child gets the one before.
func TestConfigWhileTheChildIsAway(t *testing.T) {
	p, dir := parentOf(t, taking, Config{Version: 11})
	given := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "given"))
		return strings.Join(strings.Fields(string(text)), " ")
	}
	away := filepath.Join(dir, "away")
	end := func() {
		t.Helper()
		if err := os.WriteFile(away, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p.SetRepairs(1)
		eventually(t, "the child goes on", func() bool { _, ready := p.Stats(); return !ready })
		if err := os.Remove(away); err != nil {
			t.Fatal(err)
		}
	}
	<-p.Started()
	for _, c := range []struct {
		version int64
		away    bool
		err     string
		given   string
	}{
		{12, false, "", "11 12"},
		{13, false, "rule x: bad", "11 12 13 12"},
		{13, true, "rule x: bad", "11 12 13 12 13 12"},
		{14, true, "", "11 12 13 12 13 12 14"},
	} {
		if c.away {
			end()
		}
		err := p.Serve(t.Context(), Config{Version: c.version})
		if c.err == "" != (err == nil) || err != nil && err.Error() != c.err {
			t.Errorf("version %d: %v", c.version, err)
		}
		eventually(t, "given "+given()+", want "+c.given, func() bool { return given() == c.given })
		if s, _ := p.Stats(); s.Refused != "" {
			t.Errorf("version %d: refused is %q", c.version, s.Refused)
		}
	}
}

// TestConfigThatNoChildTakes: with no child to take it a config isn't in force.
func TestConfigThatNoChildTakes(t *testing.T) {
	p, _ := parentOf(t, "#!/bin/sh\nexit 1\n", Config{Version: 11})
	eventually(t, "no child began", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.begun })
	p.mu.Lock()
	p.patient = 10 * time.Millisecond
	p.mu.Unlock()
	if err := p.Serve(t.Context(), Config{Version: 12}); err == nil {
		t.Error("it is in force")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.config.Version != 11 {
		t.Errorf("the next child begins with version %d", p.config.Version)
	}
}

// TestLastGoodConfigThatIsGoodNoMore: what was taken by the program before an
// update may be refused after it; that is known.
func TestLastGoodConfigThatIsGoodNoMore(t *testing.T) {
	p, _ := parentOf(t, taking, Config{Version: 13})
	<-p.Started()
	if s, _ := p.Stats(); s.Refused != "rule x: bad" {
		t.Errorf("refused is %q", s.Refused)
	}
	if err := p.Serve(t.Context(), Config{Version: 14}); err != nil {
		t.Fatal(err)
	}
	if s, _ := p.Stats(); s.Refused != "" {
		t.Errorf("refused is still %q", s.Refused)
	}
}

// TestLargestConfig: whatever its characters are, the largest guard config that
// a signed document holds gets over the pipe.
func TestLargestConfig(t *testing.T) {
	var line bytes.Buffer
	guard, err := json.Marshal("when")
	if err != nil {
		t.Fatal(err)
	}
	guard = bytes.Replace(guard, []byte("when"), bytes.Repeat([]byte("a && b < c\u2028"), 6<<20/13), 1)
	if err := (&writer{w: &line}).send(toChild{Config: &Config{Guard: guard}}); err != nil {
		t.Fatal(err)
	}
	err = receive(&line, func(m toChild) error {
		if !bytes.Equal(m.Config.Guard, guard) {
			t.Error("it arrives as another")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestConfigOfNobody: after a retirement nothing is judged by the config that
// was in force.
func TestConfigOfNobody(t *testing.T) {
	tell, socket := servedAt(t, Setup{Host: "box"})
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	const question = `{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[
		{"key":"copilot.hook","value":{"stringValue":"PreToolUse"}},
		{"key":"copilot.tool_name","value":{"stringValue":"Bash"}},
		{"key":"copilot.tool_input","value":{"stringValue":"{\"command\":\"curl x\"}"}}]}]}]}]}`
	denies := func() bool {
		res, err := client.Post("http://agent/guard/evaluate", "application/json", strings.NewReader(question))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, err)
		}
		return strings.Contains(string(text), `"DENY"`)
	}
	tell(toChild{Config: &Config{Version: 1, Guard: json.RawMessage(`{"mode":"enforce","timeoutMs":8000,"onOverrun":"allow",
		"rules":[{"id":"curl","on":"tool_input","when":"commands.exists(c, c.name == 'curl')","action":"deny"}]}`)}})
	eventually(t, "the config is not in force", denies)
	tell(toChild{Config: &Config{}})
	eventually(t, "the config is still in force", func() bool { return !denies() })
}
