package guard

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSevererRulesUnjudged: where a more severe rule was not judged, a milder one
// that matches doesn't hide it.
func TestSevererRulesUnjudged(t *testing.T) {
	const deny = "  - {id: free, on: tool_input, when: \"!text.contains('harmless')\", action: deny}\n"
	rules := map[string]string{
		"allow":  "  - {id: milder, on: tool_input, tools: [shell], action: allow}\n",
		"review": "  - {id: milder, on: tool_input, tools: [shell], action: review}\n",
		"deny":   "  - {id: milder, on: tool_input, tools: [shell], action: deny, message: no}\n",
	}
	for _, c := range []struct{ action, onOverrun, decision, reason string }{
		{"allow", "deny", "DENY", "guard_overrun"},
		{"review", "deny", "DENY", "guard_overrun"},
		{"deny", "deny", "DENY", "milder"},
		{"allow", "allow", "ALLOW", ""},
		{"review", "allow", "REVIEW", "milder"},
		{"deny", "allow", "DENY", "milder"},
	} {
		for name, command := range map[string]string{
			"padding":       "ls '" + strings.Repeat("x", freeLimit) + "'",
			"many commands": strings.Repeat("eval ", 3000) + "ls",
		} {
			t.Run(c.action+" "+c.onOverrun+" "+name, func(t *testing.T) {
				policy := "onOverrun: " + c.onOverrun + "\nrules:\n" + deny + rules[c.action]
				if name == "many commands" {
					policy = strings.Replace(policy, "!text.contains('harmless')", "commands.exists(c, c.name == 'absent')", 1)
				}
				var seen Verdict
				e := loaded(t, policy, Options{OnVerdict: func(v Verdict) { seen = v }})
				p := payload(t, "Bash", map[string]any{"command": command}, nil)
				ev, err := EventFromPayload([]byte(p), "")
				if err != nil {
					t.Fatal(err)
				}
				if ev.Commands(t.Context()); name == "many commands" && !ev.limited {
					t.Fatal("all of it is listed")
				}
				a := e.Evaluate(t.Context(), ev, 8*time.Second)
				if a.Decision != c.decision || a.Reason != c.reason {
					t.Errorf("got %+v", a)
				}
				if seen.Overrun != (c.action != "deny") {
					t.Errorf("overrun is %v", seen.Overrun)
				}
			})
		}
	}
}

// TestUnfinishedScan: of what was scanned in part nothing is told, and what was
// not masked as a whole is withheld.
func TestUnfinishedScan(t *testing.T) {
	e := loaded(t, examplePolicy, Options{})
	ev, err := EventFromPayload([]byte(payload(t, "Bash", map[string]any{"command": "x"}, "the key is "+strings.Repeat("aB3dE6", 6))), "")
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got := newActivation(over, e.current.Load(), ev).excerpt(nil); got != "" {
		t.Errorf("excerpt %q", got)
	}
	i := slices.IndexFunc(e.current.Load().output, func(r *rule) bool { return r.Action == "mask" })
	mask := e.current.Load().output[i]
	a, _ := e.answer(t.Context(), e.current.Load(), ev, outcome{rule: mask, partial: true}, time.Now(), nil)
	if a.OutputAction != "withhold" {
		t.Errorf("got %+v", a)
	}
}

// TestFailedConditions: a rule that could not be evaluated, for a value is of
// another type than its author expected, leaves a trace; a missing key doesn't.
func TestFailedConditions(t *testing.T) {
	var seen Verdict
	e := loaded(t, `
rules:
  - {id: url, on: tool_input, when: "input.url.contains('evil')", action: deny}
  - {id: size, on: tool_input, when: "int(input.size) > 5", action: deny}
  - {id: last, on: tool_input, when: "input.list[3] == 'x'", action: deny}
`, Options{OnVerdict: func(v Verdict) { seen = v }})
	for _, c := range []struct {
		input    map[string]any
		decision string
		failed   []string
	}{
		{map[string]any{"url": "http://evil/"}, "DENY", nil},
		{map[string]any{"url": []string{"http://evil/"}}, "ALLOW", []string{"url"}},
		{map[string]any{"url": map[string]any{"evil": nil}}, "ALLOW", []string{"url"}},
		{map[string]any{"url": nil, "also": "evil"}, "ALLOW", []string{"url"}},
		{map[string]any{"size": "many"}, "ALLOW", []string{"size"}},
		{map[string]any{"size": 6}, "DENY", nil},
		{map[string]any{"list": []string{"x"}}, "ALLOW", nil},
		{map[string]any{"other": "evil"}, "ALLOW", nil},
	} {
		if a := ask(t, e, payload(t, "web_fetch", c.input, nil)); a["decision"] != c.decision || !slices.Equal(seen.Failed, c.failed) {
			t.Errorf("%v: %v, failed %v", c.input, a, seen.Failed)
		}
	}
}
