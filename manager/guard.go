package manager

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinta-ai/pinta-agent/guard"
	"github.com/pinta-ai/pinta-agent/internal/api"
)

// Guard is Policies by package guard.
type Guard struct{}

// builtin names the embedded rules in a list of files, as on the command line.
const builtin = "builtin"

// parse hands the files to the guard's parser. A fixture that names a file is refused: the server opens none for a caller.
func (Guard) parse(files []api.PolicyFile) (*guard.Authored, error) {
	var list []guard.File
	for _, f := range files {
		if part, ok := strings.CutPrefix(f.Name, builtin); ok && f.Content == "" && (part == "" || part[0] == ':') {
			rules, err := guard.BuiltinFiles(strings.TrimPrefix(part, ":"))
			if err != nil {
				return nil, findings(err.Error())
			}
			list = append(list, rules...)
			continue
		}
		if isFixture(f.Name) {
			if err := namesNoFile(f); err != nil {
				return nil, err
			}
		}
		list = append(list, guard.File{Name: f.Name, Data: []byte(f.Content)})
	}
	a, err := guard.ParseFiles(list...)
	if err != nil {
		return nil, findings(err.Error())
	}
	return a, nil
}

// namesNoFile looks for eventFile as the parser would read it, however the key is spelled in YAML.
func namesNoFile(f api.PolicyFile) error {
	var doc struct {
		Cases []map[string]any `yaml:"cases"`
	}
	if err := yaml.Unmarshal([]byte(f.Content), &doc); err != nil {
		return &PolicyError{[]api.PolicyFinding{{File: f.Name, Message: "the cases can't be read: " + err.Error()}}}
	}
	for _, c := range doc.Cases {
		if _, ok := c["eventFile"]; ok {
			return &PolicyError{[]api.PolicyFinding{{File: f.Name, Message: "eventFile is for `policy test` on the author's machine: put the event into the file"}}}
		}
	}
	return nil
}

func isFixture(name string) bool {
	return strings.HasSuffix(name, ".test.yaml") || strings.HasSuffix(name, ".test.yml")
}

var located = regexp.MustCompile(`^(.+?):(\d+): (.+)$`)

// findings makes an error of the parser ours.
func findings(text string) *PolicyError { return &PolicyError{Findings(text)} }

// Findings takes an error of the guard's parser apart: a line for each, most of them FILE:LINE: MESSAGE.
func Findings(text string) (list []api.PolicyFinding) {
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := api.PolicyFinding{Message: line}
		if m := located.FindStringSubmatch(line); m != nil {
			f.File, f.Message = m[1], m[3]
			f.Line, _ = strconv.Atoi(m[2]) // digits
		}
		list = append(list, f)
	}
	return list
}

// Compile implements Policies.
func (g Guard) Compile(files []api.PolicyFile) (Compiled, error) {
	a, err := g.parse(files)
	if err != nil {
		return Compiled{}, err
	}
	c := Compiled{Rules: len(a.Rules), Mode: a.Mode}
	for _, w := range a.Warnings {
		c.Warnings = append(c.Warnings, Findings(w)...)
	}
	if c.Guard, err = a.GuardJSON(); err != nil {
		return c, err
	}
	if a.Telemetry != nil {
		c.Telemetry = &api.TelemetryConfig{Enabled: a.Telemetry.Enabled == nil || *a.Telemetry.Enabled, Endpoint: a.Telemetry.Endpoint, Headers: a.Telemetry.Headers}
		set(&c.Telemetry.Endpoint, "manager")
	}
	return c, nil
}

// Test implements Policies.
func (g Guard) Test(files, events []api.PolicyFile) (api.PolicyTestResult, error) {
	a, err := g.parse(files)
	if err != nil {
		return api.PolicyTestResult{}, err
	}
	return TestPolicy(a, events)
}

// TestPolicy runs the fixtures of a policy and judges events.
func TestPolicy(a *guard.Authored, events []api.PolicyFile) (api.PolicyTestResult, error) {
	out := api.PolicyTestResult{Ok: true, Rules: len(a.Rules), Fixtures: len(a.Fixtures), Events: []api.PolicyVerdict{}}
	results, err := a.Test(a.Fixtures)
	if err != nil {
		return out, findings(err.Error())
	}
	for _, r := range results {
		if r.Pass {
			continue
		}
		out.Ok = false
		out.Failures = append(out.Failures, failure(r))
	}
	var cases []guard.Fixture
	for _, e := range events {
		cases = append(cases, guard.Fixture{Name: e.Name, Event: json.RawMessage(e.Content)})
	}
	judged, err := a.Test(cases)
	if err != nil {
		return out, findings(err.Error())
	}
	for _, r := range judged {
		v := api.PolicyVerdict{Event: r.Name, Decision: r.Got, Rule: r.Rule, Message: r.Unjudged}
		if r.Got == "error" {
			out.Ok = false
			v.Message = r.Reason
		}
		if r.Got == "mask" || r.Got == "withhold" {
			v.Decision, v.OutputAction = "DENY", r.Got
		}
		out.Events = append(out.Events, v)
	}
	return out, nil
}

func failure(r guard.Result) api.PolicyFinding {
	f := api.PolicyFinding{Message: fmt.Sprintf("%s: %s", r.Name, r.Reason)}
	if i := strings.LastIndexByte(r.Where, ':'); i >= 0 { // a name may hold one: builtin:PART
		f.File = r.Where[:i]
		f.Line, _ = strconv.Atoi(r.Where[i+1:]) // 0: not known
	}
	return f
}

// CanonicalTool implements Policies.
func (Guard) CanonicalTool(host string) string { return guard.CanonicalTool(host) }
