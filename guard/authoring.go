package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Authored is a policy as it was written, ready to be published.
type Authored struct {
	Policy
	Telemetry *Telemetry
	Fixtures  []Fixture // from the *.test.yaml files beside the rules
	Warnings  []string  // what is no error, but worth a look

	where map[string]string // rule id → file:line
}

// GuardJSON is the guard object for the signed config.
func (a *Authored) GuardJSON() (json.RawMessage, error) {
	p := a.Policy
	if p.Rules == nil {
		p.Rules = []Rule{}
	}
	return json.Marshal(p)
}

// TelemetryJSON is the telemetry object for the signed config, nil if the
// policy says nothing about it.
func (a *Authored) TelemetryJSON() (json.RawMessage, error) {
	if a.Telemetry == nil {
		return nil, nil
	}
	return json.Marshal(a.Telemetry)
}

// ParsePolicy reads YAML files, and the *.yaml and *.yml files of folders, into
// one policy; rules stand in the order of the paths, then of the file names.
// "builtin" names the embedded rule set and "builtin:NAME" a part of it. It is
// strict: an unknown or repeated key, a wrong type or value is an error with
// file and line. The policy is compiled as well (see Compile), so what comes
// back can be published.
func ParsePolicy(paths ...string) (*Authored, error) {
	files, err := policyFiles(paths)
	if err != nil {
		return nil, err
	}
	return ParseFiles(files...)
}

// File is a policy file, or one of cases if its name ends in .test.yaml.
type File struct {
	Name string
	Data []byte
}

// ParseFiles is ParsePolicy for files that were read already, in their order.
// Only a case's eventFile is read from disk.
func ParseFiles(files ...File) (*Authored, error) {
	a := &Authored{where: map[string]string{}}
	set := map[string]string{}
	var problems []error
	for _, f := range files {
		if strings.HasSuffix(f.Name, ".test.yaml") || strings.HasSuffix(f.Name, ".test.yml") {
			list, err := parseFixtures(f.Name, f.Data)
			if err != nil {
				problems = append(problems, err)
			}
			a.Fixtures = append(a.Fixtures, list...)
			continue
		}
		problems = append(problems, a.parse(f, set)...)
	}
	if a.Mode == "" {
		a.Mode = "enforce"
	}
	if a.OnOverrun == "" {
		a.OnOverrun = "allow"
	}
	if a.TimeoutMs == 0 {
		a.TimeoutMs = 400
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if len(a.Rules) > MaxRules {
		return nil, fmt.Errorf("the policy has %d rules, at most %d are taken", len(a.Rules), MaxRules)
	}
	c, err := Compile(&a.Policy)
	if err != nil {
		return nil, a.locate(err)
	}
	a.Warnings = append(a.Warnings, c.Warnings...)
	return a, nil
}

// locate puts file and line before the errors of rules.
func (a *Authored) locate(err error) error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for i, e := range list {
		var re *RuleError
		if errors.As(e, &re) && a.where[re.Rule] != "" {
			list[i] = fmt.Errorf("%s: %w", a.where[re.Rule], e)
		}
	}
	return errors.Join(list...)
}

func policyFiles(paths []string) (files []File, err error) {
	if len(paths) == 0 {
		return nil, errors.New("no policy given; name a YAML file or a folder of them")
	}
	for _, p := range paths {
		if part, ok := strings.CutPrefix(p, "builtin"); ok && (part == "" || part[0] == ':') {
			list, err := BuiltinFiles(strings.TrimPrefix(part, ":"))
			if err != nil {
				return nil, err
			}
			files = append(files, list...)
			continue
		}
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("read policy: %w", err)
		}
		names := []string{p}
		if info.IsDir() {
			names = nil
			entries, err := os.ReadDir(p)
			if err != nil {
				return nil, fmt.Errorf("read policy folder: %w", err)
			}
			for _, e := range entries {
				if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
					names = append(names, filepath.Join(p, e.Name()))
				}
			}
			sort.Strings(names)
			if len(names) == 0 {
				return nil, fmt.Errorf("policy folder %s holds no .yaml file", p)
			}
		}
		for _, n := range names {
			data, err := readBounded(n)
			if err != nil {
				return nil, err
			}
			files = append(files, File{n, data})
		}
	}
	return files, nil
}

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxPolicyBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read policy %s: %w", name, err)
	}
	if len(data) > MaxPolicyBytes {
		return nil, fmt.Errorf("policy %s is larger than %d bytes", name, MaxPolicyBytes)
	}
	return data, nil
}

// parse adds one file. set remembers where each top-level setting was made.
func (a *Authored) parse(f File, set map[string]string) (problems []error) {
	root, err := yamlRoot(f)
	if err != nil || root == nil {
		return []error{err}
	}
	at := func(n *yaml.Node, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s:%d: %s", f.Name, n.Line, fmt.Sprintf(format, args...)))
	}
	eachKey(root, at, func(key string, k, v *yaml.Node) {
		if first, twice := set[key]; twice && key != "rules" {
			at(k, "%s is already set at %s", key, first)
			return
		}
		set[key] = f.Name + ":" + strconv.Itoa(k.Line)
		switch key {
		case "mode":
			a.Mode = oneOf(v, at, key, "off", "monitor", "enforce")
		case "onOverrun":
			a.OnOverrun = oneOf(v, at, key, "allow", "deny")
		case "timeoutMs":
			if a.TimeoutMs = integer(v, at, key); a.TimeoutMs < 1 || a.TimeoutMs > maxTimeoutMs {
				at(v, "timeoutMs lies in 1 to %d", maxTimeoutMs)
			}
		case "remote":
			a.Remote = &Remote{When: "review"}
			mapping(v, at, key, func(key string, k, v *yaml.Node) {
				switch key {
				case "endpoint":
					a.Remote.Endpoint = text(v, at, key)
				case "timeoutMs":
					a.Remote.TimeoutMs = integer(v, at, key)
				case "when":
					a.Remote.When = oneOf(v, at, key, "review", "always")
				default:
					at(k, "unknown key %q in remote; known are endpoint, timeoutMs, when", key)
				}
			})
		case "telemetry":
			a.Telemetry = parseTelemetry(v, at)
		case "rules":
			if v.Kind != yaml.SequenceNode {
				if v.Tag != "!!null" {
					at(v, "rules has to be a list")
				}
				return
			}
			for _, n := range v.Content {
				r, ok := parseRule(n, at)
				if !ok {
					continue
				}
				if first := a.where[r.ID]; first != "" {
					at(n, "rule %s is already defined at %s", r.ID, first)
					continue
				}
				if err := r.check(); err != nil {
					at(n, "%v", err)
					continue
				}
				a.where[r.ID] = f.Name + ":" + strconv.Itoa(n.Line)
				a.Rules = append(a.Rules, r)
			}
		default:
			at(k, "unknown key %q; known are mode, timeoutMs, onOverrun, remote, telemetry, rules", key)
		}
	})
	return problems
}

type complain func(n *yaml.Node, format string, args ...any)

func yamlRoot(f File) (*yaml.Node, error) {
	if !bytes.Contains(f.Data, []byte(":")) && len(bytes.TrimSpace(f.Data)) > 0 {
		return nil, fmt.Errorf("%s:1: is no YAML mapping", f.Name)
	}
	d := yaml.NewDecoder(bytes.NewReader(f.Data))
	var doc yaml.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: the file is empty", f.Name)
		}
		return nil, fmt.Errorf("%s: %s", f.Name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var more yaml.Node
	if d.Decode(&more) != io.EOF {
		return nil, fmt.Errorf("%s: holds more than one YAML document", f.Name)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: has to be a mapping with rules", f.Name, root.Line)
	}
	if alias := findAlias(root); alias != nil {
		return nil, fmt.Errorf("%s:%d: anchors and aliases are not taken", f.Name, alias.Line)
	}
	return root, nil
}

func findAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return n
	}
	for _, c := range n.Content {
		if a := findAlias(c); a != nil {
			return a
		}
	}
	return nil
}

func eachKey(n *yaml.Node, at complain, do func(key string, k, v *yaml.Node)) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || seen[k.Value] {
			at(k, "key %q is written twice or is no plain key", k.Value)
			continue
		}
		seen[k.Value] = true
		do(k.Value, k, v)
	}
}

func mapping(n *yaml.Node, at complain, key string, do func(key string, k, v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		at(n, "%s has to be a mapping", key)
		return
	}
	eachKey(n, at, do)
}

func text(n *yaml.Node, at complain, key string) string {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		at(n, "%s has to be text", key)
		return ""
	}
	return n.Value
}

func oneOf(n *yaml.Node, at complain, key string, values ...string) string {
	s := text(n, at, key)
	if n.Kind == yaml.ScalarNode && !slices.Contains(values, s) {
		at(n, "%s is %q; it is %s", key, cut(s, 40), strings.Join(values, ", "))
	}
	return s
}

func integer(n *yaml.Node, at complain, key string) int {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil {
		at(n, "%s has to be a whole number", key)
	}
	return v
}

func boolean(n *yaml.Node, at complain, key string) bool {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		at(n, "%s has to be true or false", key)
	}
	return strings.EqualFold(n.Value, "true") // YAML has True and TRUE too
}

func list(n *yaml.Node, at complain, key string) (out []string) {
	if n.Kind != yaml.SequenceNode {
		at(n, "%s has to be a list", key)
		return nil
	}
	for _, c := range n.Content {
		out = append(out, text(c, at, key))
	}
	return out
}

func parseRule(n *yaml.Node, at complain) (r Rule, ok bool) {
	if n.Kind != yaml.MappingNode {
		at(n, "a rule has to be a mapping")
		return r, false
	}
	ok = true
	complaint := func(n *yaml.Node, format string, args ...any) {
		ok = false
		at(n, format, args...)
	}
	eachKey(n, complaint, func(key string, k, v *yaml.Node) {
		switch key {
		case "id":
			r.ID = text(v, complaint, key)
		case "on":
			r.On = oneOf(v, complaint, key, "tool_input", "tool_output")
		case "tools":
			r.Tools = list(v, complaint, key)
		case "when":
			r.When = text(v, complaint, key)
		case "detect":
			r.Detect = list(v, complaint, key)
		case "except":
			r.Except = text(v, complaint, key)
		case "until":
			r.Until = text(v, complaint, key)
		case "action":
			r.Action = oneOf(v, complaint, key, actions...)
		case "message":
			r.Message = text(v, complaint, key)
		case "tags":
			r.Tags = list(v, complaint, key)
		case "slow":
			r.Slow = boolean(v, complaint, key)
		default:
			complaint(k, "unknown key %q in a rule; known are %s", key, strings.Join(ruleKeys, ", "))
		}
	})
	return r, ok
}

func parseTelemetry(n *yaml.Node, at complain) *Telemetry {
	t := &Telemetry{}
	mapping(n, at, "telemetry", func(key string, k, v *yaml.Node) {
		switch key {
		case "enabled":
			on := boolean(v, at, key)
			t.Enabled = &on
		case "endpoint":
			if t.Endpoint = text(v, at, key); t.Endpoint != "manager" && !strings.HasPrefix(t.Endpoint, "https://") && !strings.HasPrefix(t.Endpoint, "http://") {
				at(v, "telemetry endpoint is \"manager\" or a URL")
			}
		case "headers":
			t.Headers = map[string]string{}
			mapping(v, at, key, func(key string, _, v *yaml.Node) { t.Headers[key] = text(v, at, key) })
		default:
			at(k, "unknown key %q in telemetry; known are enabled, endpoint, headers", key)
		}
	})
	return t
}
