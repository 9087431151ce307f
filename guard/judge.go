package guard

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/pinta-ai/pinta-agent/guard/detect"
	"github.com/pinta-ai/pinta-agent/hook/redact"
)

// freeLimit is the input in bytes up to which a rule without a literal is judged.
const freeLimit = 64 << 10

// outcome is what the rules say.
type outcome struct {
	rule    *rule            // the most severe that matches, nil for none
	found   []detect.Finding // what mask and withhold rules found, or the rule's detectors
	excerpt string
	tool    string
	failed  []string // ids of rules whose condition failed (see holds)
	overrun bool     // a rule more severe than the one that matches was not judged
	partial bool     // found lacks what rules would have added that were not judged
	fault   bool
}

// decides says that the rule that matches is the answer whatever was not judged.
func (o *outcome) decides(onOverrun string) bool {
	switch {
	case o.rule == nil:
		return false
	case !o.overrun, o.rule.Action == "deny", o.rule.Action == "withhold":
		return true
	}
	return onOverrun != "deny" && o.rule.Action != "allow"
}

// judge runs through the rules, the most severe first; the first that matches
// decides. All matching mask and withhold rules add to what is to be masked, so
// that no value one of them asks for stays.
func (s *state) judge(ctx context.Context, ev *Event) (out outcome) {
	rules := s.rulesFor(ev)
	a := newActivation(ctx, s, ev)
	out.tool = a.tool
	there := a.there(rules)
	for _, r := range rules {
		if out.rule != nil && (r.Action != "mask" && r.Action != "withhold") {
			break
		}
		if ctx.Err() != nil {
			out.overrun, out.partial = out.overrun || out.rule == nil, true
			break
		}
		if !r.tools.has(a.tool, ev.HostTool) || !r.need.met(there) {
			continue
		}
		if r.tooLarge(ev) {
			out.overrun = out.overrun || out.rule == nil
			continue
		}
		found, matches, err := a.matches(r)
		if err != nil && !absent(err) {
			out.failed = append(out.failed, r.ID)
		}
		if !matches {
			continue
		}
		if out.rule == nil {
			out.rule, out.overrun = r, out.overrun || ev.limited
			if r.Action != "mask" && r.Action != "withhold" && out.decides(s.OnOverrun) { // the former have to say what they found
				ev.decided.Store(r)
			}
			out.excerpt = a.excerpt(found)
		}
		out.found = append(out.found, found...)
		if r.Action != "mask" && r.Action != "withhold" {
			break
		}
	}
	if out.rule == nil && (ctx.Err() != nil || ev.limited) {
		out.overrun = true
	}
	return out
}

// rulesFor are the rules on an event's phase, the most severe first.
func (s *state) rulesFor(ev *Event) []*rule {
	if ev.Kind == "PostToolUse" {
		return s.output
	}
	return s.input
}

// tooLarge says that a rule without a literal doesn't judge an event of this
// size.
func (r *rule) tooLarge(ev *Event) bool { return r.free && !r.Slow && ev.size > freeLimit }

// activation gives a condition its variables; what costs time is computed when
// it is first asked for.
type activation struct {
	ctx   context.Context
	state *state
	ev    *Event
	tool  string
	vars  map[string]ref.Val

	scanned bool
	found   []detect.Finding
}

var (
	errNotBool = errors.New("a condition gave neither true nor false")
	adapter    = types.DefaultTypeAdapter
)

func newActivation(ctx context.Context, s *state, ev *Event) *activation {
	return &activation{ctx: ctx, state: s, ev: ev, tool: canonicalTool(ev.HostTool, s.mcp), vars: map[string]ref.Val{}}
}

// Parent is part of cel.Activation.
func (a *activation) Parent() cel.Activation { return nil }

// ResolveName is part of cel.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	if v, ok := a.vars[name]; ok {
		return v, true
	}
	v, ok := a.value(name)
	if ok {
		a.vars[name] = v
	}
	return v, ok
}

func (a *activation) value(name string) (ref.Val, bool) {
	ev := a.ev
	switch name {
	case "kind":
		return types.String(ev.Kind), true
	case "surface":
		return types.String(ev.Surface), true
	case "tool":
		return types.String(a.tool), true
	case "host_tool":
		return types.String(ev.HostTool), true
	case "input":
		return adapter.NativeToValue(ev.Input()), true
	case "text":
		return types.String(ev.Text), true
	case "output":
		return types.String(ev.Output), true
	case "cwd":
		return types.String(ev.Cwd), true
	case "user":
		return types.String(ev.User), true
	case "group":
		return types.String(a.state.group), true
	case "host":
		return types.String(ev.Host), true
	case "model":
		return types.String(ev.Model), true
	case "commands":
		list := ev.Commands(a.ctx)
		values := make([]ref.Val, len(list))
		for i, c := range list {
			values[i] = object{commandType, c}
		}
		return types.NewRefValList(adapter, values), true
	case "paths":
		ev.resolve(a.ctx, a.tool)
		return types.NewStringList(adapter, ev.paths), true
	case "writes":
		ev.resolve(a.ctx, a.tool)
		return types.NewStringList(adapter, ev.writes), true
	case "secrets":
		var values []ref.Val
		for _, f := range a.scan() {
			values = append(values, object{secretType, &Secret{f.Category, a.origin()}})
		}
		return types.NewRefValList(adapter, values), true
	}
	return nil, false
}

func (a *activation) origin() string {
	if a.ev.Kind == "PostToolUse" {
		return "output"
	}
	return "input"
}

// target is the text that detectors look at.
func (a *activation) target() string {
	if a.ev.Kind == "PostToolUse" {
		return a.ev.Output
	}
	return a.ev.Text
}

// there passes the automaton over all that the conditions of rules can read.
// Paths are worked out only if a rule on them could match by what they are made
// of: in a long script they are many.
func (a *activation) there(rules []*rule) []uint64 {
	words := a.state.words
	bits := make([]uint64, words.Len()/64+1)
	mark := func(id, _ int) bool { bits[id/64] |= 1 << (id % 64); return true }
	pass := func(list ...string) {
		for _, s := range list {
			if s != "" {
				words.Scan(s, mark)
			}
		}
	}
	ev := a.ev
	pass(ev.Text, ev.Output, ev.Kind, ev.Surface, a.tool, ev.HostTool, ev.Cwd, ev.User, a.state.group, ev.Host, ev.Model)
	pass(ev.keys...)
	for _, c := range ev.Commands(a.ctx) {
		pass(c.Name, c.Path)
		pass(c.Argv...)
		pass(c.Env...)
		pass(c.Reads...)
		pass(c.Writes...)
		pass(c.Via...)
	}
	if slices.ContainsFunc(rules, func(r *rule) bool { return r.paths && r.pathParts.met(bits) }) {
		ev.resolve(a.ctx, a.tool)
		pass(ev.paths...)
		pass(ev.writes...)
	}
	return bits
}

// matches says whether a rule matches, and what its detectors found; err is why
// its when could not be evaluated.
func (a *activation) matches(r *rule) (found []detect.Finding, ok bool, err error) {
	if r.resolves {
		a.ev.resolve(a.ctx, a.tool)
	}
	if r.when != nil {
		if holds, err := a.holds(r.when); err != nil || !holds {
			return nil, false, err
		}
	}
	if r.detectors != nil {
		for _, f := range a.scan() {
			if detect.Standard().Has(r.detectors, f.Detector, f.Category) {
				found = append(found, f)
			}
		}
		if len(found) == 0 {
			return nil, false, nil
		}
	}
	if r.except != nil && (r.until.IsZero() || a.state.now().Before(r.until)) {
		if excepted, err := a.holds(r.except); err == nil && excepted {
			return nil, false, nil
		}
	}
	return found, a.ctx.Err() == nil, nil
}

// absent says that a condition failed for a key or an element that this event
// lacks, as most events lack most keys, or because the time is over. Any other
// failure, a value of another type than the author expected, is worth a look.
func absent(err error) bool {
	text := err.Error() // cel-go has no types for them
	return strings.HasPrefix(text, "no such key") || strings.HasPrefix(text, "index out of bounds") || strings.Contains(text, "interrupted")
}

// holds evaluates a condition. A condition that fails on this event (a key that
// the input lacks, a wrong type) doesn't hold.
func (a *activation) holds(p cel.Program) (bool, error) {
	v, _, err := p.ContextEval(a.ctx, a)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, errNotBool
	}
	return bool(b), nil
}

// scan runs the detectors once for all rules.
func (a *activation) scan() []detect.Finding {
	if a.scanned {
		return a.found
	}
	a.scanned = true
	set := detect.Standard()
	text := a.target()
	a.found, _ = set.Find(a.ctx, text, set.All())
	if a.ev.Redacted {
		a.found = append(a.found, markers(text)...)
	}
	return a.found
}

// markers finds what redaction has already replaced: over TCP a marker stands
// for a secret of its kind. On the socket it is just text.
func markers(text string) (list []detect.Finding) {
	const open = "[REDACTED:"
	for at := 0; ; {
		i := strings.Index(text[at:], open)
		if i < 0 || len(list) >= detect.MaxFindings {
			return list
		}
		start := at + i
		end := strings.IndexByte(text[start:min(len(text), start+100)], ']')
		if end < 0 {
			at = start + len(open)
			continue
		}
		end += start + 1
		kind := text[start+len(open) : end-1]
		if kind != "" && strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz_0123456789") == "" {
			list = append(list, detect.Finding{Detector: kind, Category: kind, Secret: text[start:end], Start: start, End: end})
		}
		at = end
	}
}

const excerptBytes = 160

// credentials are a user and a password in an address, whatever they look like.
var credentials = regexp.MustCompile(`://[^/@\s"'\[]+@`)

// excerpt is what is kept of what matched: the surroundings of the first finding
// or the begin of the input, with every finding and every secret masked.
func (a *activation) excerpt(found []detect.Finding) string {
	text, at := a.ev.Text, 0
	if len(found) > 0 {
		text, at = a.target(), found[0].Start
	}
	// Findings of the whole text are masked, not those of this rule only.
	from, to := max(0, at-60), min(len(text), at+4*excerptBytes)
	var b strings.Builder
	last := from
	all := a.scanShort(text)
	if a.ctx.Err() != nil {
		return "" // not everything that is to be masked is known
	}
	for _, f := range all {
		if f.Start >= to {
			break
		}
		if f.End <= last {
			continue
		}
		if f.Start > last {
			b.WriteString(text[last:f.Start])
		}
		b.WriteString("[REDACTED:" + f.Category + "]")
		last = f.End
	}
	if last < to {
		b.WriteString(text[last:to])
	}
	masked := strings.ToValidUTF8(redact.Text(strings.ToValidUTF8(b.String(), "")), "")
	masked = credentials.ReplaceAllString(masked, "://[REDACTED:url_credentials]@")
	masked = strings.Join(strings.Fields(masked), " ")
	if len(masked) > excerptBytes {
		masked = strings.ToValidUTF8(masked[:excerptBytes], "") + "…"
	}
	return masked
}

// scanShort gives the findings for an excerpt: those of the scan, or of the
// begin of an input that no rule scanned.
func (a *activation) scanShort(text string) []detect.Finding {
	if a.scanned && text == a.target() {
		return a.found
	}
	set := detect.Standard()
	found, _ := set.Find(a.ctx, text[:min(len(text), 8<<10)], set.All())
	return found
}
