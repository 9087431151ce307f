package hook

import (
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/config"
	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/model"
	"github.com/pinta-ai/pinta-agent/hook/post"
	"github.com/pinta-ai/pinta-agent/hook/redact"
	"github.com/pinta-ai/pinta-agent/hook/span"
	"github.com/pinta-ai/pinta-agent/hook/trace"
	"github.com/pinta-ai/pinta-agent/hook/verdict"
	"github.com/pinta-ai/pinta-agent/internal/version"
)

const (
	// watchdog ends the run, whatever hangs (hook.md 1, I7).
	watchdog = 12 * time.Second
	// lastCall is when guard and collector stop being waited for, so that a
	// slow stdin leaves time to queue the span.
	lastCall = 11 * time.Second
	// diskTime is what all disk access before the guard shares.
	diskTime = 200 * time.Millisecond
)

// run is one run on its way through this file.
type run struct {
	*fate
	start   time.Time // by the clock that never jumps, as all bounds are
	env     *config.Env
	surface event.Surface
	stdin   *event.Input
	raw     []byte // the event, once it has been read

	disk   *disk       // nil: there is none, see fate.go
	stays  bool        // the machine's entry has been looked for in vain
	judged atomic.Bool // the guard has been asked: nothing is done again
}

// Run does one run and ends the process with 0.
func Run(p *Process) {
	r := &run{fate: &fate{p: p}, start: time.Now(), env: config.New(p.Lookup), stdin: event.NewInput(p.Stdin, time.Now), disk: new(disk)}
	defer r.end()
	r.watch()
	r.all()
	r.stdin.Drain()
}

// all is the order of work.
func (r *run) all() {
	// What a run that yields needs to know its process and the event say: it
	// never comes to the env file.
	early := r.mayYield()
	if !early {
		r.readEnvFile()
	}
	e, err := r.readEvent()
	if err != nil {
		r.p.failed("no event", err)
		return
	}
	if early {
		if r.yields(e) {
			return
		}
		r.readEnvFile()
	}
	r.surface = event.SurfaceOf(r.env.Get)
	guard, collector := r.env.Guard(), r.env.Collector()
	if guard == "" && collector == "" {
		return
	}

	s := r.describe(e)
	r.judged.Store(true)
	var v *verdict.Verdict // nil: nobody was asked
	var rtt time.Duration
	masker := redact.NewMasker(nil)
	if guard != "" && e.Guarded() {
		v, rtt, err = r.ask(guard, s)
		if v.Decision == verdict.Deny {
			r.owe(verdict.Plain(verdict.FormOf(e, r.surface)))
		}
		masker = redact.NewMasker(v.Redactions)
		if v.Decision == verdict.Deny {
			r.deny(e, v, masker)
		}
		if err != nil {
			r.p.failed("guard", err)
		}
	}
	if collector == "" {
		return
	}

	payload := r.finish(e, s, v, rtt, masker)
	if v != nil && v.Decision == verdict.Deny {
		r.keep(payload) // after a denial there is no collector IO
		return
	}
	r.deliver(collector, payload)
}

func (r *run) readEnvFile() {
	path := r.env.File()
	if path == "" {
		return
	}
	var data []byte
	if r.fromDisk(maxTicks, func() { data, _ = r.p.ReadFile(path, config.MaxEnvFile) }) {
		r.env.Fill(data)
	}
}

func (r *run) readEvent() (*event.Event, error) {
	if r.raw == nil {
		raw, err := r.stdin.Object()
		if err != nil {
			return nil, err
		}
		r.raw = raw
	}
	return event.Parse(r.raw, r.env.Get(config.Event))
}

// describe makes the event's span. Trace store and transcript may fail, hang
// or lie: the span then has a trace of its own and no model.
func (r *run) describe(e *event.Event) *span.Span {
	now, session, newTurn := r.p.Now(), e.Session(), e.Kind == event.UserPromptSubmit
	var id [16]byte
	var m model.Model
	var err error
	if !r.fromDisk(maxTicks, func() { id, err = trace.ID(r.env.Data(), session, newTurn, now) }) {
		id, _ = trace.ID("", session, newTurn, now) // touches no disk
	} else if err != nil {
		r.p.failed("trace id not stored", err)
	}
	r.fromDisk(maxTicks, func() { m = model.Lookup(e, r.surface, r.env.CopilotHome(), now) })
	s := span.New(e, r.surface, span.Model(m), now)
	s.Trace = id
	r.sayHost(s, e)
	return s
}

// sayHost describes host and process; nothing in it can fail.
func (r *run) sayHost(s *span.Span, e *event.Event) {
	h := &span.Host{
		Version: span.HostVersion(e, r.env.Get),
		PID:     os.Getpid(),
		Arch:    runtime.GOARCH,
		Source:  r.env.Get(config.Source),
		SDK:     version.Version,
	}
	h.Name, _ = os.Hostname()
	for _, key := range [...]string{"USER", "LOGNAME", "USERNAME"} {
		if h.Owner == "" {
			h.Owner = r.env.Process(key)
		}
	}
	if h.Owner == "" {
		h.Owner = strconv.Itoa(os.Getuid())
	}
	h.Describe(s)
}

// ask puts the guard question. A socket or pipe leads to the agent on this
// machine, which keeps nothing: it sees the event as it is.
// The verdict is never nil; err says why the call passes unjudged.
func (r *run) ask(endpoint string, s *span.Span) (v *verdict.Verdict, rtt time.Duration, err error) {
	sent := time.Now()
	asked := attempt(func() {
		judged := s
		if !post.Local(endpoint) {
			judged = s.Judged()
		}
		sent = time.Now()
		v, err = verdict.Ask(r.question(endpoint, judged))
	})
	if !asked {
		v, err = verdict.Unjudged()
	}
	return v, time.Since(sent), err
}

func (r *run) question(endpoint string, judged *span.Span) verdict.Question {
	return verdict.Question{
		Endpoint: endpoint,
		Token:    r.env.Token(),
		Body:     judged.Question,
		Budget:   r.env.GuardBudget,
		Latest:   r.start.Add(lastCall),
		Env:      r.env.Get,
	}
}

// deny prints the denial. The plainest form has been owed from the first
// moment, the fuller ones replace it as they come about.
func (r *run) deny(e *event.Event, v *verdict.Verdict, m *redact.Masker) {
	attempt(func() {
		d := verdict.Word(verdict.FormOf(e, r.surface), v, m.Text)
		r.owe(d.Withhold())
		if !v.Mask || !d.Masks() {
			return
		}
		if output, ok := e.Output(); ok {
			if masked, ok := m.Output(output); ok {
				r.owe(d.Mask(masked))
			}
		}
	})
	r.settle()
}

// finish makes the span fit to leave: detected values and secrets replaced,
// the verdict on it, cut to size.
func (r *run) finish(e *event.Event, s *span.Span, v *verdict.Verdict, rtt time.Duration, m *redact.Masker) []byte {
	s.Redact(m)
	if v != nil {
		sayVerdict(s, v, rtt, e.Kind, m)
	}
	s.Fit()
	return s.Append(nil)
}
