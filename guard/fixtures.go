package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Fixture is a case of a policy: an event and what the policy has to say to it.
//
//	cases:
//	  - name: recursive delete
//	    command: rm -rf /srv          # a shell call; or tool with input, or event
//	    expect: DENY                  # ALLOW | DENY | REVIEW | mask | withhold
//	    rule: deny_delete             # optional
type Fixture struct {
	Name  string
	Where string // file:line
	Event json.RawMessage
	User  string
	Group string
	// Want is the expected decision or output action; Rule the id, "" for any.
	Want, Rule string
}

type fixtureFile struct {
	Cases []yaml.Node `yaml:"cases"`
}

type fixtureCase struct {
	Name      string         `yaml:"name"`
	Command   string         `yaml:"command"`
	Tool      string         `yaml:"tool"`
	Input     map[string]any `yaml:"input"`
	Output    *string        `yaml:"output"`
	Event     map[string]any `yaml:"event"`
	EventFile string         `yaml:"eventFile"`
	Kind      string         `yaml:"kind"`
	Cwd       string         `yaml:"cwd"`
	User      string         `yaml:"user"`
	Group     string         `yaml:"group"`
	Expect    string         `yaml:"expect"`
	Rule      string         `yaml:"rule"`
}

// parseFixtures reads a NAME.test.yaml file.
func parseFixtures(name string, data []byte) (list []Fixture, err error) {
	var file fixtureFile
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&file); errors.As(err, new(*yaml.TypeError)) {
		return nil, fmt.Errorf("%s: has to be a mapping with cases, a list", name)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var problems []error
	for i := range file.Cases {
		node := &file.Cases[i]
		f, err := parseFixture(name, node)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: %w", name, node.Line, err))
			continue
		}
		f.Where = fmt.Sprintf("%s:%d", name, node.Line)
		list = append(list, f)
	}
	return list, errors.Join(problems...)
}

var caseKeys = []string{"name", "command", "tool", "input", "output", "event", "eventFile", "kind", "cwd", "user", "group", "expect", "rule"}

var wants = []string{"ALLOW", "DENY", "REVIEW", "mask", "withhold"}

func parseFixture(file string, node *yaml.Node) (f Fixture, err error) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, kind := node.Content[i].Value, node.Content[i+1].Kind
		switch mapping := key == "input" || key == "event"; {
		case !slices.Contains(caseKeys, key):
			return f, fmt.Errorf("unknown key %q; known are %s", key, strings.Join(caseKeys, ", "))
		case mapping && kind != yaml.MappingNode:
			return f, fmt.Errorf("%s has to be a mapping", key)
		case !mapping && kind != yaml.ScalarNode:
			return f, fmt.Errorf("%s has to be text", key)
		}
	}
	text, err := yaml.Marshal(node)
	if err != nil {
		return f, err
	}
	var c fixtureCase
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		return f, fmt.Errorf("case: %w", err)
	}
	f = Fixture{Name: c.Name, User: c.User, Group: c.Group, Want: c.Expect, Rule: c.Rule}
	if !slices.Contains(wants, c.Expect) {
		return f, fmt.Errorf("case %s: expect is %q; it is ALLOW, DENY, REVIEW, mask or withhold", c.Name, c.Expect)
	}
	switch {
	case c.EventFile != "":
		f.Event, err = os.ReadFile(filepath.Join(filepath.Dir(file), c.EventFile))
		return f, err
	case c.Event != nil:
		f.Event, err = json.Marshal(c.Event)
		return f, err
	}
	if c.Command != "" {
		c.Tool, c.Input = "Bash", map[string]any{"command": c.Command}
	}
	if c.Tool == "" {
		return f, fmt.Errorf("case %s: it needs command, tool with input, event or eventFile", c.Name)
	}
	payload := map[string]any{"tool_name": c.Tool, "tool_input": c.Input, "session_id": "test", "cwd": "/home/user/repo"}
	if c.Cwd != "" {
		payload["cwd"] = c.Cwd
	}
	payload["hook_event_name"] = "PreToolUse"
	if c.Output != nil {
		payload["hook_event_name"] = "PostToolUse"
		payload["tool_result"] = map[string]any{"result_type": "success", "text_result_for_llm": *c.Output}
	}
	if c.Kind != "" {
		payload["hook_event_name"] = c.Kind
	}
	f.Event, err = json.Marshal(payload)
	return f, err
}

// Result is what became of a case.
type Result struct {
	Name   string `json:"name"`
	Where  string `json:"where,omitempty"`
	Pass   bool   `json:"pass"`
	Want   string `json:"want,omitempty"`
	Got    string `json:"got"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"` // why it failed
	// Unjudged says why the event isn't judged, and so let through, by any policy.
	Unjudged string `json:"unjudged,omitempty"`
}

// Test judges each case by the policy, as in mode enforce, with all the time it
// needs.
func (a *Authored) Test(cases []Fixture) ([]Result, error) {
	p := a.Policy
	p.Mode, p.Remote = "enforce", nil
	compiled, err := compile(&p, builtinProtection())
	if err != nil {
		return nil, a.locate(err)
	}
	var results []Result
	for _, f := range cases {
		results = append(results, testCase(compiled, f))
	}
	return results, nil
}

const (
	testBudget = 10 * time.Second
	testHost   = "test" // host in conditions
)

func testCase(c *Compiled, f Fixture) Result {
	r := Result{Name: f.Name, Where: f.Where, Want: f.Want}
	ev, err := EventFromPayload(f.Event, "")
	if err != nil {
		r.Got, r.Reason = "error", err.Error()
		return r
	}
	ev.User = f.User
	r.Unjudged = ev.Unjudged()
	e := newEngine(Options{Host: testHost})
	e.current.Store(&state{Compiled: c, group: f.Group, clock: e.opt.Clock})
	answer := e.Evaluate(context.Background(), ev, testBudget)
	r.Got, r.Rule = answer.Decision, answer.Reason
	if answer.OutputAction != "" {
		r.Got = answer.OutputAction
	}
	r.Pass = r.Got == f.Want && (f.Rule == "" || f.Rule == answer.Reason)
	if !r.Pass {
		r.Reason = fmt.Sprintf("want %s", f.Want)
		if f.Rule != "" {
			r.Reason += " by " + f.Rule
		}
		r.Reason += ", got " + r.Got
		if answer.Reason != "" {
			r.Reason += " by " + answer.Reason
		}
		if r.Unjudged != "" {
			r.Reason += ", for " + r.Unjudged
		}
	}
	return r
}
