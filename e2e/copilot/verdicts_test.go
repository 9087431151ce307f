package copilot_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinta-ai/pinta-agent/e2e/provider"
	"github.com/pinta-ai/pinta-agent/e2e/world"
)

// TestVerdicts plays one session of a developer in which each kind of verdict
// occurs once, in one CLI run.
func TestVerdicts(t *testing.T) {
	findCLI(t)
	m := enrolled(t, "verdicts")
	s := newScript(t, m, "verdicts")
	secrets := map[string]string{}
	for _, name := range []string{"prompt", "mask", "failing", "mcp", "parallel"} {
		secrets[name] = secretOf("ghp_")
		s.write(name+".ini", "user = dev\ntoken = "+secrets[name]+"\n")
	}
	s.write("confidential.txt", "PROJECT-HALCYON starts in May\n")
	for _, dir := range []string{"denied", "parallel", "child"} {
		s.write(dir+"/keep", "")
	}
	s.session.Prompt = "run the script with token " + secrets["prompt"]
	s.mcp()

	s.turn(provider.Turn{Match: "CHILD-TASK", ToolCalls: []provider.ToolCall{bash("call_child", "touch child-ran; rm -rf child")}})
	s.turn(provider.Turn{Match: "CHILD-TASK", Text: "the child is done"})
	s.bash("call_allow", "echo 'all is well' | tee allowed")
	s.bash("call_deny", "touch denied-ran; rm -rf denied")
	s.bash("call_permission", "touch permission-ran; : publish-release")
	s.bash("call_mask", "cat mask.ini")
	s.bash("call_failing", "cat failing.ini; exit 3")
	s.bash("call_withhold", "cat confidential.txt")
	s.turn(provider.Turn{ToolCalls: []provider.ToolCall{
		bash("call_par_allow", "touch parallel-allowed"),
		bash("call_par_deny", "touch parallel-ran; rm -rf parallel"),
		bash("call_par_mask", "cat parallel.ini")}})
	s.turn(provider.Turn{ToolCalls: []provider.ToolCall{
		provider.Call("call_write", "create", map[string]any{"path": s.path("forbidden.txt"), "file_text": "x"})}})
	s.turn(provider.Turn{ToolCalls: []provider.ToolCall{
		provider.Call("call_own", "create", map[string]any{"path": filepath.Join(m.Home(user), ".copilot", "hooks", "more.json"), "file_text": "{}"})}})
	s.turn(provider.Turn{ToolCalls: []provider.ToolCall{
		provider.Call("call_view", "view", map[string]any{"path": s.path("README.md")})}})
	s.turn(provider.Turn{ToolCalls: []provider.ToolCall{
		provider.Call("call_mcp", "e2e-echo", map[string]any{"text": "file " + s.path("mcp.ini")})}})
	s.turn(provider.Turn{ToolCalls: []provider.ToolCall{
		provider.Call("call_mcp_deny", "e2e-echo", map[string]any{"text": "touch " + s.path("mcp-forbidden")})}})
	s.turn(provider.Turn{ToolCalls: []provider.ToolCall{
		provider.Call("call_task", "task", map[string]any{"description": "a child's work", "prompt": "CHILD-TASK: do it", "agent_type": "general-purpose", "name": "child"})}})
	s.run()

	t.Run("allow", func(t *testing.T) {
		s.on(t).runs("allow", "call_allow", s.path("allowed"))
		if !strings.Contains(s.told("call_allow"), "all is well") {
			t.Errorf("the model was given %q", s.told("call_allow"))
		}
		s.on(t).runs("allow.view", "call_view", s.path("README.md"))
		if !strings.Contains(s.told("call_view"), "hello") {
			t.Errorf("the model was given %q", s.told("call_view"))
		}
	})
	t.Run("deny", func(t *testing.T) {
		s.on(t).denied("deny.shell", "call_deny", denyText, s.path("denied-ran"), "1.0.49")
	})
	t.Run("permissionRequest", func(t *testing.T) {
		s.on(t).denied("deny.permission", "call_permission", permissionText, s.path("permission-ran"), "1.0.49")
	})
	t.Run("write", func(t *testing.T) {
		s.on(t).denied("deny.write", "call_write", writeText, s.path("forbidden.txt"), "1.0.49")
	})
	t.Run("own files", func(t *testing.T) {
		s.on(t).denied("deny.own-files", "call_own", "belong to your company's guard", filepath.Join(m.Home(user), ".copilot", "hooks", "more.json"), "1.0.49")
	})
	t.Run("MCP", func(t *testing.T) {
		s.on(t).denied("deny.mcp", "call_mcp_deny", mcpText, s.path("mcp-forbidden"), "1.0.49")
		s.on(t).masked("mask.mcp", "call_mcp", secrets["mcp"], "1.0.57")
	})
	t.Run("mask", func(t *testing.T) {
		s.on(t).masked("mask.shell", "call_mask", secrets["mask"], "1.0.57")
		s.on(t).masked("mask.failing", "call_failing", secrets["failing"], "1.0.57")
	})
	t.Run("withhold", func(t *testing.T) {
		told := s.told("call_withhold")
		ok := strings.Contains(told, withholdText) && s.secretFree("the withheld output", "HALCYON starts")
		s.on(t).enforced("withhold", ok, "1.0.57", told)
	})
	t.Run("parallel", func(t *testing.T) {
		s.on(t).runs("parallel.allow", "call_par_allow", s.path("parallel-allowed"))
		s.on(t).denied("parallel.deny", "call_par_deny", denyText, s.path("parallel-ran"), "1.0.49")
		s.on(t).masked("parallel.mask", "call_par_mask", secrets["parallel"], "1.0.57")
	})
	t.Run("subagent", func(t *testing.T) {
		s.on(t).denied("deny.subagent", "call_child", denyText, s.path("child-ran"), "1.0.49")
	})
	t.Run("telemetry", func(t *testing.T) { telemetry(t, s.on(t), m, secrets) })
	t.Run("canary", func(t *testing.T) { canary(t, m, secrets) })
}

// on is the script seen by a subtest.
func (s *script) on(t *testing.T) *script {
	c := *s
	c.t = t
	return &c
}

// mcp offers the test binary as MCP server "e2e".
func (s *script) mcp() {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"e2e": map[string]any{"command": self, "args": []string{mcpArg}, "tools": []string{"*"}}}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.session.Args = append(s.session.Args, "--additional-mcp-config", string(config))
}

// enforced records whether an enforcement held, and fails from version since on.
func (s *script) enforced(key string, ok bool, since, detail string) {
	s.t.Helper()
	if ok {
		note(s.t, key, "enforced")
		return
	}
	note(s.t, key, "not enforced")
	if s.cli.atLeast(since) {
		s.t.Errorf("%s: not enforced: %s", key, detail)
	}
}

// masked checks that the model got an output with its secret masked, and no
// request of the session holds the secret.
func (s *script) masked(key, id, secret, since string) {
	s.t.Helper()
	told := s.told(id)
	s.enforced(key, strings.Contains(told, "[REDACTED:") && s.secretFree("the secret of "+key, secret), since, told)
}

// telemetry checks the spans of the session at the collector.
func telemetry(t *testing.T, s *script, m *world.Machine, secrets map[string]string) {
	prompt := func(sp world.Span) bool {
		return sp.Name == "copilot.user_prompt_submit" && strings.Contains(sp.Attributes["copilot.prompt"], "run the script with token")
	}
	all := spans(t, m, prompt)
	session := all[slices.IndexFunc(all, prompt)].Attributes["copilot.session_id"]
	all = spans(t, m, func(sp world.Span) bool {
		return sp.Name == "copilot.session_end" && sp.Attributes["copilot.session_id"] == session
	})
	trace := all[slices.IndexFunc(all, prompt)].Trace
	seen, calls, names := map[string]bool{}, map[string]int{}, map[string]bool{}
	inTurn, apart := 0, 0
	for _, sp := range all {
		if seen[sp.ID] {
			t.Errorf("span %s arrived twice", sp.ID)
		}
		seen[sp.ID] = true
		names[strings.TrimPrefix(sp.Name, "copilot.")] = true
		if sp.Attributes["pinta.user.name"] != user {
			t.Errorf("span %s %s: user %q", sp.ID, sp.Name, sp.Attributes["pinta.user.name"])
		}
		if sp.Attributes["copilot.session_id"] == session && sp.Name != "copilot.session_start" {
			if sp.Trace == trace {
				inTurn++
			} else {
				apart++
			}
		}
		for name, value := range sp.Attributes {
			for what, secret := range secrets {
				if strings.Contains(value, secret) {
					t.Errorf("span %s %s: %s holds the secret %q", sp.ID, sp.Name, name, what)
				}
			}
			if sp.Name == "copilot.pre_tool_use" && strings.HasSuffix(name, "tool_input") {
				calls[value]++
			}
		}
	}
	// A hook that can't have the trace store within 80 ms uses an id of its own
	// (hook.md 8), which happens on a busy machine.
	if apart > inTurn/4 {
		t.Errorf("%d spans of the turn share its trace, %d don't", inTurn, apart)
	}
	for input, n := range calls {
		if n != 1 {
			t.Errorf("%d spans for the one call %s", n, input)
		}
	}
	const least = 14 // tool calls of the script
	if len(calls) < least {
		t.Errorf("spans of %d tool calls, want at least %d", len(calls), least)
	}
	var list []string
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	note(t, "events", strings.Join(list, " "))
	for _, name := range []string{"session_start", "user_prompt_submit", "pre_tool_use", "permission_request", "post_tool_use", "stop", "session_end"} {
		if !names[name] {
			t.Errorf("no span of event %s", name)
		}
	}
}

// canary: the secrets that were judged are in nothing that the product wrote:
// state, spool, queue, logs, Manager's data, a diagnostics bundle.
func canary(t *testing.T, m *world.Machine, secrets map[string]string) {
	bundle := filepath.Join(m.Site.Dir, "diagnostics.zip")
	if err := m.Call(t.Context(), nil, "diagnostics", "-o", bundle); err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(bundle)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	search := func(name string, data []byte) {
		for what, secret := range secrets {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s holds the secret %q", name, what)
			}
		}
	}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		search(bundle+" "+f.Name, data)
	}
	// What the CLI, the developer and the repository wrote holds them, of course.
	others := []string{filepath.Join(m.Home(user), "src"), filepath.Join(m.Home(user), "logs"), filepath.Join(m.Home(user), "tmp"),
		filepath.Join(m.Home(user), ".copilot", "session-state"), filepath.Join(m.Home(user), ".copilot", "logs")}
	err = filepath.WalkDir(m.Site.Dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case slices.Contains(others, path):
			return fs.SkipDir
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone meanwhile
		case err != nil:
			return err
		}
		if own, in := strings.CutPrefix(path, filepath.Join(m.Home(user), ".copilot")); in && !strings.Contains(own, "pinta") {
			return nil // the CLI's own data
		}
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil // gone meanwhile
			}
			search(path, data)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
