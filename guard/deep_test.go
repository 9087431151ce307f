package guard

import (
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// TestDeepInput: nesting beside a command doesn't hide it, in whatever spelling
// the input comes.
func TestDeepInput(t *testing.T) {
	e := NewEngine(Options{})
	if err := e.Load([]byte(`{"mode":"enforce","timeoutMs":400,"onOverrun":"allow","rules":[{"id":"deny_input","on":"tool_input","when":"'command' in input && input.command.contains('/srv')","action":"deny","message":"No."}]}`), 1, ""); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{"rm -rf ~/.copilot/hooks": "pinta_protect_files", "ls /srv": "deny_input", "ls": ""} {
		for _, n := range []int{1, 150, 250, 5000, 100_000} {
			input := `{"x":` + strings.Repeat("[", n) + `"y"` + strings.Repeat("]", n) + `,"command":"` + command + `","z":` + strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) + `}`
			span := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"copilot.hook","value":{"stringValue":"PreToolUse"}},{"key":"copilot.tool_name","value":{"stringValue":"bash"}},{"key":"copilot.tool_input","value":{"stringValue":` +
				string(rawjson.AppendQuote(nil, input)) + `}}]}]}]}]}`
			ev, err := EventFromSpan([]byte(span))
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Evaluate(t.Context(), ev, 8*time.Second); got.Reason != want {
				t.Errorf("%s beside %d levels: %q, want %q", command, n, got.Reason, want)
			}
		}
	}
}
