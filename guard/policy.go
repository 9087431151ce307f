package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// Bounds of a policy. MaxPolicyBytes holds for its JSON and for each YAML file.
const (
	MaxPolicyBytes = 8 << 20
	MaxRules       = 5000
	maxDepth       = 64
	maxTimeoutMs   = 8000 // what the hook counts up to (hook.md I7)
)

// Policy is the guard object of the signed config (manager.md 3).
type Policy struct {
	Mode      string  `json:"mode"`      // off, monitor, enforce
	TimeoutMs int     `json:"timeoutMs"` // the hook's budget in ms
	OnOverrun string  `json:"onOverrun"` // allow, deny
	Rules     []Rule  `json:"rules"`
	Remote    *Remote `json:"remote,omitempty"`
}

// Rule is one rule of manager.md 3.1.
type Rule struct {
	ID      string   `json:"id"`
	On      string   `json:"on"` // tool_input, tool_output
	Tools   []string `json:"tools,omitempty"`
	When    string   `json:"when,omitempty"`
	Detect  []string `json:"detect,omitempty"`
	Except  string   `json:"except,omitempty"`
	Until   string   `json:"until,omitempty"` // last day of the exception, UTC; or RFC 3339
	Action  string   `json:"action"`
	Message string   `json:"message,omitempty"`
	Tags    []string `json:"tags,omitempty"`
	Slow    bool     `json:"slow,omitempty"`
}

// Remote is the optional second tier.
type Remote struct {
	Endpoint  string `json:"endpoint"`
	TimeoutMs int    `json:"timeoutMs"`
	When      string `json:"when"` // review, always
}

// Actions in the order of their severity, the most severe first.
var actions = []string{"deny", "withhold", "mask", "review", "allow"}

// Telemetry is the telemetry object of the signed config; a policy may author it.
type Telemetry struct {
	Enabled  *bool             `json:"enabled,omitempty"`
	Endpoint string            `json:"endpoint,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
}

// DecodePolicy reads the JSON of a guard object strictly: every key known and
// written once, none of mode, timeoutMs, onOverrun and rules missing.
func DecodePolicy(raw []byte) (*Policy, error) {
	if len(raw) > MaxPolicyBytes {
		return nil, fmt.Errorf("the guard config has %d bytes, at most %d are taken", len(raw), MaxPolicyBytes)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("the guard config is empty")
	}
	if !rawjson.Depth(raw, maxDepth) {
		return nil, fmt.Errorf("the guard config is nested deeper than %d", maxDepth)
	}
	keys, err := strictKeys(raw, "mode", "timeoutMs", "onOverrun", "rules", "remote")
	if err != nil {
		return nil, fmt.Errorf("the guard config: %w", err)
	}
	for _, k := range []string{"mode", "timeoutMs", "onOverrun", "rules"} {
		if rawjson.Kind(keys[k]) == 0 || rawjson.Kind(keys[k]) == 'n' {
			return nil, fmt.Errorf("the guard config lacks %q", k)
		}
	}
	if r := keys["remote"]; rawjson.Kind(r) == '{' {
		if _, err := strictKeys(r, "endpoint", "timeoutMs", "when"); err != nil {
			return nil, fmt.Errorf("the guard config's remote: %w", err)
		}
	}
	rules, err := rawjson.Elements(keys["rules"])
	if err != nil {
		return nil, errors.New("the guard config's rules are no array")
	}
	if len(rules) > MaxRules {
		return nil, fmt.Errorf("the guard config has %d rules, at most %d are taken", len(rules), MaxRules)
	}
	for i, r := range rules {
		if _, err := strictKeys(r, ruleKeys...); err != nil {
			return nil, fmt.Errorf("the guard config's rule %d: %w", i+1, err)
		}
	}
	p := &Policy{}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("read the guard config: %w", err)
	}
	return p, p.check()
}

var ruleKeys = []string{"id", "on", "tools", "when", "detect", "except", "until", "action", "message", "tags", "slow"}

func strictKeys(obj []byte, known ...string) (map[string][]byte, error) {
	if rawjson.Kind(obj) != '{' {
		return nil, errors.New("is no JSON object")
	}
	if end, err := rawjson.Value(obj, 0); err != nil || len(bytes.TrimSpace(obj[end:])) > 0 {
		return nil, errors.New("is no complete JSON value alone")
	}
	members, err := rawjson.Members(obj)
	if err != nil {
		return nil, errors.New("is no valid JSON")
	}
	keys := map[string][]byte{}
	for _, m := range members {
		if !slices.Contains(known, m.Key) {
			return nil, fmt.Errorf("unknown key %q", m.Key)
		}
		if _, twice := keys[m.Key]; twice {
			return nil, fmt.Errorf("key %q is written twice", m.Key)
		}
		keys[m.Key] = m.Value
	}
	return keys, nil
}

// check holds the values against the contract; what needs a compiler is in
// compile.go.
func (p *Policy) check() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !slices.Contains([]string{"off", "monitor", "enforce"}, p.Mode) {
		bad("mode is %q; it is off, monitor or enforce", p.Mode)
	}
	if p.TimeoutMs <= 0 || p.TimeoutMs > maxTimeoutMs {
		bad("timeoutMs is %d; it lies in 1 to %d", p.TimeoutMs, maxTimeoutMs)
	}
	if p.OnOverrun != "allow" && p.OnOverrun != "deny" {
		bad("onOverrun is %q; it is allow or deny", p.OnOverrun)
	}
	if r := p.Remote; r != nil {
		if u, err := url.Parse(r.Endpoint); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			bad("remote.endpoint has to be an https URL without credentials")
		}
		if r.When != "review" && r.When != "always" {
			bad("remote.when is %q; it is review or always", r.When)
		}
		if r.TimeoutMs <= 0 || 10*r.TimeoutMs > 8*p.TimeoutMs {
			bad("remote.timeoutMs is %d; it lies in 1 to 0.8 × timeoutMs (%d), or the hook gives up first", r.TimeoutMs, p.TimeoutMs*8/10)
		}
	}
	seen := map[string]bool{}
	for i := range p.Rules {
		if err := p.Rules[i].check(); err != nil {
			problems = append(problems, err)
		}
		if id := p.Rules[i].ID; seen[id] && id != "" {
			bad("rule id %q is used twice", id)
		} else {
			seen[id] = true
		}
	}
	return errors.Join(problems...)
}

const maxText = 4096 // characters of a message, bytes of an id are fewer

func (r *Rule) check() error {
	name := r.ID
	switch {
	case !validID(r.ID):
		return fmt.Errorf("rule id %q: 1 to 128 letters, digits, '_', '-' or '.'", cut(r.ID, 60))
	case r.On != "tool_input" && r.On != "tool_output":
		return fmt.Errorf("rule %s: on is %q; it is tool_input or tool_output", name, r.On)
	case !slices.Contains(actions, r.Action):
		return fmt.Errorf("rule %s: action is %q; it is allow, review, deny, mask or withhold", name, r.Action)
	case (r.Action == "mask" || r.Action == "withhold") && r.On != "tool_output":
		return fmt.Errorf("rule %s: %s is for tool_output only", name, r.Action)
	case r.Action == "mask" && len(r.Detect) == 0:
		return fmt.Errorf("rule %s: mask needs detect, or there is nothing to mask", name)
	case len([]rune(r.Message)) > maxText:
		return fmt.Errorf("rule %s: message is longer than %d characters", name, maxText)
	case r.Until != "" && r.Except == "":
		return fmt.Errorf("rule %s: until is the end of an exception, and there is no except", name)
	case len(r.When) > maxExpression || len(r.Except) > maxExpression:
		return fmt.Errorf("rule %s: an expression is longer than %d bytes", name, maxExpression)
	case len(r.Tools) > 200 || len(r.Tags) > 50 || len(r.Detect) > 300:
		return fmt.Errorf("rule %s: too many tools, tags or detectors", name)
	}
	if r.Until != "" {
		if _, err := untilTime(r.Until); err != nil {
			return fmt.Errorf("rule %s: until is %q; write a date such as 2027-01-31", name, cut(r.Until, 40))
		}
	}
	for _, t := range r.Tools {
		if strings.TrimSpace(t) != t || t == "" || len(t) > 256 {
			return fmt.Errorf("rule %s: tool %q is no tool name", name, cut(t, 60))
		}
	}
	return nil
}

func validID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := 0; i < len(id); i++ {
		c := id[i]
		if c|0x20 < 'a' || c|0x20 > 'z' {
			if (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
				return false
			}
		}
	}
	return true
}

// untilTime is the first moment at which an exception no longer holds: a date
// counts to its end, in UTC.
func untilTime(s string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.AddDate(0, 0, 1), nil
	}
	return time.Parse(time.RFC3339, s)
}

func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
