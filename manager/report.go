package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// sightings are what devices said since it was last written. A crash loses seconds of it, and each device says it again.
type sightings struct {
	mu      sync.Mutex
	pending map[string]*reportRecord // Report.State is "" if it was only seen
}

func newSightings() *sightings { return &sightings{pending: map[string]*reportRecord{}} }

func (s *sightings) mark(id string, now time.Time) { s.put(id, now, nil) }

func (s *sightings) put(id string, now time.Time, r *api.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending[id]
	if p == nil {
		p = &reportRecord{}
		s.pending[id] = p
	}
	p.LastSeen = now.UTC()
	if r != nil {
		p.Report = *r
	}
}

// merge brings a stored record up to date.
func (s *sightings) merge(id string, rec reportRecord) reportRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pending[id]; p != nil {
		rec = rec.with(p)
	}
	return rec
}

func (r reportRecord) with(p *reportRecord) reportRecord {
	r.LastSeen = p.LastSeen
	if p.Report.State != "" {
		repairs := append(r.Report.Repairs, p.Report.Repairs...)
		r.Report = p.Report
		r.Report.Repairs = repairs[max(0, len(repairs)-keepRepairs):]
	}
	return r
}

// keepRepairs is how many repairs of a device are remembered.
const keepRepairs = 50

// flushReports writes what is pending.
func (m *Manager) flushReports(ctx context.Context) error {
	m.seen.mu.Lock()
	pending := m.seen.pending
	m.seen.pending = map[string]*reportRecord{}
	m.seen.mu.Unlock()
	if len(pending) == 0 {
		return nil
	}
	return m.update(ctx, func(tx store.Tx) error {
		for id, p := range pending {
			rec, err := orZero(reports.Get(tx, id))
			if err != nil {
				return err
			}
			if err := reports.Put(tx, id, rec.with(p)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReportDevice implements POST /device/report.
func (s deviceSurface) ReportDevice(w http.ResponseWriter, r *http.Request, c deviceCaller) {
	rep, p := decode[api.Report](r)
	if p == nil {
		if err := checkReport(&rep); err != nil {
			p = api.NewProblem(api.ProblemCodeMalformed, err.Error())
		}
	}
	if p != nil {
		p.Write(w)
		return
	}
	if rep.Agent.Version == "" {
		rep.Agent.Version = r.UserAgent()
	}
	actions := []string{}
	if c.orders {
		var err error
		if actions, err = s.orders(r.Context(), c.id, rep.ActionsDone); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	rep.ActionsDone = nil
	if err := s.auditRefusal(r.Context(), c.id, &rep); err != nil {
		s.fail(w, r, err)
		return
	}
	s.seen.put(c.id, s.opt.Now(), &rep)
	keys, _ := s.keys.signing()
	out := api.ReportReply{KeysVersion: keys.Version, Actions: actions}
	if conf, ok := s.hub.config(c.group); ok {
		out.ConfigVersion = conf.Version
	}
	if c.reenroll {
		out.Reenroll = api.ReportReplyReenrollClone
	}
	reply(w, http.StatusOK, out)
}

// refusalsApart is the least time between two entries about one device: the log only grows, and a device may say what it likes.
const refusalsApart = 10 * time.Minute

// auditRefusal keeps for good that a device didn't take its config, and why, when it says so for the first time.
func (m *Manager) auditRefusal(ctx context.Context, id string, r *api.Report) error {
	if r.State != api.ConfigStateFailed {
		return nil
	}
	var before reportRecord
	err := m.view(ctx, func(tx store.Tx) (err error) {
		before, err = orZero(reports.Get(tx, id))
		return err
	})
	if err != nil {
		return err
	}
	before = m.seen.merge(id, before)
	if before.Report.State == r.State && before.Report.Reason == r.Reason || !m.refusals.first(id, m.opt.Now()) {
		return nil
	}
	return m.update(ctx, func(tx store.Tx) error {
		return m.audit(tx, "device:"+id, "config.refused", id, fmt.Sprintf("version %d stays in force: %s", r.ConfigVersion, cut(r.Reason, 500)))
	})
}

// refusals are the devices of which a refusal was written down lately.
type refusals struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// first says whether there was none lately, and notes one.
func (r *refusals) first(id string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]time.Time{}
	}
	if last, ok := r.last[id]; ok && now.Sub(last) < refusalsApart {
		return false
	}
	if len(r.last)%1024 == 1023 {
		maps.DeleteFunc(r.last, func(_ string, last time.Time) bool { return now.Sub(last) >= refusalsApart })
	}
	r.last[id] = now
	return true
}

// checkReport bounds what a report may put into the store.
func checkReport(r *api.Report) error {
	switch {
	case r.State != api.ConfigStateApplied && r.State != api.ConfigStateFailed:
		return errors.New("field state has to be applied or failed")
	case len(r.Reason) > 2000 || len(r.Users) > 1000 || len(r.Hosts) > 1000 || len(r.Findings) > 200 || len(r.ActionsDone) > 200:
		return errors.New("the report has more entries than is sensible")
	case r.ConfigVersion < 0 || r.SessionsUnguarded < 0:
		return errors.New("a number is negative")
	}
	r.Repairs = r.Repairs[max(0, len(r.Repairs)-keepRepairs):]
	return nil
}

// orders takes the acknowledgements and returns the actions that are still to be done.
func (m *Manager) orders(ctx context.Context, id string, done []api.ActionDone) ([]string, error) {
	now := m.opt.Now().UTC()
	var d deviceRecord
	settle := func(tx store.Tx, write bool) (err error) {
		if d, err = devices.Get(tx, id); err != nil || !write {
			return err
		}
		changed := false
		for i := range d.Orders {
			o := &d.Orders[i]
			k := slices.IndexFunc(done, func(a api.ActionDone) bool { return a.ID == o.ID })
			switch {
			case o.State != api.ActionStateStatePending:
				continue
			case k >= 0:
				o.State, o.DoneAt, o.Detail = api.ActionStateStateDone, now, cut(done[k].Detail, 500)
				if !done[k].Ok {
					o.State = api.ActionStateStateFailed
				}
			case !now.Before(o.ExpiresAt):
				o.State = api.ActionStateStateExpired
			default:
				continue
			}
			changed = true
			if err := m.audit(tx, "device:"+id, "action."+string(o.State), id, string(o.Kind)+" "+o.ID); err != nil {
				return err
			}
		}
		if !changed {
			return nil
		}
		return devices.Put(tx, id, d)
	}
	if err := m.view(ctx, func(tx store.Tx) error { return settle(tx, false) }); err != nil {
		return nil, err
	}
	due := func(o orderRecord) bool {
		return o.State == api.ActionStateStatePending && (len(done) > 0 || !now.Before(o.ExpiresAt))
	}
	if slices.ContainsFunc(d.Orders, due) {
		if err := m.update(ctx, func(tx store.Tx) error { return settle(tx, true) }); err != nil {
			return nil, err
		}
	}
	list := []string{}
	for _, o := range d.Orders {
		if o.State == api.ActionStateStatePending {
			list = append(list, o.JWS)
		}
	}
	return list, nil
}

// cut shortens a text to n bytes of whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// text reads a body that is a document.
func text(r *http.Request) (string, *api.Problem) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return "", api.NewProblem(api.ProblemCodeMalformed, "the body didn't arrive as a whole")
	}
	return strings.TrimSpace(string(raw)), nil
}
