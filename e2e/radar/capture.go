package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/copilot"
	"github.com/pinta-ai/pinta-agent/e2e/provider"
)

// events are the keys under which hooks are recorded, in both spellings.
var events = []string{
	"sessionStart", "sessionEnd", "userPromptSubmitted", "userPromptTransformed", "preToolUse", "preMcpToolCall", "postToolUse", "postToolUseFailure",
	"errorOccurred", "agentStop", "subagentStart", "subagentStop", "preCompact", "permissionRequest", "notification",
	"SessionStart", "SessionEnd", "UserPromptSubmit", "PreToolUse", "PreMcpToolCall", "PostToolUse", "PostToolUseFailure",
	"ErrorOccurred", "Stop", "SubagentStart", "SubagentStop", "PreCompact", "PermissionRequest", "Notification",
}

// recorded is what one hook run left.
type recordedRun struct {
	Label string            `json:"label"`
	Stdin string            `json:"stdin"`
	Env   map[string]string `json:"env"`
}

// record is the hook of the captures: it writes down what it was given.
func record(args []string, in io.Reader) int {
	data, err := io.ReadAll(in)
	if err != nil || len(args) != 2 {
		return 0
	}
	run := recordedRun{Label: args[1], Stdin: string(data), Env: map[string]string{}}
	for _, pair := range os.Environ() {
		k, v, _ := strings.Cut(pair, "=")
		run.Env[k] = v
	}
	file := filepath.Join(args[0], fmt.Sprintf("%d-%d", time.Now().UnixNano(), os.Getpid()))
	text, err := json.Marshal(run)
	if err == nil && os.WriteFile(file+".part", text, 0o644) == nil {
		os.Rename(file+".part", file+".json") // a run that is cut off leaves no record
	}
	return 0
}

// capture plays sessions in which every event occurs, and returns the payloads
// by file name: the event's key, its spelling, and what it is a case of.
func (s stage) capture(ctx context.Context) (map[string][]byte, error) {
	payloads := map[string][]byte{}
	for _, one := range []struct {
		name  string
		turns func(repo string) []provider.Turn
		again []provider.Turn
	}{
		{"events", everyEvent, []provider.Turn{{Text: "all done"}}},
		{"error", func(string) []provider.Turn { return []provider.Turn{{Status: 400, Repeat: 20}} }, nil},
		{"compact", compaction, nil},
	} {
		runs := filepath.Join(s.dir, one.name, "runs")
		if err := os.MkdirAll(runs, 0o755); err != nil {
			return nil, err
		}
		hooks := map[string]any{}
		for _, event := range events {
			hooks[event] = []any{map[string]any{"type": "command", "bash": strings.Join([]string{quote(s.self), recordVerb, quote(runs), event}, " ")}}
		}
		session, err := s.session(one.name, hooks)
		if err != nil {
			return nil, err
		}
		session.Turns = one.turns(session.Repo)
		if result, err := play(ctx, session); err != nil {
			return nil, fmt.Errorf("capture %s: %w\n%s", one.name, err, result.Stderr)
		}
		if one.again != nil {
			session.Turns = one.again
			session.Args = append(session.Args, "--continue")
			if result, err := play(ctx, session); err != nil {
				return nil, fmt.Errorf("capture a resumed session: %w\n%s", err, result.Stderr)
			}
		}
		if err := collect(payloads, runs, session); err != nil {
			return nil, err
		}
	}
	return payloads, nil
}

func call(name string, args map[string]any) provider.Turn {
	return provider.Turn{ToolCalls: []provider.ToolCall{provider.Call("", name, args)}}
}

func shell(command string, more ...string) provider.Turn {
	args := map[string]any{"command": command, "description": "probe command"}
	if len(more) > 0 {
		args["mode"] = more[0]
	}
	return call("bash", args)
}

func everyEvent(repo string) []provider.Turn {
	view := call("view", map[string]any{"path": filepath.Join(repo, "README.md")})
	view.Match = "Explore-PROBE"
	return []provider.Turn{
		view,
		{Match: "Explore-PROBE", Text: "sub result"},
		shell("echo out-ok"),
		shell("echo out-bad; exit 3"),
		call("view", map[string]any{"path": filepath.Join(repo, "missing.txt")}),
		call("task", map[string]any{"description": "probe explore", "prompt": "Explore-PROBE find things", "agent_type": "explore", "name": "probe"}),
		call("rigmcp-echo", map[string]any{"text": "hello"}),
		call("rigmcp-echo", map[string]any{"text": "fail"}),
		shell("sleep 1; echo bg", "async"),
		shell("sleep 3"),
		{Text: "all done"},
	}
}

// compaction has the model say that the conversation nears its limit.
func compaction(string) []provider.Turn {
	var turns []provider.Turn
	for i, tokens := range []int{122000, 125000, 126000, 126000} {
		t := shell(fmt.Sprintf("echo %d; sleep 1", i))
		t.PromptTokens = tokens
		turns = append(turns, t)
	}
	return append(turns, provider.Turn{Text: "all done"})
}

// collect adds a session's recorded runs to the payloads, the first of each
// name, normalised.
func collect(payloads map[string][]byte, runs string, session copilot.Session) error {
	files, err := filepath.Glob(filepath.Join(runs, "*.json"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	n := newNormaliser(session)
	put := func(name string, data []byte) {
		if _, ok := payloads[name+".json"]; !ok {
			payloads[name+".json"] = append(bytes.TrimSpace(data), '\n')
		}
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var run recordedRun
		var fields map[string]any
		if json.Unmarshal(data, &run) != nil || json.Unmarshal([]byte(run.Stdin), &fields) != nil {
			continue
		}
		name, variant := nameOf(run.Label, fields)
		text := []byte(n.normalise(run.Stdin))
		put(name, text)
		if variant != "" {
			put(name+variant, text)
		}
		if run.Label == "preToolUse" || run.Label == "sessionStart" {
			env, err := json.MarshalIndent(n.environment(run.Env), "", "  ")
			if err != nil {
				return err
			}
			put("_env."+run.Label, env)
		}
	}
	return nil
}

// nameOf is a payload's file name and what makes it a case of its own.
func nameOf(label string, fields map[string]any) (name, variant string) {
	spelling := "camel"
	if label[0] >= 'A' && label[0] <= 'Z' {
		spelling = "pascal"
	}
	for _, key := range []string{"toolName", "tool_name", "source", "reason", "notification_type", "trigger"} {
		if v, ok := fields[key].(string); ok {
			variant += "." + strings.ReplaceAll(v, "/", "_")
		}
	}
	if fields["agentId"] != nil || fields["agent_id"] != nil {
		variant += ".subagent"
	}
	return label + "." + spelling, variant
}

var (
	uuid  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	iso   = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)`)
	epoch = regexp.MustCompile(`"timestamp":1[67]\d{11}`)
)

// normaliser replaces what differs from run to run: ids, times, paths.
type normaliser struct {
	ids   map[string]string
	paths *strings.Replacer
}

func newNormaliser(s copilot.Session) *normaliser {
	return &normaliser{ids: map[string]string{}, paths: strings.NewReplacer(
		filepath.Join(s.Home, ".copilot"), "/home/user/.copilot", s.Home, "/home/user", s.Repo, "/home/user/repo", copilot.CacheDir(), "/home/user/.cache")}
}

func (n *normaliser) normalise(s string) string {
	s = n.paths.Replace(s)
	s = uuid.ReplaceAllStringFunc(s, func(id string) string {
		if n.ids[id] == "" {
			n.ids[id] = fmt.Sprintf("00000000-0000-4000-8000-%012d", len(n.ids)+1)
		}
		return n.ids[id]
	})
	s = iso.ReplaceAllString(s, "2026-01-02T03:04:05.678Z")
	return epoch.ReplaceAllString(s, `"timestamp":1767323045678`)
}

// environment keeps what the host adds.
func (n *normaliser) environment(env map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range env {
		if hostVariable(k) {
			out[k] = n.normalise(v)
		}
	}
	return out
}

func hostVariable(name string) bool {
	for _, prefix := range []string{"COPILOT_", "CLAUDE_", "GITHUB_COPILOT_", "GIT_CONFIG_", "PLUGIN_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
