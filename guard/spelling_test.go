package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
)

// TestSpellings is the differential test over real payloads: the same action
// gets the same verdict in every spelling of every CLI version, in VS Code's
// shapes, for either registration, and in the shapes of the permission layer.
func TestSpellings(t *testing.T) {
	e := loaded(t, `
rules:
  - {id: deny_rm, on: tool_input, tools: [shell], when: "commands.exists(c, c.name == 'rm' && 'r' in c.flags)", action: deny, message: No.}
  - {id: deny_read, on: tool_input, tools: [read], when: "paths.exists(p, p.endsWith('/secret.txt'))", action: deny}
  - {id: deny_mcp, on: tool_input, tools: ["mcp:rigmcp/echo"], when: "input.text.contains('forbidden')", action: deny}
  - {id: review_agent, on: tool_input, tools: [agent], when: "text.contains('PROBE')", action: review}
  - {id: deny_write, on: tool_input, tools: [write], when: "text.contains('eval(') && writes.exists(p, p.endsWith('.py'))", action: deny}
  - {id: mask, on: tool_output, detect: [secrets], action: mask}
  - {id: withhold_mcp, on: tool_output, tools: ["mcp:rigmcp/*"], when: "output.contains('top secret')", action: withhold}
`, Options{})
	token := "ghp_" + strings.Repeat("aB3dE6", 6)
	type action struct {
		tool    string // of the fixtures: bash, view, task, rigmcp
		set     map[string]any
		output  string
		verdict string // decision, rule, output action
	}
	actions := map[string]action{
		"delete":        {"bash", map[string]any{"command": "sudo rm -rf /srv"}, "", "DENY deny_rm "},
		"hidden delete": {"bash", map[string]any{"command": `bash -c "r''m -r /srv \"x y\""`}, "", "DENY deny_rm "},
		"harmless":      {"bash", map[string]any{"command": "echo 'rm -r /srv'"}, "", "ALLOW  "},
		"read":          {"view", map[string]any{"path": "/home/user/repo/secret.txt"}, "", "DENY deny_read "},
		"other read":    {"view", map[string]any{"path": "/home/user/repo/README.md"}, "", "ALLOW  "},
		"mcp":           {"rigmcp", map[string]any{"text": "a forbidden\nword é \u2028"}, "", "DENY deny_mcp "},
		"other mcp":     {"rigmcp", map[string]any{"text": "fine"}, "", "ALLOW  "},
		"agent":         {"task", map[string]any{"prompt": "PROBE things"}, "", "REVIEW review_agent "},
		"secret output": {"bash", nil, "token " + token + "\n", "DENY mask mask"},
		"mcp output":    {"rigmcp", nil, "top secret", "DENY withhold_mcp withhold"},
		"plain output":  {"bash", nil, "ok", "ALLOW  "},
		"agent output":  {"task", nil, "see " + token, "DENY mask mask"},
	}
	covered := map[string]map[string]bool{}
	for _, file := range fixtures(t) {
		version := filepath.Base(filepath.Dir(file))
		for name, a := range actions {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			payload, ok := act(t, data, a.tool, a.set, a.output)
			if !ok {
				continue
			}
			for _, source := range []string{"user", "machine", ""} {
				for _, surface := range []event.Surface{event.CLI, event.Ext} {
					if got := verdict(t, e, payload, bound(file), source, surface); got != a.verdict {
						t.Errorf("%s in %s (%s, %s): got %q, want %q\n%s", name, file, source, surface, got, a.verdict, payload)
					}
				}
			}
			if ev, err := EventFromPayload(payload, ""); err != nil {
				t.Errorf("%s: %v", file, err)
			} else if out := e.Evaluate(t.Context(), ev, time.Second*8); out.Decision+" "+out.Reason+" "+out.OutputAction != a.verdict {
				t.Errorf("%s in %s from the payload: got %+v", name, file, out)
			}
			if covered[name] == nil {
				covered[name] = map[string]bool{}
			}
			covered[name][version] = true
		}
	}
	for name, a := range actions {
		want := 5
		if a.tool == "rigmcp" {
			want = 1 // captured with 1.0.102 only
		}
		if len(covered[name]) < want {
			t.Errorf("%s was seen in %d versions, want %d", name, len(covered[name]), want)
		}
	}

	// Shapes of VS Code (1.111) and of the permission layer, which no fixture has.
	for name, c := range map[string]struct{ payload, verdict string }{
		"terminal":          {`{"hook_event_name":"PreToolUse","tool_name":"run_in_terminal","tool_input":{"command":"rm -rf /srv","explanation":"x","isBackground":false},"tool_use_id":"call_1__vscode-1","transcript_path":"/x/t.jsonl"}`, "DENY deny_rm "},
		"read_file":         {`{"hook_event_name":"PreToolUse","tool_name":"read_file","tool_input":{"filePath":"/home/user/repo/secret.txt","startLine":1}}`, "DENY deny_read "},
		"runSubagent":       {`{"hook_event_name":"PreToolUse","tool_name":"runSubagent","tool_input":{"prompt":"PROBE"}}`, "REVIEW review_agent "},
		"VS Code MCP":       {`{"hook_event_name":"PreToolUse","tool_name":"mcp_rigmcp_echo","tool_input":{"text":"forbidden"}}`, "DENY deny_mcp "},
		"Claude MCP":        {`{"hook_event_name":"PreToolUse","tool_name":"mcp__rigmcp__echo","tool_input":{"text":"forbidden"}}`, "DENY deny_mcp "},
		"VS Code output":    {`{"hook_event_name":"PostToolUse","tool_name":"read_file","tool_input":{"filePath":"x"},"tool_response":"` + token + `"}`, "DENY mask mask"},
		"JSON output":       {`{"hook_event_name":"PostToolUse","tool_name":"read_file","tool_input":{"filePath":"x"},"tool_response":"{\"a\":\"` + token + `\"}"}`, "DENY mask mask"},
		"object output":     {`{"hook_event_name":"PostToolUse","tool_name":"x","tool_input":{},"tool_response":{"a":["` + token + `"]}}`, "DENY mask mask"},
		"create":            {`{"hook_event_name":"PreToolUse","tool_name":"create","tool_input":{"path":"/r/a.py","file_text":"eval(x)"}}`, "DENY deny_write "},
		"Write":             {`{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"/r/a.py","content":"eval(x)"}}`, "DENY deny_write "},
		"create_file":       {`{"hook_event_name":"PreToolUse","tool_name":"create_file","tool_input":{"filePath":"/r/a.py","content":"eval(x)"}}`, "DENY deny_write "},
		"edit":              {`{"toolName":"edit","toolArgs":"{\"path\":\"/r/a.py\",\"old_str\":\"a\",\"new_str\":\"eval(x)\"}"}`, "DENY deny_write "},
		"multi edit":        {`{"hook_event_name":"PreToolUse","tool_name":"multi_replace_string_in_file","tool_input":{"replacements":[{"filePath":"/r/a.py","newString":"eval(x)"}]}}`, "DENY deny_write "},
		"permission edit":   {`{"hookName":"permissionRequest","toolName":"edit","toolInput":{"file_path":"/r/a.py","diff":"@@ -1 +1 @@\n-a\n+eval(x)"},"permissionSuggestions":[]}`, "DENY deny_write "},
		"patch as text":     {`{"toolName":"apply_patch","toolArgs":"*** Begin Patch\n*** Update File: a.py\n+eval(x)\n*** End Patch","cwd":"/r"}`, "DENY deny_write "},
		"patch as object":   {`{"hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_input":{"input":"*** Begin Patch\n*** Add File: a.py\n+eval(x)\n*** End Patch","explanation":"x"},"cwd":"/r"}`, "DENY deny_write "},
		"mixed spellings":   {`{"hook_event_name":"PreToolUse","tool_name":"Bash","toolName":"bash","tool_input":{"command":"ls"},"toolArgs":"{\"command\":\"rm -r /srv\"}"}`, "ALLOW  "},
		"keys to a shell":   {`{"toolName":"write_bash","toolArgs":{"sessionId":"1","input":"rm -rf /srv\n"}}`, "DENY deny_rm "},
		"list of words":     {`{"toolName":"shell","toolArgs":{"command":["bash","-lc","rm -r /srv"]}}`, "DENY deny_rm "},
		"internal tool":     {`{"toolName":"report_intent","toolArgs":{"command":"rm -r /srv"}}`, "ALLOW  "},
		"failed tool":       {`{"hook_event_name":"PostToolUseFailure","tool_name":"Bash","tool_input":{"command":"x"},"error":"` + token + `"}`, "ALLOW  "},
		"case variant tool": {`{"toolName":"Report_Intent","toolArgs":{"command":"rm -r /srv"}}`, "ALLOW  "},
	} {
		if name == "mixed spellings" {
			c.verdict = "DENY deny_rm " // every input counts, whichever the host takes
		}
		binding := "PreToolUse"
		if got := verdict(t, e, []byte(c.payload), binding, "user", event.Ext); got != c.verdict {
			t.Errorf("%s: got %q, want %q", name, got, c.verdict)
		}
	}
}

func TestCanonicalTools(t *testing.T) {
	mentioned := []string{"mcp:*/drop-all-tables", "mcp:context7/resolve-library-id", "mcp:files", "mcp:my-server/*"}
	for host, want := range map[string]string{
		"bash": "shell", "Bash": "shell", "powershell": "shell", "run_in_terminal": "shell", "view": "read", "Read": "read", "read_file": "read",
		"create": "write", "edit": "write", "apply_patch": "write", "MultiEdit": "write", "Grep": "search", "glob": "search", "WebFetch": "fetch",
		"task": "agent", "Agent": "agent", "runSubagent": "agent", "report_intent": "report_intent", "Edit ": "Edit ", "": "",
		"rigmcp-echo": "mcp:rigmcp/echo", "rigmcp/echo": "mcp:rigmcp/echo", "mcp__rigmcp__echo": "mcp:rigmcp/echo", "mcp_rigmcp_echo": "mcp:rigmcp/echo",
		"github-mcp-server-search_code": "mcp:github-mcp-server/search_code", "github-mcp-server/search_code": "mcp:github-mcp-server/search_code",
		"context7-resolve-library-id": "mcp:context7/resolve-library-id", "context7/resolve-library-id": "mcp:context7/resolve-library-id",
		"mcp_context7_resolve-library-id": "mcp:context7/resolve-library-id", "my-server-do-it-now": "mcp:my-server/do-it-now", "my-server/do-it-now": "mcp:my-server/do-it-now",
		"files-read-all": "mcp:files/read-all", "files/read-all": "mcp:files/read-all", "db-drop-all-tables": "mcp:db/drop-all-tables",
		"mcp__db__drop-all-tables": "mcp:db/drop-all-tables", "my-server-drop-all-tables": "mcp:my-server/drop-all-tables",
		"-x": "-x", "x-": "x-", "/x": "/x",
	} {
		if got := canonicalTool(host, mentioned); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
	for _, c := range []struct {
		rule, host string
		want       bool
	}{
		{"shell", "Bash", true}, {"shell", "view", false}, {"Bash", "Bash", true}, {"Bash", "bash", false}, {"mcp:rigmcp/echo", "rigmcp-echo", true},
		{"mcp:rigmcp/*", "rigmcp/echo", true}, {"mcp:*", "a-b", true}, {"mcp:*/echo", "rigmcp-echo", true}, {"mcp:*/echo", "rigmcp-other", false},
		{"mcp:files", "files-read-all", true}, {"mcp:files/*", "files-read-all", true}, {"mcp:*/read-all", "files-read-all", true},
		{"mcp:*/read-all", "mcp__files__read-all", true}, {"mcp:files", "filesystem-read", false}, {"mcp:*/read-all", "read-all", false},
		{"mcp:files/read", "files-read-all", false}, {"mcp:files", "bash", false},
		{"mcp:*", "bash", false}, {"a-b-c", "a-b/c", true}, {"a/b-c", "a-b-c", true}, {"a-b", "a-c", false},
	} {
		if got := newToolSet([]string{c.rule}).has(canonicalTool(c.host, nil), c.host); got != c.want {
			t.Errorf("rule for %s, tool %s: %v", c.rule, c.host, got)
		}
	}
}

func fixtures(t testing.TB) []string {
	files, err := filepath.Glob("testdata/payloads/*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no payloads", err)
	}
	return files
}

// bound is the event's name as the hook file's env gives it: camelCase payloads
// carry none.
func bound(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return name
}

// act puts an action into a payload of the right tool and phase.
func act(t testing.TB, data []byte, tool string, set map[string]any, output string) ([]byte, bool) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var p map[string]any
	if err := d.Decode(&p); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprint(p["tool_name"], p["toolName"])
	kinds := map[string]string{"bash": "bash", "view": "view", "read": "view", "task": "task", "agent": "task", "rigmcp-echo": "rigmcp", "rigmcp/echo": "rigmcp"}
	if kinds[strings.ToLower(strings.ReplaceAll(name, "<nil>", ""))] != tool || p["error"] != nil || p["serverName"] != nil {
		return nil, false
	}
	result := false
	for _, key := range []string{"tool_result", "toolResult"} {
		if r, ok := p[key].(map[string]any); ok {
			result = true
			for k := range r {
				if strings.HasPrefix(strings.ToLower(k), "text") {
					r[k] = output
				}
			}
		}
	}
	if result != (output != "") {
		return nil, false
	}
	for _, key := range []string{"tool_input", "toolArgs", "toolInput"} {
		switch v := p[key].(type) {
		case map[string]any:
			for k, x := range set {
				v[k] = x
			}
		case string:
			args := map[string]any{}
			if err := json.Unmarshal([]byte(v), &args); err != nil {
				t.Fatal(err)
			}
			for k, x := range set {
				args[k] = x
			}
			text, _ := json.MarshalIndent(args, "", "       ")
			p[key] = string(text)
		}
	}
	out, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return out, true
}

// verdict asks over the handler with the span that the hook makes of a payload.
func verdict(t testing.TB, e *Engine, payload []byte, binding, source string, surface event.Surface) string {
	t.Helper()
	ev, err := event.Parse(payload, binding)
	if err != nil {
		t.Fatal(err)
	}
	if !ev.Guarded() {
		return "ALLOW  " // the hook doesn't ask
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/guard/evaluate", bytes.NewReader(spanOf(ev, surface, source)))
	r.Header.Set("X-Pinta-Guard-Budget-Ms", "8000")
	e.Handler().ServeHTTP(w, r)
	var a struct {
		Decision, Reason, OutputAction string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != 200 {
		t.Fatalf("status %d %s: %v", w.Code, w.Body, err)
	}
	return a.Decision + " " + a.Reason + " " + a.OutputAction
}
