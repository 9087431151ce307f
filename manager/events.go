package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

const (
	// lookedAt bounds the events that one request looks at; the cursor of its page leads on.
	lookedAt = 20_000
	// retainStep bounds the events that one transaction drops.
	retainStep = 5_000
)

// filter is what events are searched by.
type filter struct {
	api.ListEventsParams
	scope        scope
	since, until time.Time
	text         string
}

func newFilter(p api.ListEventsParams, s scope) (filter, error) {
	f := filter{ListEventsParams: p, scope: s, text: strings.ToLower(p.Text)}
	for _, t := range []struct {
		name, value string
		at          *time.Time
	}{{"since", p.Since, &f.since}, {"until", p.Until, &f.until}} {
		if t.value == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, t.value)
		if err != nil {
			return f, errors.New("parameter " + t.name + " is no RFC 3339 time")
		}
		*t.at = at
	}
	return f, nil
}

// takes tells whether an event is wanted.
func (f *filter) takes(e *api.Event) bool {
	is := func(want string, have ...string) bool {
		if want == "" {
			return true
		}
		for _, h := range have {
			if strings.EqualFold(want, h) {
				return true
			}
		}
		return false
	}
	return f.scope.sees(e.Group) && is(f.Device, e.DeviceID) && is(f.Group, e.Group) && is(f.User, e.User) && is(f.Session, e.Session) &&
		is(f.Kind, e.Kind, e.Hook) && is(f.Tool, e.Tool, e.HostTool) && is(f.Decision, e.Decision) && is(f.Evaluation, e.EvaluationID) &&
		is(f.Agent, e.Agent, e.Attributes["copilot.agent_name"], e.Attributes["copilot.agentName"]) &&
		(f.since.IsZero() || !e.At.Before(f.since)) && (f.until.IsZero() || e.At.Before(f.until)) && f.holds(e)
}

func (f *filter) holds(e *api.Event) bool {
	if f.text == "" {
		return true
	}
	for _, v := range e.Attributes {
		if strings.Contains(strings.ToLower(v), f.text) {
			return true
		}
	}
	return strings.Contains(strings.ToLower(e.Name), f.text)
}

// page reads on from a cursor.
func (f *filter) page(tx store.Tx, after string, limit int) (api.EventPage, error) {
	p := api.EventPage{Events: []api.Event{}, Next: after}
	if after == "" && !f.since.IsZero() {
		// An event is received after it happened, save for what clocks differ.
		after = ulidAt(f.since.Add(-5 * time.Minute))
	}
	n := 0
	for key, raw := range tx.Scan(string(events), store.Range{After: after}) {
		if n++; n > lookedAt || len(p.Events) >= limit {
			p.More = true
			break
		}
		p.Next = key
		e, ok, err := f.read(raw)
		if err != nil {
			return p, err
		}
		if ok {
			p.Events = append(p.Events, e)
		}
	}
	return p, nil
}

// last reads the newest matching events, oldest first.
func (f *filter) last(tx store.Tx, count int) (api.EventPage, error) {
	p := api.EventPage{Events: []api.Event{}}
	n := 0
	for key, raw := range tx.Scan(string(events), store.Range{Backwards: true}) {
		if p.Next == "" {
			p.Next = key
		}
		if n++; n > lookedAt || len(p.Events) >= count {
			break
		}
		e, ok, err := f.read(raw)
		if err != nil {
			return p, err
		}
		if ok {
			p.Events = append(p.Events, e)
		}
	}
	for i, j := 0, len(p.Events)-1; i < j; i, j = i+1, j-1 {
		p.Events[i], p.Events[j] = p.Events[j], p.Events[i]
	}
	return p, nil
}

func (f *filter) read(raw []byte) (e api.Event, ok bool, err error) {
	if f.Device != "" && !bytes.Contains(raw, []byte(f.Device)) { // most of a search for one device
		return e, false, nil
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, false, err
	}
	return e, f.takes(&e), nil
}

func ulidAt(t time.Time) string {
	var id ulid.ULID
	if id.SetTime(ulid.Timestamp(t)) != nil {
		return ""
	}
	return id.String()
}

// ListEvents implements GET /events.
func (s adminSurface) ListEvents(w http.ResponseWriter, r *http.Request, c adminCaller, params api.ListEventsParams) {
	f, err := newFilter(params, c.scope)
	if err != nil {
		api.NewProblem(api.ProblemCodeMalformed, err.Error()).Write(w)
		return
	}
	limit := params.Limit
	set(&limit, 100)
	changed, stop := s.store.Watch(tenant, topicEvents)
	defer stop()
	until := time.NewTimer(time.Duration(params.Wait) * time.Second)
	defer until.Stop()
	after, last := params.After, params.Last
	for {
		var p api.EventPage
		err := s.view(r.Context(), func(tx store.Tx) (err error) {
			if after == "" && last > 0 {
				p, err = f.last(tx, last)
			} else {
				p, err = f.page(tx, after, limit)
			}
			return err
		})
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if len(p.Events) > 0 || p.More || params.Wait == 0 {
			reply(w, http.StatusOK, p)
			return
		}
		after, last = p.Next, 0
		select {
		case <-changed:
			continue
		case <-until.C:
		case <-r.Context().Done():
		case <-s.hub.ends:
		}
		reply(w, http.StatusOK, p)
		return
	}
}

// retain drops events by age and size, oldest first, and what else has had its time.
func (m *Manager) retain(ctx context.Context) error {
	for {
		more, err := m.retainSome(ctx)
		if err != nil || !more {
			return err
		}
	}
}

func (m *Manager) retainSome(ctx context.Context) (more bool, err error) {
	now := m.opt.Now()
	oldest := ulidAt(now.Add(-m.opt.EventAge))
	err = m.update(ctx, func(tx store.Tx) error {
		more = false
		size, err := orZero(counters.Get(tx, counterEvents))
		if err != nil {
			return err
		}
		var drop []string
		var freed int64
		for key, raw := range tx.Scan(string(events), store.Range{}) {
			if key >= oldest && size-freed <= m.opt.EventBytes {
				break
			}
			if len(drop) == retainStep {
				more = true
				break
			}
			drop, freed = append(drop, key), freed+int64(len(raw))
		}
		for _, key := range drop {
			if err := tx.Delete(string(events), key); err != nil {
				return err
			}
		}
		if freed > 0 {
			if _, err := add(tx, counterEvents, -freed); err != nil {
				return err
			}
		}
		return m.forgetBatches(tx, now)
	})
	return more, err
}

// forgetBatches drops the ids that no device will send again.
func (m *Manager) forgetBatches(tx store.Tx, now time.Time) error {
	old := map[string]string{}
	for id, raw := range tx.Scan(string(batchTimes), store.Range{Before: ulidAt(now.Add(-batchMemory))}) {
		var key string
		if err := json.Unmarshal(raw, &key); err != nil {
			return err
		}
		if old[id] = key; len(old) == retainStep {
			break
		}
	}
	for id, key := range old {
		if err := errors.Join(batchTimes.Delete(tx, id), batches.Delete(tx, key)); err != nil {
			return err
		}
	}
	return nil
}
