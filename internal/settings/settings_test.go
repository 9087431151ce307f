package settings

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestLayoutBelowRoot(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLayout(filepath.Join(root, "machine"))
	if err != nil {
		t.Fatal(err)
	}
	if !l.System {
		t.Error("--root must mean the system layout")
	}
	for name, path := range map[string]string{"hook": l.HookBinary, "agent": l.Agent, "config": l.ConfigFile,
		"state": l.StateDir, "policy": l.PolicyFile(), "homes": l.Homes} {
		if !strings.HasPrefix(path, l.Root+string(filepath.Separator)) {
			t.Errorf("%s %s lies outside of %s", name, path, l.Root)
		}
	}
	if moved := l.WithHookDir("/opt/pinta"); moved.HookDir() != filepath.Join(l.Root, "opt", "pinta") {
		t.Errorf("moved plugin root is %s", moved.HookDir())
	}
	if again := l.WithHookDir(l.HookDir()); again.HookBinary != l.HookBinary {
		t.Errorf("a path below the root moved again: %s", again.HookBinary)
	}
}

func TestSecretNeverPrints(t *testing.T) {
	s := Secret("canary-5f2e")
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s)
	encoded, err := json.Marshal(map[string]any{"secret": s})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %q", s, s, s, s), fmt.Sprintf("%v", struct{ S Secret }{s}), string(encoded), log.String()} {
		if strings.Contains(shown, "canary") {
			t.Errorf("the secret shows: %s", shown)
		}
	}
}

func TestLoad(t *testing.T) {
	for name, test := range map[string]struct {
		file, wantErr string
		mode          os.FileMode
		env           string
		want          map[string]string
	}{
		"no file":              {want: map[string]string{KeyLogLevel: "info", KeySpoolMaxAge: "168h"}},
		"file":                 {file: "logLevel: debug\nuserHooks: false\n", mode: 0o644, want: map[string]string{KeyLogLevel: "debug", KeyUserHooks: "false"}},
		"environment wins":     {file: "logLevel: debug\n", mode: 0o644, env: "warn", want: map[string]string{KeyLogLevel: "warn"}},
		"unknown key":          {file: "loglevle: debug\n", mode: 0o644, wantErr: `unknown key "loglevle"`},
		"no YAML":              {file: "a: [", mode: 0o644, wantErr: "no valid YAML"},
		"writable by everyone": {file: "logLevel: debug\n", mode: 0o666, wantErr: "changed by others"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.mode == 0o666 && runtime.GOOS == "windows" {
				t.Skip("modes mean nothing on Windows: the folder's ACL holds")
			}
			l := Layout{Root: t.TempDir()}
			l.ConfigFile = filepath.Join(l.Root, "agent.yaml")
			if test.file != "" {
				if err := os.WriteFile(l.ConfigFile, []byte(test.file), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(l.ConfigFile, test.mode); err != nil {
					t.Fatal(err)
				}
			}
			if test.env != "" {
				t.Setenv("PINTA_LOG_LEVEL", test.env)
			}
			s, err := Load(l)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range test.want {
				if s.Text(k) != v {
					t.Errorf("%s is %q, want %q", k, s.Text(k), v)
				}
			}
		})
	}
}

func TestValuesMaskSecrets(t *testing.T) {
	t.Setenv("PINTA_PROXY", "http://user:canary@proxy.example.com:3128")
	s, err := Load(Layout{Root: t.TempDir(), ConfigFile: filepath.Join(t.TempDir(), "agent.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(s.Values())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(shown), "canary") || !strings.Contains(string(shown), "PINTA_PROXY") {
		t.Errorf("values: %s", shown)
	}
	through, err := s.Network().ProxyFor("https://manager.example.com/")
	if err != nil || strings.Contains(through, "canary") || !strings.Contains(through, "proxy.example.com") {
		t.Errorf("proxy %q, %v", through, err)
	}
	if direct, err := s.Network().ProxyFor("http://LOCALHOST.:8080/"); err != nil || direct != "" {
		t.Errorf("loopback goes through %q, %v", direct, err)
	}
}
