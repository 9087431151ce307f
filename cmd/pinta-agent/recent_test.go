package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

func TestMaskRecord(t *testing.T) {
	for name, test := range map[string]struct {
		line, want string
	}{
		"plain":             {`time=2026-01-02T03:04:05.678Z level=INFO msg="serving hooks" endpoint=/run/pinta-agent/agent.sock`, `time=2026-01-02T03:04:05.678Z level=INFO msg="serving hooks" endpoint=/run/pinta-agent/agent.sock`},
		"unknown attribute": {`time=1 level=INFO msg=x prompt="canary text" n=3`, `time=1 level=INFO msg=x prompt=[secret] n=[secret]`},
		"odd key":           {`time=1 msg=x canary-1=y`, `time=1 msg=x ?=[secret]`},
		"token":             {`time=1 msg=x error="token pinta_kanarie0canary: refused"`, `time=1 msg=x error="token [secret]: refused"`},
		"password in URL":   {`time=1 msg=x error="proxyconnect http://u:canary@proxy:3128: refused"`, `time=1 msg=x error="proxyconnect http://[secret]@proxy:3128: refused"`},
		"query":             {`time=1 msg=x destination=https://c.example.com/v1?key=canary`, `time=1 msg=x destination=https://c.example.com/v1?[secret]`},
		"bearer":            {`time=1 msg=x error="header Authorization: Bearer canary.canary"`, `time=1 msg=x error="header Authorization: Bearer [secret]"`},
		"known secret":      {`time=1 msg=x error="ghp_canarycanarycanarycanarycanarykanarie0"`, `time=1 msg=x error=[REDACTED:github_token]`},
		"escapes":           {`time=1 msg=x error="two\nlines \"canary\""`, `time=1 msg=x error="two\nlines \"canary\""`},
		"empty value":       {`time=1 msg=x error=""`, `time=1 msg=x error=""`},
		"a panic":           {`panic: canary`, ""},
		"a trace":           {`	/src/canary.go:12 +0x4`, ""},
		"half a record":     {`time=1 msg="canary`, ""},
		"after the quote":   {`time=1 msg="x"canary`, ""},
		"no attribute":      {`time=1 canary`, ""},
		"empty":             {``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := maskRecord(test.line)
			if got != test.want || ok != (test.want != "") {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if strings.Contains(got, "canary") && name != "escapes" {
				t.Error("a secret is shown")
			}
		})
	}
}

func FuzzMaskRecord(f *testing.F) {
	f.Add(`time=1 level=INFO msg="serving hooks" endpoint=/run/x`)
	f.Add(`time=1 a="\x00" b= c==`)
	f.Fuzz(func(t *testing.T, line string) {
		once, ok := maskRecord(line)
		if !ok {
			return
		}
		if strings.Contains(once, "\n") {
			t.Errorf("%q is more than a line", once)
		}
		if _, ok := maskRecord(once); !ok {
			t.Errorf("%q became no record: %q", line, once)
		}
	})
}

func TestRecentLogIsBounded(t *testing.T) {
	var to bytes.Buffer
	l := &recentLog{to: &to}
	log := slog.New(slog.NewTextHandler(l, nil))
	for i := range 20_000 {
		log.Info("x", "id", fmt.Sprint(i))
	}
	log.Info("large", "id", strings.Repeat("x", 2*maxRecent))
	log.Info("last")
	lines := l.Lines()
	if size := len(strings.Join(lines, "\n")); size > maxRecent || !strings.HasSuffix(lines[len(lines)-1], "msg=last") || cap(l.kept) > 4*maxRecent {
		t.Errorf("%d bytes in %d lines, room for %d", size, len(lines), cap(l.kept))
	}
	if to.Len() < 20_000*20 {
		t.Error("the log itself was cut")
	}
}

// TestDiagnosticsHoldNoSecret: a bundle of a running service has its parts, its
// log records, and none of the secrets that it was given (security.md S5).
func TestDiagnosticsHoldNoSecret(t *testing.T) {
	ctx := t.Context()
	site := &world.Site{Dir: t.TempDir(), Programs: programs(t)}
	m := site.Machine(filepath.Join(site.Dir, "machine"))
	if err := os.MkdirAll(m.Home("dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	layout, err := settings.NewLayout(m.Root)
	if err != nil {
		t.Fatal(err)
	}
	configure(t, layout, "logLevel: debug\nproxy: http://office:kanarie1@proxy.example.com:3128\nenrollmentToken: pinta_kanarie2kanarie2kanarie2\nloopbackListen: 127.0.0.1:1\n")
	if err := m.Call(ctx, nil, "hooks", "install", "--json", "--endpoint", "http://user:kanarie3@127.0.0.1:9/v1/traces?key=kanarie4", "--headers", "authorization=Bearer kanarie5"); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer m.Agent.Stop()
	file := filepath.Join(site.Dir, "bundle.zip")
	var parts map[string]string
	err = world.Until(ctx, 20*time.Second, func() error {
		if err := m.Call(ctx, nil, "diagnostics", "-o", file, "--json"); err != nil {
			return err
		}
		if parts, err = unzip(file); err != nil {
			return err
		}
		if !strings.Contains(parts["log.json"], "serving hooks") {
			return fmt.Errorf("the log lacks the service's start: %s", parts["log.json"])
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, m.Agent.Tail())
	}
	var log logs
	if err := json.Unmarshal([]byte(parts["log.json"]), &log); err != nil || log.Source != "service" || len(log.Records) < 3 {
		t.Errorf("log of %q with %d records: %v", log.Source, len(log.Records), err)
	}
	for _, name := range []string{"versions.json", "settings.json", "status.json", "doctor.json", "log.json"} {
		if !json.Valid([]byte(parts[name])) {
			t.Errorf("part %s is missing or damaged", name)
		}
	}
	if len(parts) != 5 {
		t.Errorf("%d parts: each new one needs a look at what it may hold", len(parts))
	}
	for name, text := range parts {
		if i := strings.Index(text, "kanarie"); i >= 0 {
			t.Errorf("%s holds a secret: …%s…", name, text[max(0, i-80):min(len(text), i+40)])
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("bundle: %v, %v", info, err)
	}
}

func unzip(file string) (map[string]string, error) {
	z, err := zip.OpenReader(file)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	parts := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return nil, err
		}
		parts[f.Name] = string(data)
	}
	return parts, nil
}
