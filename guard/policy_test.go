package guard

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAuthoringIsStrict(t *testing.T) {
	rule := "  - id: a\n    on: tool_input\n    when: text == 'x'\n    action: deny\n"
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":            {"mode: enforce\nrulez:\n" + rule, "policy.yaml:2: unknown key \"rulez\""},
		"unknown rule key":       {"rules:\n" + rule + "    sevrity: high\n", "policy.yaml:6: unknown key \"sevrity\""},
		"unknown remote key":     {"remote:\n  url: https://x\n", "policy.yaml:2: unknown key \"url\""},
		"unknown telemetry key":  {"telemetry:\n  on: true\n", "policy.yaml:2: unknown key \"on\""},
		"key twice":              {"mode: enforce\nmode: off\n", "policy.yaml:2: key \"mode\" is written twice"},
		"rule key twice":         {"rules:\n" + rule + "    action: allow\n", "policy.yaml:6: key \"action\" is written twice"},
		"wrong mode":             {"mode: audit\n", "policy.yaml:1: mode is \"audit\""},
		"wrong action":           {"rules:\n" + strings.Replace(rule, "deny", "block", 1), "policy.yaml:5: action is \"block\""},
		"no action":              {"rules:\n  - {id: a, on: tool_input, when: \"text == 'x'\"}\n", "policy.yaml:2: rule a: action is \"\""},
		"wrong phase":            {"rules:\n" + strings.Replace(rule, "tool_input", "input", 1), "policy.yaml:3: on is \"input\""},
		"number as text":         {"timeoutMs: fast\n", "policy.yaml:1: timeoutMs has to be a whole number"},
		"timeout out of bounds":  {"timeoutMs: 90000\n", "policy.yaml:1: timeoutMs lies in"},
		"tools as text":          {"rules:\n" + rule + "    tools: shell\n", "policy.yaml:6: tools has to be a list"},
		"slow as text":           {"rules:\n" + rule + "    slow: maybe\n", "policy.yaml:6: slow has to be true or false"},
		"rules as mapping":       {"rules:\n  a: b\n", "policy.yaml:2: rules has to be a list"},
		"rule as text":           {"rules:\n  - deny everything\n", "policy.yaml:2: a rule has to be a mapping"},
		"id twice":               {"rules:\n" + rule + rule, "policy.yaml:6: rule a is already defined at"},
		"bad id":                 {"rules:\n" + strings.Replace(rule, "id: a", "id: a b", 1), "policy.yaml:2: rule id \"a b\""},
		"no id":                  {"rules:\n" + strings.Replace(rule, "id: a", "message: a", 1), "policy.yaml:2: rule id \"\""},
		"mask of an input":       {"rules:\n" + strings.Replace(rule, "deny", "mask", 1), "mask is for tool_output only"},
		"mask without detect":    {"rules:\n  - {id: a, on: tool_output, when: \"output == 'x'\", action: mask}\n", "mask needs detect"},
		"until without except":   {"rules:\n" + rule + "    until: 2027-01-31\n", "there is no except"},
		"until no date":          {"rules:\n" + rule + "    except: user == 'x'\n    until: soon\n", "until is \"soon\""},
		"unknown detector":       {"rules:\n" + rule + "    detect: [pasword]\n", "policy.yaml:2: rule a: detect: unknown detector \"pasword\""},
		"syntax of CEL":          {"rules:\n" + strings.Replace(rule, "text == 'x'", "text ==", 1), "policy.yaml:2: rule a: when: Syntax error"},
		"unknown variable":       {"rules:\n" + strings.Replace(rule, "text == 'x'", "comand == 'x'", 1), "undeclared reference to 'comand'"},
		"unknown field":          {"rules:\n" + strings.Replace(rule, "text == 'x'", "commands.exists(c, c.nmae == 'x')", 1), "undefined field 'nmae'"},
		"type of operands":       {"rules:\n" + strings.Replace(rule, "text == 'x'", "text == 5", 1), "no matching overload"},
		"no condition":           {"rules:\n" + strings.Replace(rule, "text == 'x'", "text + 'x'", 1), "gives string"},
		"type of except":         {"rules:\n" + rule + "    except: user\n", "except: gives string"},
		"bad pattern":            {"rules:\n" + strings.Replace(rule, "text == 'x'", "text.matches('(')", 1), "missing closing"},
		"huge pattern":           {"rules:\n" + strings.Replace(rule, "text == 'x'", "text.matches('(a{1,900}b{1,900}){1,900}c')", 1), "rule a: when"},
		"large program":          {"rules:\n" + strings.Replace(rule, "text == 'x'", "text.matches('(\\\\pL{500}){20}')", 1), "rule a: when"},
		"repeat of a repeat":     {"rules:\n" + strings.Replace(rule, "text == 'x'", "text.matches('^(a+)+$')", 1), "repeats a repeat"},
		"repeats in a repeat":    {"rules:\n" + strings.Replace(rule, "text == 'x'", "text.matches('(x+x+)+y')", 1), "repeats a repeat"},
		"pattern of an input":    {"rules:\n" + strings.Replace(rule, "text == 'x'", "text.matches(input.p)", 1), "has to be a constant"},
		"costly":                 {"rules:\n" + strings.Replace(rule, "text == 'x'", "commands.exists(a, commands.exists(b, commands.exists(c, a.argv.exists(x, b.argv.exists(y, c.argv.exists(z, x + y == z))))))", 1), "rule a: when"},
		"long expression":        {"rules:\n" + strings.Replace(rule, "text == 'x'", "text == '"+strings.Repeat("x", 9000)+"'", 1), "longer than"},
		"long message":           {"rules:\n" + rule + "    message: " + strings.Repeat("x", 5000) + "\n", "message is longer"},
		"remote without TLS":     {"remote: {endpoint: \"http://x\", timeoutMs: 100}\n", "https URL"},
		"remote with password":   {"remote: {endpoint: \"https://u:p@x\", timeoutMs: 100}\n", "https URL"},
		"remote too slow":        {"timeoutMs: 400\nremote: {endpoint: \"https://x\", timeoutMs: 321}\n", "0.8 × timeoutMs (320)"},
		"remote of default time": {"remote: {endpoint: \"https://x\", timeoutMs: 321}\n", "0.8 × timeoutMs (320)"},
		"empty":                  {"", "the file is empty"},
		"no mapping":             {"- a\n- b: c\n", "policy.yaml:1: has to be a mapping"},
		"text":                   {"hello\n", "is no YAML mapping"},
		"broken YAML":            {"rules: [\n", "policy.yaml: line"},
		"two documents":          {"mode: off\n---\nmode: enforce\n", "more than one YAML document"},
		"aliases":                {"rules: &r\n" + rule, "anchors and aliases"},
		"tabs":                   {"rules:\n\t- id: a\n", "policy.yaml: line"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParsePolicy(write(t, "policy.yaml", c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestAuthoring(t *testing.T) {
	a := authored(t, examplePolicy)
	if a.Mode != "enforce" || a.TimeoutMs != 500 || a.OnOverrun != "allow" || len(a.Rules) != 3 || a.Remote != nil || a.Telemetry != nil {
		t.Errorf("got %+v", a.Policy)
	}
	if r := a.Rules[0]; r.Until != "2027-01-31" || r.Tags[0] != "destructive" || r.On != "tool_input" {
		t.Errorf("got %+v", r)
	}
	a = authored(t, "rules: []\ntelemetry: {enabled: false, endpoint: \"https://x/v1/traces\", headers: {a: b}}\nremote: {endpoint: \"https://x\", timeoutMs: 320, when: always}\n")
	if a.TimeoutMs != 400 || a.Mode != "enforce" || *a.Telemetry.Enabled || a.Telemetry.Headers["a"] != "b" || a.Remote.When != "always" {
		t.Errorf("got %+v", a)
	}
	if b := authored(t, "rules:\n  - {id: a, on: tool_input, slow: True, action: deny}\ntelemetry: {enabled: TRUE}\n"); !b.Rules[0].Slow || !*b.Telemetry.Enabled {
		t.Errorf("True is false: %+v", b)
	}
	raw, err := a.GuardJSON()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := DecodePolicy(raw); err != nil || p.Remote.TimeoutMs != 320 {
		t.Errorf("%+v %v", p, err)
	}

	// A folder, with fixtures beside the rules, in the order of names.
	dir := t.TempDir()
	for name, text := range map[string]string{
		"20-b.yaml":      "rules:\n  - {id: b, on: tool_input, when: \"text.contains('bbb')\", action: deny}\n",
		"10-a.yml":       "timeoutMs: 300\nrules:\n  - {id: a, on: tool_input, when: \"text.contains('aaa')\", action: deny}\n",
		"20-b.test.yaml": "cases:\n  - {name: one, command: echo bbb, expect: DENY, rule: b}\n  - {name: two, command: echo c, expect: DENY}\n",
		"notes.txt":      "not a policy",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if a, err = ParsePolicy(dir); err != nil {
		t.Fatal(err)
	}
	if len(a.Rules) != 2 || a.Rules[0].ID != "a" || a.TimeoutMs != 300 || len(a.Fixtures) != 2 {
		t.Errorf("got %+v", a)
	}
	results, err := a.Test(a.Fixtures)
	if err != nil || !results[0].Pass || results[1].Pass || !strings.Contains(results[1].Where, "20-b.test.yaml:3") {
		t.Errorf("%+v %v", results, err)
	}
	if _, err := ParsePolicy(t.TempDir()); err == nil {
		t.Error("an empty folder is no policy")
	}
	if _, err := ParsePolicy(filepath.Join(dir, "none.yaml")); err == nil {
		t.Error("a missing file is no policy")
	}
	if err := os.WriteFile(filepath.Join(dir, "30.yaml"), []byte("timeoutMs: 200\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ParsePolicy(dir); err == nil || !strings.Contains(err.Error(), "already set at") {
		t.Errorf("a setting in two files: %v", err)
	}
}

func TestWarnings(t *testing.T) {
	for when, warns := range map[string]bool{
		"text.size() > 100":                             false,
		"kind == 'PreToolUse'":                          false,
		"true":                                          false,
		"!text.contains('x')":                           true,
		"text.matches('[a-z]+')":                        true,
		"text.matches('[a-z]+@corp')":                   false,
		"commands.exists(c, size(c.argv) > 3)":          true,
		"commands.all(c, c.name == 'x')":                true,
		"['rm', 'dd'].exists(x, text.contains(x))":      false,
		"text.contains('a') || size(commands) > 3":      true,
		"commands.exists(c, c.name in ['ls', 'cat'])":   false,
		"input.a.contains('x') ? true : text == 'y'":    false,
		"text.lowerAscii().contains('drop')":            false,
		"secrets.exists(s, s.type == 'jwt')":            false,
		"commands.exists_one(c, c.name == 'kubectl')":   false,
		"commands.filter(c, c.name == 'x').size() == 1": true,
	} {
		a := authored(t, "rules:\n  - {id: a, on: tool_input, when: \""+when+"\", action: deny}\n")
		if (len(a.Warnings) > 0) != warns {
			t.Errorf("%s: %v", when, a.Warnings)
		}
	}
}

func TestPatterns(t *testing.T) {
	for pattern, bad := range map[string]bool{
		`(a+)+$`: true, `(a*)*b`: true, `([a-z]+)*x`: true, `(x+x+)+y`: true, `(.*)+`: true, `(\w*\d*)*`: true, `((a+)+)+`: true, `x(\s*|(b+)+)y`: true, `([a-c]{2,})+z`: true,
		`(\s+\w+)*`: false, `(?:[a-z]+-)*x`: false, `a+b+`: false, `(ab+)+`: false, `(?i)\brm\s+-rf\b`: false, `(a|b)+`: false, `.*x.*`: false, `([^/]+/)*[^/]+`: false, `(a+b)+`: false,
	} {
		if err := checkPattern(pattern); (err != nil) != bad {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// TestBadConfigs: each is refused with a reason, and what was in force stays.
func TestBadConfigs(t *testing.T) {
	good, err := authored(t, examplePolicy).GuardJSON()
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	many := make([]Rule, MaxRules+1)
	for i := range many {
		many[i] = Rule{ID: "r" + strings.Repeat("x", i%100), On: "tool_input", When: "true", Action: "deny"}
	}
	tooMany, _ := json.Marshal(Policy{Mode: "enforce", TimeoutMs: 1, OnOverrun: "allow", Rules: many})
	for name, c := range map[string]struct{ raw, want string }{
		"empty":             {"", "empty"},
		"blank":             {" \n", "empty"},
		"empty object":      {"{}", "lacks"},
		"null":              {"null", "no JSON object"},
		"array":             {"[]", "no JSON object"},
		"truncated":         {text[:len(text)-20], "no complete JSON"},
		"trailing":          {text + "{}", "no complete JSON"},
		"50 MiB":            {`{"mode":"` + strings.Repeat("x", 50<<20) + `"}`, "at most"},
		"deep":              {`{"rules":` + strings.Repeat("[", 100000), "nested deeper"},
		"unknown key":       {strings.Replace(text, `"mode"`, `"extra":1,"mode"`, 1), `unknown key "extra"`},
		"key twice":         {strings.Replace(text, `"mode"`, `"mode":"off","mode"`, 1), "written twice"},
		"case variant":      {strings.Replace(text, `"mode"`, `"Mode"`, 1), `unknown key "Mode"`},
		"unknown rule key":  {strings.Replace(text, `"on":`, `"if":"x","on":`, 1), `unknown key "if"`},
		"without rules":     {`{"mode":"enforce","timeoutMs":400,"onOverrun":"allow"}`, `lacks "rules"`},
		"null rules":        {`{"mode":"enforce","timeoutMs":400,"onOverrun":"allow","rules":null}`, `lacks "rules"`},
		"rules as object":   {`{"mode":"enforce","timeoutMs":400,"onOverrun":"allow","rules":{}}`, "no array"},
		"rule as text":      {`{"mode":"enforce","timeoutMs":400,"onOverrun":"allow","rules":["x"]}`, "rule 1: is no JSON object"},
		"text timeout":      {strings.Replace(text, `"timeoutMs":500`, `"timeoutMs":"500"`, 1), "timeoutMs"},
		"negative timeout":  {strings.Replace(text, `"timeoutMs":500`, `"timeoutMs":-1`, 1), "timeoutMs is -1"},
		"fraction":          {strings.Replace(text, `"timeoutMs":500`, `"timeoutMs":0.5`, 1), "timeoutMs"},
		"mode":              {strings.Replace(text, `"enforce"`, `"on"`, 1), `mode is "on"`},
		"rule that fails":   {strings.Replace(text, "cwd.startsWith", "cwd.beginsWith", 1), "rule deny_resource_destruction: when"},
		"pattern":           {strings.Replace(text, `"mode"`, `"remote":null,"mode"`, 1) + " ", ""},
		"catastrophic":      {`{"mode":"enforce","timeoutMs":400,"onOverrun":"allow","rules":[{"id":"a","on":"tool_input","action":"deny","when":"text.matches('((a{1,500}){1,500}){1,500}')"}]}`, "rule a: when"},
		"same id":           {`{"mode":"enforce","timeoutMs":400,"onOverrun":"allow","rules":[{"id":"a","on":"tool_input","action":"deny"},{"id":"a","on":"tool_input","action":"deny"}]}`, "used twice"},
		"remote by http":    {strings.Replace(text, `"mode"`, `"remote":{"endpoint":"http://x","timeoutMs":100,"when":"review"},"mode"`, 1), "https"},
		"remote key":        {strings.Replace(text, `"mode"`, `"remote":{"endpoint":"https://x","timeoutMs":100,"when":"review","x":1},"mode"`, 1), `unknown key "x"`},
		"too many rules":    {string(tooMany), "at most"},
		"invalid UTF-8 key": {"{\"\xff\":1}", "unknown key"},
	} {
		t.Run(name, func(t *testing.T) {
			e := loaded(t, examplePolicy, Options{})
			err := e.Load(json.RawMessage(c.raw), 2, "g")
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %s", err, c.want)
			}
			if len(err.Error()) > 2000 {
				t.Errorf("the reason has %d bytes", len(err.Error()))
			}
			if e.Status().Version != 1 {
				t.Errorf("version %d is in force", e.Status().Version)
			}
			if a := ask(t, e, payload(t, "Bash", map[string]any{"command": "rm -rf /srv"}, nil)); a["decision"] != "DENY" {
				t.Errorf("what was in force is not: %v", a)
			}
		})
	}
}

// TestSeverity: of the matching rules the most severe wins, then file order.
func TestSeverity(t *testing.T) {
	e := loaded(t, `
rules:
  - {id: allow, on: tool_input, when: "text.contains('w')", action: allow}
  - {id: review, on: tool_input, when: "text.contains('x')", action: review}
  - {id: deny1, on: tool_input, when: "text.contains('y')", action: deny}
  - {id: deny2, on: tool_input, when: "text.contains('y')", action: deny}
  - {id: mask_jwt, on: tool_output, detect: [jwt], action: mask}
  - {id: mask_github, on: tool_output, detect: [github_token], action: mask}
  - {id: withhold, on: tool_output, detect: [private_key_block], action: withhold}
  - {id: deny_out, on: tool_output, when: "output.contains('forbidden')", action: deny}
  - {id: review_out, on: tool_output, when: "output.contains('odd')", action: review}
  - {id: broken, on: tool_input, when: "input.nothing.here == 'x' || input.list[3] == 'y'", action: deny}
`, Options{})
	github := "ghp_" + strings.Repeat("aB3dE6", 6)
	jwt := "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4ifQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
	key := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END PRIVATE KEY-----"
	for text, want := range map[string]string{"w": "ALLOW ", "x": "REVIEW review", "wxy": "DENY deny1", "none": "ALLOW "} {
		a := ask(t, e, payload(t, "Bash", map[string]any{"command": text}, nil))
		rule, _ := a["reason"].(string)
		if got := a["decision"].(string) + " " + rule; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]struct {
		rule, action string
		n            int
	}{
		github:                          {"mask_github", "mask", 1},
		jwt + " " + github:              {"mask_jwt", "mask", 2}, // both rules' values are masked
		key + " " + github:              {"withhold", "withhold", 2},
		"forbidden " + key:              {"deny_out", "", 0},
		"odd " + github:                 {"mask_github", "mask", 1},
		"odd":                           {"review_out", "", 0},
		github + " and again " + github: {"mask_github", "mask", 1},
	} {
		a := ask(t, e, payload(t, "Bash", map[string]any{"command": "x"}, text))
		list, _ := a["redactions"].([]any)
		action, _ := a["outputAction"].(string)
		if a["reason"] != want.rule || action != want.action || len(list) != want.n {
			t.Errorf("%.40q: %v", text, a)
		}
	}
}

// TestMistakes: a tool name by which a rule never matches is warned of.
func TestMistakes(t *testing.T) {
	for rule, warns := range map[string]string{
		`tools: [Shell]`:                                    "no host has a tool Shell; the canonical name is shell",
		`tools: [shell, Bash, Read, FETCH]`:                 "no host has a tool FETCH; the canonical name is fetch",
		`tools: [shell, bash, Task, "mcp:Shell/x", Custom]`: "",
		`when: "tool == 'Bash'"`:                            "tool is never Bash, for it is canonical (shell)",
		`when: "'bash' == tool"`:                            "tool is never bash",
		`when: "tool in ['shell', 'web_fetch']"`:            "tool is never web_fetch, for it is canonical (fetch)",
		`when: "tool == 'Shell'"`:                           "tool is never Shell",
		`when: "text == 'x'", except: "tool == 'view'"`:     "tool is never view, for it is canonical (read)",
		`when: "tool == 'shell' && host_tool == 'Bash'"`:    "",
		`when: "tool.startsWith('mcp:') || tool == 'x'"`:    "",
	} {
		a := authored(t, "rules:\n  - {id: a, on: tool_input, "+rule+", action: deny}\n")
		if got := strings.Join(a.Warnings, "\n"); (warns == "") != (got == "") || !strings.Contains(got, warns) {
			t.Errorf("%s: %q", rule, got)
		}
	}
}
