package guard

import (
	"strings"
	"testing"
)

// TestNumbersOfAnInput: a number that no double holds costs the other values
// nothing.
func TestNumbersOfAnInput(t *testing.T) {
	for _, c := range []struct{ when, input, want string }{
		{"input.url.contains('evil')", `{"url":"evil","n":1e400}`, "DENY"},
		{"input.a.url.contains('evil')", `{"a":{"n":[-1e400],"url":"evil"}}`, "DENY"},
		{"input.n > 1e300", `{"n":1e400}`, "DENY"},
		{"input.n == 22", `{"n":22}`, "DENY"},
		{"input.n == 22", `{"n":22.0}`, "DENY"},
		{"input.n == 22", `{"n":"22"}`, "ALLOW"},
		{"string(input.n) == '22'", `{"n":22}`, "DENY"},
		{"input.n == null", `{"n":null}`, "DENY"},
		{"input.n * 1.5 == 3.0", `{"n":2}`, "DENY"},
	} {
		e := loaded(t, "rules:\n  - {id: r, on: tool_input, when: \""+c.when+"\", action: deny}\n", Options{})
		for _, args := range []string{`"tool_input":` + c.input, `"toolArgs":"` + strings.ReplaceAll(c.input, `"`, `\"`) + `"`} {
			if a := ask(t, e, `{"hook_event_name":"PreToolUse","tool_name":"x-y",`+args+`}`); a["decision"] != c.want {
				t.Errorf("%s on %s: %v", c.when, args, a)
			}
		}
	}
}

// TestLongNumbers: a card's number is found in an input as a number too, and how
// often a thing is to be tried is no text.
func TestLongNumbers(t *testing.T) {
	e := loaded(t, "rules:\n  - {id: r, on: tool_input, detect: [credit_card], action: deny}\n  - {id: t, on: tool_input, when: \"text.contains('400')\", action: deny}\n", Options{})
	for input, want := range map[string]string{
		`{"card":4111111111111111}`:           "DENY",
		`{"a":[{"card":"4111111111111111"}]}`: "DENY",
		`{"a":[{"card":4111111111111111}]}`:   "DENY",
		`{"a":[1,4111111111111112,400]}`:      "ALLOW",
		`{"timeout":400,"on":true}`:           "ALLOW",
	} {
		if a := ask(t, e, `{"hook_event_name":"PreToolUse","tool_name":"x-y","tool_input":`+input+`}`); a["decision"] != want {
			t.Errorf("%s: %v", input, a)
		}
	}
}
