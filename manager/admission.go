package manager

import (
	"context"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

// gate lets so many requests work at once and so many wait; the rest is answered 429 before anything is done for it
// (security.md S11).
type gate struct {
	slots    chan struct{}
	waiting  atomic.Int64
	patience time.Duration // of one waiting request
	room     int64         // for waiting requests
}

func newGate(slots, room int, patience time.Duration) *gate {
	return &gate{slots: make(chan struct{}, slots), room: int64(room), patience: patience}
}

// gates are one for each kind of work, so that no kind starves another.
type gates struct {
	enrol, device, traces, admin *gate
}

func newGates() gates {
	n := runtime.GOMAXPROCS(0)
	return gates{
		enrol:  newGate(128*n, 1024*n, 3*time.Second), // most of an enrolment is waiting for the disk, with others
		device: newGate(4*n, 1024*n, 4*time.Second),
		traces: newGate(max(4, 2*n), 64*n, 4*time.Second), // each may unpack 32 MiB
		admin:  newGate(8*n, 64*n, 5*time.Second),
	}
}

// enter returns what to call when the work is done, or a problem.
func (g *gate) enter(ctx context.Context) (leave func(), p *api.Problem) {
	leave = func() { <-g.slots }
	select {
	case g.slots <- struct{}{}:
		return leave, nil
	default:
	}
	if g.waiting.Add(1) > g.room {
		g.waiting.Add(-1)
		return nil, busy(g.patience)
	}
	defer g.waiting.Add(-1)
	t := time.NewTimer(g.patience)
	defer t.Stop()
	select {
	case g.slots <- struct{}{}:
		return leave, nil
	case <-t.C:
		return nil, busy(2 * g.patience)
	case <-ctx.Done():
		return nil, busy(g.patience)
	}
}

// busy asks to come back at a time of its own for each caller, between half and one and a half of around.
func busy(around time.Duration) *api.Problem {
	return api.NewProblem(api.ProblemCodeBusy, "").After(around/2 + rand.N(around))
}

// ending asks to come back when the successor serves, spread over half a minute for a large fleet: then its polls come no
// faster than they do in quiet times.
func (m *Manager) ending() *api.Problem {
	spread := time.Duration(min(30, 2+m.hub.crowd/300)) * time.Second
	return api.NewProblem(api.ProblemCodeUnavailable, "the manager is ending").After(time.Second + rand.N(spread))
}

// gated runs work inside a gate.
func (g *gate) gated(w http.ResponseWriter, r *http.Request, work func()) {
	leave, p := g.enter(r.Context())
	if p != nil {
		p.Write(w)
		return
	}
	defer leave()
	work()
}
