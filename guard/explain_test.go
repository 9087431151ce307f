package guard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestExplain: every rule that matches is listed, the one that decides first,
// the protection that no policy names too.
func TestExplain(t *testing.T) {
	a := authored(t, examplePolicy+`
  - {id: also, on: tool_input, when: "text.contains('rm')", action: review}
  - {id: noted, on: tool_input, when: "text.contains('srv')", action: allow}
  - {id: free, on: tool_input, when: "text.matches('[a-z][A-Z]')", action: review}
  - {id: typed, on: tool_input, tools: [write], when: "input.path.contains('secret')", action: deny}
`)
	token := "ghp_" + strings.Repeat("aB3dE6", 6)
	for name, c := range map[string]struct{ payload, want, rules string }{
		"several":    {payload(t, "Bash", map[string]any{"command": "rm -r /srv"}, nil), "DENY deny_resource_destruction", "deny_resource_destruction* also noted"},
		"allow only": {payload(t, "Bash", map[string]any{"command": "ls /srv"}, nil), "ALLOW ", "noted*"},
		"none":       {payload(t, "Bash", map[string]any{"command": "ls"}, nil), "ALLOW ", ""},
		"builtin":    {payload(t, "Bash", map[string]any{"command": "cp x ~/.copilot/hooks/pinta-copilot.json"}, nil), "DENY pinta_protect_files", "pinta_protect_files* (builtin)"},
		"output":     {payload(t, "Bash", map[string]any{"command": "rm -r /srv"}, token), "mask mask_secrets", "mask_secrets*"},
		"too large":  {payload(t, "Bash", map[string]any{"command": "echo 'xA" + strings.Repeat("x", freeLimit) + "'"}, nil), "ALLOW ", "free!"},
		"other type": {payload(t, "Edit", map[string]any{"path": []string{"secret.txt"}}, nil), "ALLOW ", "typed!"},
		"no event":   {"x", "error ", ""},
		"unguarded":  {`{"hook_event_name":"SessionStart"}`, "ALLOW ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			result, list, err := a.Explain(Fixture{Event: json.RawMessage(c.payload)})
			if err != nil {
				t.Fatal(err)
			}
			var rules []string
			for _, m := range list {
				text := m.ID
				if m.Decides {
					text += "*"
				}
				if m.Failed != "" {
					text += "!"
				}
				if m.Builtin {
					text += " (builtin)"
				}
				rules = append(rules, text)
			}
			if got := fmt.Sprint(result.Got, " ", result.Rule); got != c.want || strings.Join(rules, " ") != c.rules {
				t.Errorf("got %q, %q; want %q, %q", got, rules, c.want, c.rules)
			}
		})
	}
}

// TestUnjudged: an event that no rule is asked about is told from one that no
// rule matches.
func TestUnjudged(t *testing.T) {
	a := authored(t, examplePolicy)
	for payload, why := range map[string]string{
		`{"hook_event_name":"SessionStart"}`: "SessionStart",
		`{"hook_event_name":"PostToolUseFailure","tool_name":"Bash","tool_input":{"command":"rm -r /"}}`: "PostToolUseFailure",
		`{"hook_event_name":"PreToolUse","tool_name":"ask_user","tool_input":{}}`:                        "ask_user",
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`:              "",
		`{"toolName":"Ask_user","toolArgs":"{}"}`:                                                        "",
	} {
		results, err := a.Test([]Fixture{{Event: json.RawMessage(payload), Want: "DENY"}})
		if err != nil {
			t.Fatal(err)
		}
		r := results[0]
		if (why == "") != (r.Unjudged == "") || !strings.Contains(r.Unjudged, why) || !strings.Contains(r.Reason, r.Unjudged) || r.Got != "ALLOW" {
			t.Errorf("%s: %+v", payload, r)
		}
	}
}
