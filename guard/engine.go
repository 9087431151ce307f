package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pinta-ai/pinta-agent/guard/detect"
	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

// Options of an engine. The zero value works.
type Options struct {
	Group string // the device's group, until a config names one
	Host  string // the machine's name, for host in conditions
	Log   *slog.Logger
	Clock func() time.Time
	// OnVerdict is called for each judged event after its answer is decided; it
	// must not block. Nothing in it holds content, but for a masked excerpt.
	OnVerdict func(Verdict)
	// Memory keeps the non-allow verdicts for why; nil keeps the last 1 000 in
	// this process.
	Memory *Memory
	// HTTP is for the remote tier; without it rules that say review are answered
	// by REVIEW.
	HTTP *http.Client
	// UserName names the caller for user in conditions; nil takes the name that
	// the peer carries, which Unix leaves empty.
	UserName func(serve.Peer) string
	// Unmanaged switches the built-in protection off until a config arrives.
	Unmanaged bool
}

// Engine answers by the config in force. Answers go on while a config loads.
type Engine struct {
	opt     Options
	current atomic.Pointer[state]
	loading sync.Mutex
	slots   chan struct{}
	room    *room
	twins   twins
	remote  breaker
}

// state is one config in force.
type state struct {
	*Compiled
	version int64
	group   string
	loaded  time.Time
	clock   func() time.Time
}

func (s *state) now() time.Time { return s.clock() }

// NewEngine makes an engine that has no config yet. Until one is loaded only
// the built-in protection of the guard's own files is in force (security.md
// S15): between installation and the first config nothing else could keep a
// tool from removing the hook. Later it stands beside every config's own rules,
// in the config's mode: monitor reports it, off (a signed decision) ends it.
func NewEngine(opt Options) *Engine {
	e := newEngine(opt)
	e.Unload()
	return e
}

// Unload ends the config in force: it is as before the first one.
func (e *Engine) Unload() {
	e.loading.Lock()
	defer e.loading.Unlock()
	mode := "enforce"
	if e.opt.Unmanaged {
		mode = "off"
	}
	c, err := compile(&Policy{Mode: mode, TimeoutMs: 400, OnOverrun: "allow"}, builtinProtection())
	if err != nil {
		panic("guard: the built-in protection does not compile: " + err.Error()) // it is embedded and tested
	}
	e.current.Store(&state{Compiled: c, group: e.opt.Group, clock: e.opt.Clock})
}

func newEngine(opt Options) *Engine {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	if opt.Memory == nil {
		opt.Memory = NewMemory("", 0)
	}
	return &Engine{opt: opt, slots: make(chan struct{}, 4*runtime.GOMAXPROCS(0)), room: newRoom()}
}

// Load puts the guard object of a verified config in force for a group: it is
// decoded strictly, compiled as a whole, tried, and swapped in at once. On any
// error what was in force stays in force. The built-in protection is part of
// every config; a rule of the config with the same id replaces it.
func (e *Engine) Load(raw json.RawMessage, version int64, group string) error {
	e.loading.Lock()
	defer e.loading.Unlock()
	p, err := DecodePolicy(raw)
	if err != nil {
		return err
	}
	c, err := compile(p, builtinProtection())
	if err != nil {
		return fmt.Errorf("the guard config of version %d: %w", version, err)
	}
	next := &state{Compiled: c, version: version, group: group, loaded: e.opt.Clock(), clock: e.opt.Clock}
	if err := next.try(); err != nil {
		return fmt.Errorf("the guard config of version %d: %w", version, err)
	}
	e.current.Store(next)
	e.remote.reset()
	e.opt.Log.Info("guard config in force", "version", version, "group", group, "mode", p.Mode, "rules", len(p.Rules))
	return nil
}

// try runs every condition once on an empty event, so that what only shows when
// it runs shows before it is in force.
func (s *state) try() error {
	for _, kind := range []string{"PreToolUse", "PostToolUse"} {
		ev := &Event{Kind: kind, HostTool: "bash", guarded: true}
		a := newActivation(context.Background(), s, ev)
		for _, r := range append(s.input[:len(s.input):len(s.input)], s.output...) {
			if r.when == nil {
				continue
			}
			if _, err := a.holds(r.when); errors.Is(err, errNotBool) {
				return &RuleError{r.ID, err}
			}
		}
	}
	return nil
}

// Status is what the engine has in force.
type Status struct {
	Version   int64  `json:"version"`
	Group     string `json:"group,omitempty"`
	Mode      string `json:"mode"`
	Rules     int    `json:"rules"`
	TimeoutMs int    `json:"timeoutMs"`
}

// Status reports the config in force; version 0 is none.
func (e *Engine) Status() Status {
	s := e.current.Load()
	return Status{s.version, s.group, s.Mode, len(s.Rules), s.TimeoutMs}
}

// Verdict is the record of one evaluation, without content.
type Verdict struct {
	Time          time.Time `json:"time"`
	EvaluationID  string    `json:"evaluationId,omitempty"`
	Decision      string    `json:"decision"`             // as answered
	Would         string    `json:"would,omitempty"`      // what enforce would have decided, in mode monitor
	Rule          string    `json:"rule,omitempty"`       // id
	Action        string    `json:"action,omitempty"`     // the rule's
	Message       string    `json:"message,omitempty"`    // the rule's
	Tags          []string  `json:"tags,omitempty"`       // the rule's
	Categories    []string  `json:"categories,omitempty"` // kinds of what detectors found
	Excerpt       string    `json:"excerpt,omitempty"`    // masked
	Kind          string    `json:"kind"`
	Tool          string    `json:"tool"`
	HostTool      string    `json:"hostTool"`
	User          string    `json:"user,omitempty"`
	Session       string    `json:"session,omitempty"`
	Source        string    `json:"source,omitempty"`
	ConfigVersion int64     `json:"configVersion"`
	DurationMs    float64   `json:"durationMs"`
	Overrun       bool      `json:"overrun,omitempty"`
	// Failed are the ids of rules that didn't match because their condition failed
	// on a value of another type than it expects.
	Failed []string `json:"failed,omitempty"`
	Fault  bool     `json:"fault,omitempty"`
	Remote bool     `json:"remote,omitempty"` // decided by the remote tier
	// Repeat says that the same call was already judged for the other
	// registration (hook.md 12): it counts once.
	Repeat bool `json:"repeat,omitempty"`
	bytes  int  // judged
}

// share is the part of a budget within which an answer is given, so that it
// arrives before the hook gives up.
const share = 0.8

// Evaluate judges an event within 80 % of budget (0: the config's timeoutMs).
// It never panics and never returns an error: what goes wrong is an answer.
func (e *Engine) Evaluate(ctx context.Context, ev *Event, budget time.Duration) Answer {
	a, v := e.evaluate(ctx, ev, budget, e.opt.Clock(), nil)
	e.record(v)
	return a
}

// evaluate counts the budget from start. span is the question as it came, for
// the remote tier. The verdict, nil for what is not judged, is to be recorded
// once the answer is on its way: a disk that stalls must not cost a denial.
func (e *Engine) evaluate(ctx context.Context, ev *Event, budget time.Duration, start time.Time, span []byte) (Answer, *Verdict) {
	st := e.current.Load()
	if budget <= 0 {
		budget = time.Duration(st.TimeoutMs) * time.Millisecond
	}
	if !ev.guarded || st.Mode == "off" {
		return Answer{Decision: "ALLOW"}, nil
	}
	ev.Host = e.opt.Host
	ev.decided.Store(nil)
	ctx, cancel := context.WithDeadline(ctx, start.Add(time.Duration(float64(budget)*share)))
	defer cancel()
	out := outcome{overrun: true}
	result := make(chan outcome, 1)
	select {
	case e.slots <- struct{}{}:
		go func() {
			defer func() {
				if p := recover(); p != nil {
					e.opt.Log.Error("guard evaluation failed", "fault", fmt.Sprint(p))
					result <- outcome{fault: true}
				}
				<-e.slots
			}()
			out := st.judge(ctx, ev)
			ev.release()
			result <- out
		}()
		select {
		case out = <-result:
		case <-ctx.Done():
			out = late(result, ev)
		}
	case <-ctx.Done(): // every slot is busy with costly input
	}
	return e.answer(ctx, st, ev, out, start, span)
}

// late is what is known at the deadline: a verdict whose excerpt isn't made yet
// stands without one.
func late(result <-chan outcome, ev *Event) outcome {
	select {
	case out := <-result: // both were ready
		return out
	default:
	}
	if r := ev.decided.Load(); r != nil {
		return outcome{rule: r}
	}
	return outcome{overrun: true}
}

// answer turns an outcome into the hook's answer and the verdict of record.
func (e *Engine) answer(ctx context.Context, st *state, ev *Event, out outcome, start time.Time, span []byte) (Answer, *Verdict) {
	a := Answer{Decision: "ALLOW"}
	v := Verdict{Time: start, Kind: ev.Kind, HostTool: ev.HostTool, User: ev.User, Session: ev.Session, Source: ev.Source,
		ConfigVersion: st.version, Overrun: out.overrun, Fault: out.fault, Tool: out.tool}
	if v.Tool == "" {
		v.Tool = canonicalTool(ev.HostTool, st.mcp)
	}
	r := out.rule
	if !out.decides(st.OnOverrun) {
		r = nil
	}
	v.Overrun, v.Failed = v.Overrun && (r == nil || r.Action != "deny" && r.Action != "withhold"), out.failed
	switch {
	case r != nil && r.Action != "allow":
		a.Reason, a.UserMessage = r.ID, r.Message
		a.Decision = "DENY"
		switch r.Action {
		case "review":
			a.Decision = "REVIEW"
		case "mask", "withhold":
			a.OutputAction, a.Redactions = r.Action, redactions(out.found)
			if len(out.found) >= detect.MaxFindings || out.partial { // there may be more that were not listed
				a.OutputAction = "withhold"
			}
		}
	case r != nil: // an allow rule says so in the record only
	case out.fault:
		a.FailOpenReason = "error"
	case out.overrun && st.OnOverrun == "deny":
		a.Decision, a.Reason, a.UserMessage = "DENY", "guard_overrun",
			"The guard could not judge this call in time, and the policy then denies it. Try a smaller step."
	case out.overrun:
		a.FailOpenReason = "timeout"
	}
	if r != nil {
		v.Rule, v.Action, v.Message, v.Tags, v.Excerpt = r.ID, r.Action, r.Message, r.Tags, out.excerpt
		for _, f := range out.found {
			v.Categories = appendOnce(v.Categories, f.Category)
		}
	} else if out.overrun {
		v.Rule, v.Action = "guard_overrun", st.OnOverrun
	}
	if st.Remote != nil && st.Mode == "enforce" && (a.Decision == "REVIEW" || st.Remote.When == "always" && a.Decision == "ALLOW" && a.FailOpenReason == "") {
		e.ask(ctx, st, span, &a, &v)
	}
	if a.Decision != "ALLOW" {
		a.EvaluationID = e.evaluationID(start)
		v.EvaluationID = a.EvaluationID
	}
	if st.Mode == "monitor" && a.Decision != "ALLOW" {
		v.Would = a.Decision
		a = Answer{Decision: "ALLOW"}
	}
	a.DurationMs = math.Round(float64(e.opt.Clock().Sub(start))/float64(time.Microsecond)) / 1000
	v.Decision, v.DurationMs = a.Decision, a.DurationMs
	v.Repeat, v.bytes = e.twins.seen(ev, start), ev.size
	return a, &v
}

// record keeps a verdict and tells of it.
func (e *Engine) record(v *Verdict) {
	if v == nil {
		return
	}
	if v.EvaluationID != "" && v.Rule != "" {
		e.opt.Memory.Add(*v)
	}
	if len(v.Failed) > 0 {
		e.opt.Log.Warn("conditions failed on an event: their rules didn't match", "tool", v.Tool, "rules", strings.Join(v.Failed[:min(len(v.Failed), 20)], " "))
	}
	if v.Overrun {
		e.opt.Log.Warn("guard overrun", "tool", v.Tool, "bytes", v.bytes, "answer", v.Decision)
	}
	if e.opt.OnVerdict != nil {
		e.opt.OnVerdict(*v)
	}
}

func (e *Engine) evaluationID(now time.Time) string {
	return ulid.MustNew(ulid.Timestamp(now), ulid.DefaultEntropy()).String()
}

// Why finds the record of an evaluation.
func (e *Engine) Why(id string) (Verdict, bool) { return e.opt.Memory.Find(id) }

func appendOnce(list []string, s string) []string {
	for _, x := range list {
		if x == s {
			return list
		}
	}
	return append(list, s)
}
