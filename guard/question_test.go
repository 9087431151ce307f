package guard

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestStructuredInput: another adapter may send a tool's input as OTLP has lists
// and maps; it is judged as JSON text is.
func TestStructuredInput(t *testing.T) {
	e := NewEngine(Options{})
	if err := e.Load([]byte(`{"mode":"enforce","timeoutMs":400,"onOverrun":"allow","rules":[{"id":"deny_edit","on":"tool_input","when":"has(input.edits) && input.edits.exists(x, x.path == '/etc/passwd' && x.at == 3 && x.whole == true && x.share == 0.5 && x.none == null)","action":"deny","message":"No."}]}`), 1, ""); err != nil {
		t.Fatal(err)
	}
	str := func(s string) string { return `{"stringValue":"` + s + `"}` }
	pairs := func(list ...string) string {
		return `{"kvlistValue":{"values":[` + strings.Join(list, ",") + `]}}`
	}
	pair := func(key, value string) string { return `{"key":"` + key + `","value":` + value + `}` }
	edit := pairs(pair("path", str("/etc/passwd")), pair("at", `{"intValue":"3"}`), pair("whole", `{"boolValue":true}`), pair("share", `{"doubleValue":0.5}`), pair("none", "{}"))
	for name, c := range map[string]struct{ input, want string }{
		"map":              {pairs(pair("command", str("rm -rf ~/.copilot/hooks"))), "pinta_protect_files"},
		"value before key": {pairs(`{"value":` + str(`rm -rf \"$HOME\"/.copilot/hooks`) + `,"key":"command"}`), "pinta_protect_files"},
		"later value":      {pairs(`{"key":"command","value":` + str("ls") + `,"value":` + str("rm -rf ~/.copilot/hooks") + `}`), "pinta_protect_files"},
		"within lists":     {pairs(pair("edits", `{"arrayValue":{"values":[`+edit+`]}}`)), "deny_edit"},
		"empty":            {pairs(), ""},
		"empty list":       {`{"arrayValue":{}}`, ""},
		"no key":           {pairs(`{}`, `{"key":7}`, pair("command", str("rm -rf ~/.copilot/hooks"))), "pinta_protect_files"},
		"no number":        {pairs(pair("n", `{"intValue":"x"}`), pair("command", str("rm -rf ~/.copilot/hooks"))), "pinta_protect_files"},
	} {
		t.Run(name, func(t *testing.T) {
			span := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"copilot.hook","value":{"stringValue":"PreToolUse"}},{"key":"copilot.tool_name","value":{"stringValue":"bash"}},{"key":"copilot.tool_input","value":` + c.input + `}]}]}]}]}`
			ev, err := EventFromSpan([]byte(span))
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Evaluate(t.Context(), ev, 8*time.Second); got.Reason != c.want {
				t.Errorf("%q, want %q", got.Reason, c.want)
			}
			sent, err := judged([]byte(span))
			if err != nil || !json.Valid(sent) {
				t.Errorf("to a remote guard goes %s, %v", sent, err)
			}
		})
	}
}
