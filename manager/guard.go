package manager

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/pinta-ai/pinta-agent/guard"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// Guard is Policies by package guard.
type Guard struct{}

// builtin names the embedded rules in a list of files, as on the command line.
const builtin = "builtin"

// parse hands the files to the guard's parser in a folder of its own. A fixture that names a file is refused: the server
// opens none for a caller.
func (Guard) parse(files []api.PolicyFile) (*guard.Authored, error) {
	dir, err := os.MkdirTemp("", "pinta-policy-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var paths []string
	rename := []string{}
	for i, f := range files {
		if f.Name == builtin || strings.HasPrefix(f.Name, builtin+":") {
			paths = append(paths, f.Name)
			continue
		}
		if isFixture(f.Name) && strings.Contains(f.Content, "eventFile") {
			return nil, &PolicyError{[]api.PolicyFinding{{File: f.Name, Message: "eventFile is for `policy test` on the author's machine: put the event into the file"}}}
		}
		ext := ".yaml"
		if isFixture(f.Name) {
			ext = ".test.yaml"
		}
		path := filepath.Join(dir, strconv.Itoa(i)+ext)
		if err := safefile.WriteFile(path, []byte(f.Content), safefile.Private); err != nil {
			return nil, err
		}
		paths, rename = append(paths, path), append(rename, path, f.Name)
	}
	a, err := guard.ParsePolicy(paths...)
	if err != nil {
		return nil, findings(strings.NewReplacer(rename...).Replace(err.Error()))
	}
	for i, w := range a.Warnings {
		a.Warnings[i] = strings.NewReplacer(rename...).Replace(w)
	}
	for i := range a.Fixtures {
		a.Fixtures[i].Where = strings.NewReplacer(rename...).Replace(a.Fixtures[i].Where)
	}
	return a, nil
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
		v := api.PolicyVerdict{Event: r.Name, Decision: r.Got, Rule: r.Rule}
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
	if file, line, ok := strings.Cut(r.Where, ":"); ok {
		f.File = file
		f.Line, _ = strconv.Atoi(line) // 0: not known
	}
	return f
}

// CanonicalTool implements Policies.
func (Guard) CanonicalTool(host string) string { return guard.CanonicalTool(host) }
