//go:build unix

package vscode_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
)

const (
	user     = "dev"
	denyText = "Deleting folders recursively is not allowed here."
	policy   = `mode: enforce
timeoutMs: 2500
rules:
  - id: deny_recursive_delete
    on: tool_input
    tools: [shell]
    when: commands.exists(c, c.name == 'rm' && c.flags.exists(f, f == 'r' || f == 'recursive'))
    action: deny
    message: "` + denyText + `"
  - id: mask_secrets
    on: tool_output
    detect: [secrets]
    action: mask
    message: "The output held a secret."
`
	// fires are the events that this host has (host.md).
	fires = "SessionStart UserPromptSubmit PreToolUse PostToolUse PreCompact SubagentStart SubagentStop Stop"
)

// editor runs registered commands as VS Code Local does on Linux and macOS.
type editor struct {
	t          *testing.T
	home, repo string
	hookFile   string
}

// run is what the editor does at an event: it reads the hook file anew, takes
// for the platform `linux` or `osx`, else `bash`, else `command`, and runs that
// by /bin/sh, which on Debian is dash; `timeout` beats `timeoutSec`.
func (e editor) run(event string, payload map[string]any) (stdout, stderr string) {
	e.t.Helper()
	data, err := os.ReadFile(e.hookFile)
	if err != nil {
		e.t.Fatal(err)
	}
	var file struct {
		Hooks map[string][]map[string]any
	}
	if err := json.Unmarshal(data, &file); err != nil {
		e.t.Fatal(err)
	}
	if len(file.Hooks[event]) != 1 {
		e.t.Fatalf("%s has %d entries", event, len(file.Hooks[event]))
	}
	entry := file.Hooks[event][0]
	keys := []string{"linux", "bash", "command"}
	if runtime.GOOS == "darwin" {
		keys[0] = "osx"
	}
	text, limit := "", 30.0
	for _, key := range slices.Backward(keys) {
		if s, ok := entry[key].(string); ok {
			text = s
		}
	}
	for _, key := range []string{"timeoutSec", "timeout"} {
		if n, ok := entry[key].(float64); ok {
			limit = n
		}
	}
	input, err := json.Marshal(payload)
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Duration(limit*float64(time.Second)))
	defer cancel()
	command := exec.CommandContext(ctx, shell(e.t), "-c", text)
	command.Dir = e.repo
	command.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + e.home, "LANG=C.UTF-8", "VSCODE_PID=1", "VSCODE_IPC_HOOK=" + filepath.Join(e.home, "v.sock")}
	env, _ := entry["env"].(map[string]any)
	for k, v := range env {
		command.Env = append(command.Env, fmt.Sprintf("%s=%v", k, v))
	}
	var out, errs bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &out, &errs
	if err := command.Run(); err != nil {
		e.t.Fatalf("%s: %v, must exit 0: the editor blocks at 2 and warns at others; stderr %s", event, err, &errs)
	}
	return out.String(), errs.String()
}

// shell is dash where it is, else the system's own sh.
func shell(t *testing.T) string {
	for _, path := range []string{"/bin/dash", "/usr/bin/dash"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	if os.Getenv("PINTA_E2E") == "require" {
		t.Fatal("dash is not installed")
	}
	return "/bin/sh"
}

// payload is constructed from the editor's sources (host.md): snake_case,
// transcript_path on every event, tool_use_id ending in __vscode-<n>, and
// tool_response, a string.
func (e editor) payload(event string, fields map[string]any) map[string]any {
	all := map[string]any{
		"timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"), "hook_event_name": event,
		"session_id":      "00000000-0000-4000-8000-00000000c0de",
		"transcript_path": filepath.Join(e.home, ".config/Code/User/workspaceStorage/0123/GitHub.copilot-chat/transcripts/1.jsonl"), "cwd": e.repo,
	}
	for k, v := range fields {
		all[k] = v
	}
	return all
}

func (e editor) terminal(event, command string, more map[string]any) map[string]any {
	fields := map[string]any{"tool_name": "run_in_terminal", "tool_use_id": "call_abc__vscode-1700000000000",
		"tool_input": map[string]any{"command": command, "explanation": "a step", "isBackground": false}}
	for k, v := range more {
		fields[k] = v
	}
	return e.payload(event, fields)
}

// TestLocal plays the host's events against the built programs.
func TestLocal(t *testing.T) {
	m := machine(t)
	e := editor{t: t, home: m.Home(user), repo: filepath.Join(m.Home(user), "repo"), hookFile: m.HookFile(user)}
	if err := os.MkdirAll(e.repo, 0o755); err != nil {
		t.Fatal(err)
	}
	on := func(t *testing.T) editor { c := e; c.t = t; return c }
	secret := "ghp_" + (rand.Text() + rand.Text())[:36]

	t.Run("events that only tell are silent", func(t *testing.T) {
		for event, fields := range map[string]map[string]any{
			"SessionStart": {"source": "new"}, "UserPromptSubmit": {"prompt": "do it"}, "PreCompact": {"trigger": "auto"},
			"SubagentStart": {"agent_id": "a", "agent_type": "Plan"}, "SubagentStop": {"agent_id": "a", "agent_type": "Plan", "stop_hook_active": false},
			"Stop": {"stop_hook_active": false},
		} {
			if out, errs := on(t).run(event, e.payload(event, fields)); out != "" || errs != "" {
				t.Errorf("%s: stdout %q, stderr %q", event, out, errs)
			}
		}
	})
	t.Run("allow", func(t *testing.T) {
		if out, errs := on(t).run("PreToolUse", e.terminal("PreToolUse", "ls -la", nil)); out != "" || errs != "" {
			t.Errorf("stdout %q, stderr %q", out, errs)
		}
	})
	t.Run("deny", func(t *testing.T) { on(t).denied(e.terminal("PreToolUse", "cd x && rm -rf y", nil)) })
	t.Run("clean output", func(t *testing.T) {
		if out, _ := on(t).run("PostToolUse", e.terminal("PostToolUse", "ls", map[string]any{"tool_response": "README.md\n"})); out != "" {
			t.Errorf("stdout %q", out)
		}
	})
	t.Run("secret in an output stops the run", func(t *testing.T) {
		out, _ := on(t).run("PostToolUse", e.terminal("PostToolUse", "cat config.ini", map[string]any{"tool_response": "token = " + secret + "\n"}))
		var got map[string]any
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %q", err, out)
		}
		if len(got) != 2 || got["continue"] != false || !strings.Contains(fmt.Sprint(got["stopReason"]), "The output held a secret.") {
			t.Errorf("want continue and stopReason only: %q", out)
		}
		if strings.Contains(out, secret) {
			t.Error("the answer holds the secret")
		}
	})
	t.Run("telemetry", func(t *testing.T) {
		err := world.Until(t.Context(), 60*time.Second, func() error {
			names := map[string]bool{}
			for _, s := range m.Site.Collector.Received() {
				names[s.Name] = true
				if s.Attributes["copilot.surface"] != "ext" || s.Attributes["pinta.user.name"] != user {
					return world.Forever(fmt.Errorf("span %s: surface %q, user %q", s.Name, s.Attributes["copilot.surface"], s.Attributes["pinta.user.name"]))
				}
				for k, v := range s.Attributes {
					if strings.Contains(v, secret) {
						return world.Forever(fmt.Errorf("span %s: %s holds the secret", s.Name, k))
					}
				}
			}
			if want := len(strings.Fields(fires)); len(names) < want {
				return fmt.Errorf("spans of %d events, want %d", len(names), want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("hook binary missing", func(t *testing.T) {
		m.Agent.Kill() // it must not repair
		hook := filepath.Join(m.Root, "usr", "lib", "pinta-agent", "pinta-hook")
		for _, fault := range []struct {
			says string
			make func() error
		}{
			{"is missing;", func() error { return os.Remove(hook) }},
			{"is missing, and its folder too", func() error { return os.RemoveAll(filepath.Dir(hook)) }},
			{"could not start", func() error { return put(hook, "\x7fELF\x02\x01\x01 not really", 0o755) }},
			{"failed with status 2", func() error { return put(hook, "#!/bin/sh\nexit 2\n", 0o755) }},
			{"is not executable", func() error { return put(hook, "x", 0o644) }},
			{"died of signal", func() error { return put(hook, "#!/bin/sh\nkill -SEGV $$\n", 0o755) }},
		} {
			if err := fault.make(); err != nil {
				t.Fatal(err)
			}
			out, errs := on(t).run("PreToolUse", e.terminal("PreToolUse", "rm -rf y", nil))
			if out != "" || !strings.HasPrefix(errs, "pinta-copilot: ") || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, fault.says) {
				t.Errorf("%s: stdout %q, stderr %q", fault.says, out, errs)
			}
		}
	})
	t.Run("agent and binary back", func(t *testing.T) {
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		on(t).denied(e.terminal("PreToolUse", "rm -rf y", nil))
	})
}

func put(path, content string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	os.Remove(path)
	return os.WriteFile(path, []byte(content), mode)
}

// denied: only the nested form counts for this host, and it wants the event's name.
func (e editor) denied(payload map[string]any) {
	e.t.Helper()
	var out string
	err := world.Until(e.t.Context(), 30*time.Second, func() error {
		out, _ = e.run("PreToolUse", payload)
		if out == "" {
			return errors.New("no answer")
		}
		return nil
	})
	if err != nil {
		e.t.Fatal(err)
	}
	var got struct {
		Specific struct {
			Event    string `json:"hookEventName"`
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		e.t.Fatalf("%v: %q", err, out)
	}
	if s := got.Specific; s.Event != "PreToolUse" || s.Decision != "deny" || !strings.Contains(s.Reason, denyText) {
		e.t.Errorf("the answer is no denial: %q", out)
	}
}

// TestRegistersWhatFires: the editor takes one entry an event, one spelling a
// file, and no matcher.
func TestRegistersWhatFires(t *testing.T) {
	data, err := os.ReadFile("../../installer/testdata/pinta-copilot.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Hooks map[string][]map[string]any
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for event := range strings.FieldsSeq(fires) {
		if len(file.Hooks[event]) != 1 {
			t.Errorf("%s has %d entries", event, len(file.Hooks[event]))
		}
	}
	seen := map[string]bool{}
	for event, entries := range file.Hooks {
		if seen[strings.ToLower(event)] {
			t.Errorf("%s is there in two spellings", event)
		}
		seen[strings.ToLower(event)] = true
		for _, e := range entries {
			for _, key := range []string{"matcher", "timeout", "command", "linux", "osx", "windows", "cwd"} {
				if _, ok := e[key]; ok {
					t.Errorf("%s has the key %s", event, key)
				}
			}
		}
	}
}

// machine starts the product below a throw-away folder.
func machine(t *testing.T) *world.Machine {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	programs := world.In(os.Getenv("PINTA_E2E_PROGRAMS"))
	if os.Getenv("PINTA_E2E_PROGRAMS") == "" {
		bin := filepath.Join(dir, "bin")
		err := os.Mkdir(bin, 0o755)
		if err == nil {
			programs, err = world.Build(ctx, bin)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	site, err := world.Open(ctx, dir, programs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(site.Close)
	if _, err := site.Publish(ctx, policy); err != nil {
		t.Fatal(err)
	}
	m := site.Machine(filepath.Join(dir, "machine"))
	if err := os.MkdirAll(m.Home(user), 0o755); err != nil {
		t.Fatal(err)
	}
	token, err := site.Token(ctx)
	if err == nil {
		_, err = m.Enroll(ctx, token.Token)
	}
	if err == nil {
		err = m.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Agent.Stop() })
	return m
}
