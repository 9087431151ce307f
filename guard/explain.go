package guard

import (
	"context"
	"time"
)

// Match is a rule that matches an event, whether or not a more severe one
// decides, or one whose condition failed on it.
type Match struct {
	Rule
	Builtin bool // of the protection that is part of every policy
	Decides bool
	Failed  string // why the condition could not be evaluated; such a rule doesn't match
}

// Explain judges one event by the policy, as Test does, and lists every rule
// that matches it or fails on it, the most severe first.
func (a *Authored) Explain(f Fixture) (Result, []Match, error) {
	p := a.Policy
	p.Mode, p.Remote = "enforce", nil
	compiled, err := compile(&p, builtinProtection())
	if err != nil {
		return Result{}, nil, a.locate(err)
	}
	result := testCase(compiled, f)
	ev, err := EventFromPayload(f.Event, "")
	if err != nil || !ev.guarded {
		return result, nil, nil // the result says so
	}
	ev.User, ev.Host = f.User, testHost
	ctx, cancel := context.WithTimeout(context.Background(), testBudget)
	defer cancel()
	s := &state{Compiled: compiled, group: f.Group, clock: time.Now}
	act := newActivation(ctx, s, ev)
	var list []Match
	matched := false
	for _, r := range s.rulesFor(ev) {
		if !r.tools.has(act.tool, ev.HostTool) {
			continue
		}
		if r.tooLarge(ev) {
			list = append(list, Match{Rule: r.Rule, Builtin: r.builtin, Failed: "the event is over 64 KiB, which a rule without a literal or slow: true doesn't judge"})
			continue
		}
		switch _, matches, err := act.matches(r); {
		case matches:
			list = append(list, Match{Rule: r.Rule, Builtin: r.builtin, Decides: !matched})
			matched = true
		case err != nil:
			list = append(list, Match{Rule: r.Rule, Builtin: r.builtin, Failed: err.Error()})
		}
	}
	return result, list, nil
}
