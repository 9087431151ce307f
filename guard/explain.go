package guard

import (
	"context"
	"time"
)

// Match is a rule that matches an event, whether or not a more severe one
// decides.
type Match struct {
	Rule
	Builtin bool // of the protection that is part of every policy
	Decides bool
}

// Explain judges one event by the policy, as Test does, and lists every rule
// that matches it, the most severe first.
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
	for _, r := range s.rulesFor(ev) {
		if !r.tools.has(act.tool, ev.HostTool) || r.tooLarge(ev) {
			continue
		}
		if _, matches := act.matches(r); matches {
			list = append(list, Match{Rule: r.Rule, Builtin: r.builtin, Decides: len(list) == 0})
		}
	}
	return result, list, nil
}
