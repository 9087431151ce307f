package guard

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

func FuzzDecodePolicy(f *testing.F) {
	good, err := authored(f, examplePolicy).GuardJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(good))
	f.Add([]byte(`{"mode":"off","timeoutMs":1,"onOverrun":"deny","rules":[],"remote":{"endpoint":"https://x","timeoutMs":1,"when":"always"}}`))
	f.Add([]byte(`{"rules":[[[[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := DecodePolicy(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodePolicy(again); err != nil {
			t.Errorf("what was taken is refused when written again: %v\n%s", err, again)
		}
	})
}

func FuzzParsePolicy(f *testing.F) {
	f.Add(examplePolicy)
	f.Add("rules: [{id: a, on: tool_input, when: \"text == 'x'\", action: deny}]")
	f.Add("a: &b\n  *b : c")
	f.Add("cases: [{name: x, command: y, expect: DENY}]")
	f.Fuzz(func(t *testing.T, text string) {
		a := &Authored{where: map[string]string{}}
		for _, err := range a.parse(File{"f.yaml", []byte(text)}, map[string]string{}) {
			if err != nil && !strings.HasPrefix(err.Error(), "f.yaml") {
				t.Errorf("the error names no file: %v", err)
			}
		}
		_, _ = parseFixtures("f.test.yaml", []byte(text))
	})
}

// FuzzEventFromSpan: no question panics or overflows, and what is judged is
// judged the same twice.
func FuzzEventFromSpan(f *testing.F) {
	for _, file := range fixtures(f) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(question(f, string(data)))
		f.Add(data)
	}
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"copilot.hook","value":{"stringValue":"PreToolUse"}},{"key":"copilot.tool_name","value":{"stringValue":"bash"}},
		{"key":"copilot.tool_input","value":{"kvlistValue":{"values":[{"key":"command","value":{"stringValue":"ls"}},{"key":"list","value":{"arrayValue":{"values":[{"intValue":"1"},{}]}}}]}}}]}]}]}]}`))
	e := loaded(f, examplePolicy, Options{})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func() (*Event, error){func() (*Event, error) { return EventFromSpan(data) }, func() (*Event, error) { return EventFromPayload(data, "PreToolUse") }} {
			ev, err := read()
			if err != nil {
				continue
			}
			first := e.Evaluate(t.Context(), ev, time.Minute)
			ev, _ = read()
			if again := e.Evaluate(t.Context(), ev, time.Minute); again.Decision != first.Decision || again.Reason != first.Reason {
				t.Errorf("%+v, then %+v", first, again)
			}
			if _, err := json.Marshal(first); err != nil || first.FailOpenReason == "error" { // a fault, that is a panic
				t.Errorf("%+v %v", first, err)
			}
		}
	})
}

func FuzzExpression(f *testing.F) {
	for _, s := range []string{"text == 'x'", "commands.exists(c, c.name == 'rm' && 'r' in c.flags)", "input.a[0].b == 1", "text.matches('(?i)a|b')", "!(text in ['a'])", "{'a': 1}.a == 1", "[1,2].map(x, x)"} {
		f.Add(s)
	}
	st := &state{Compiled: &Compiled{}, clock: time.Now}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > maxExpression {
			return
		}
		program, checked, err := compileExpression(source)
		if err != nil {
			return
		}
		needs(checked.NativeRep().Expr(), nil)
		ev := &Event{Kind: "PreToolUse", HostTool: "bash", Text: "rm -rf x", scripts: []string{"rm -rf x"}, guarded: true}
		_, _ = newActivation(t.Context(), st, ev).holds(program)
	})
}
