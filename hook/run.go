package hook

import (
	"errors"
	"os"
	"runtime"
	"strconv"
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
	start   time.Time
	env     *config.Env
	surface event.Surface
	stdin   *event.Input
	disk    patience
}

// Run does one run and ends the process with 0.
func Run(p *Process) {
	f := &fate{p: p}
	defer f.end()
	f.watch(watchdog)
	r := &run{fate: f, start: p.Now(), env: config.New(p.Lookup), disk: patience{p.Now, diskTime}}
	r.stdin = event.NewInput(p.Stdin, p.Now)
	r.all()
	r.stdin.Drain()
}

// all is the order of work.
func (r *run) all() {
	r.readEnvFile()
	r.surface = event.SurfaceOf(r.env.Get)
	e, err := r.readEvent()
	if err != nil {
		r.p.failed("no event", err)
		return
	}
	if r.yields(e) {
		return
	}
	guard, collector := r.env.Guard(), r.env.Collector()
	if guard == "" && collector == "" {
		return
	}

	s := r.describe(e)
	var v *verdict.Verdict // nil: nobody was asked
	var rtt time.Duration
	masker := redact.NewMasker(nil)
	if guard != "" && e.Guarded() {
		v, rtt = r.ask(guard, s)
		masker = redact.NewMasker(v.Redactions)
		if v.Decision == verdict.Deny {
			r.deny(e, v, masker)
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
	data, _ := within(&r.disk, func() []byte {
		data, _ := r.p.ReadFile(path, config.MaxEnvFile)
		return data
	})
	r.env.Fill(data)
}

func (r *run) readEvent() (*event.Event, error) {
	raw, err := r.stdin.Object()
	if err != nil {
		return nil, err
	}
	return event.Parse(raw, r.env.Get(config.Event))
}

// describe makes the event's span. Trace store and transcript may fail, hang
// or lie: the span then has a trace of its own and no model.
func (r *run) describe(e *event.Event) *span.Span {
	data, session := r.env.Data(), e.Session()
	newTurn := e.Kind == event.UserPromptSubmit
	t, ok := within(&r.disk, func() (t turn) {
		t.id, t.err = trace.ID(data, session, newTurn, r.p.Now())
		return t
	})
	if !ok {
		t.err = errSlow
		t.id, _ = trace.ID("", session, newTurn, r.p.Now()) // touches no disk
	}
	if t.err != nil {
		r.p.failed("trace id not stored", t.err)
	}
	m, _ := within(&r.disk, func() model.Model {
		return model.Lookup(e, r.surface, r.env.CopilotHome(), r.p.Now())
	})
	s := span.New(e, r.surface, span.Model(m), r.p.Now())
	s.Trace = t.id
	s.Resource = r.host(e).Resource()
	return s
}

// turn is what the trace store says.
type turn struct {
	id  [16]byte
	err error
}

var errSlow = errors.New("the disk took too long")

func (r *run) host(e *event.Event) span.Host {
	h := span.Host{
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
	return h
}

// ask puts the guard question. A socket or pipe leads to the agent on this
// machine, which keeps nothing: it sees the event as it is.
func (r *run) ask(endpoint string, s *span.Span) (*verdict.Verdict, time.Duration) {
	judged := s
	if !post.Local(endpoint) {
		judged = s.Judged()
	}
	sent := r.p.Now()
	v, err := verdict.Ask(verdict.Question{
		Endpoint: endpoint,
		Token:    r.env.Token(),
		Body:     judged.Question,
		Budget:   r.env.GuardBudget,
		Latest:   r.start.Add(lastCall),
		Env:      r.env.Get,
		Now:      r.p.Now,
	})
	if err != nil {
		r.p.failed("guard", err)
	}
	return v, r.p.Now().Sub(sent)
}

// deny prints the denial. The plainest form is owed from the first moment, the
// fuller ones replace it as they come about.
func (r *run) deny(e *event.Event, v *verdict.Verdict, m *redact.Masker) {
	form := verdict.FormOf(e, r.surface)
	r.owe(verdict.Plain(form))
	d := verdict.Word(form, v, m.Text)
	r.owe(d.Withhold())
	if v.Mask && d.Masks() {
		if output, ok := e.Output(); ok {
			if masked, ok := m.Output(output); ok {
				r.owe(d.Mask(masked))
			}
		}
	}
	r.settle()
}

// finish makes the span fit to leave: detected values and secrets replaced,
// the verdict on it, cut to size.
func (r *run) finish(e *event.Event, s *span.Span, v *verdict.Verdict, rtt time.Duration, m *redact.Masker) []byte {
	s.Redact(m)
	if v != nil {
		s.Attrs = append(s.Attrs, guardAttrs(v, rtt, e.Kind, m)...)
	}
	s.Fit()
	return s.Append(nil)
}
