package daemon

import (
	"time"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/endpoint"
	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/internal/api"
)

// countersName is where the state keeps the totals.
const countersName = "counters"

// totals are the report's counters, which never go down although the process
// that counts starts from zero each time, and when each user's hooks last ran.
type totals struct {
	Sum api.Counters `json:"sum"`
	// Dropped is how much of the sum the spool counts, which keeps its number.
	Dropped   int64                `json:"dropped"`
	LastEvent map[string]time.Time `json:"lastEvent"` // by user
	last      *api.Counters        // of the running child; nil before its first
}

func loadTotals(state *enroll.State) *totals {
	t := &totals{}
	state.Load(countersName, t) //nolint:errcheck // counting starts anew then
	return t
}

// add takes the child's newest counters; smaller ones are those of a new child.
func (t *totals) add(s endpoint.Stats) {
	if s.Export.State == "" {
		return // no child has told anything yet
	}
	now, dropped := countersOf(s), int64(s.Relay.Spool.Dropped())
	if t.last == nil || now.Hooks < t.last.Hooks || now.Spooled < t.last.Spooled {
		t.last = &api.Counters{}
		if t.Dropped <= dropped { // else it is a new spool
			t.last.Dropped = t.Dropped
		}
	}
	for i, n := range fields(&now) {
		sum, last := fields(&t.Sum)[i], fields(t.last)[i]
		*sum += max(0, *n-*last)
	}
	t.last, t.Dropped = &now, dropped
	for _, u := range s.Relay.Users {
		if known, ok := t.LastEvent[u.Name]; u.LastEvent.After(known) && (ok || len(t.LastEvent) < maxUsers) {
			if t.LastEvent == nil {
				t.LastEvent = map[string]time.Time{}
			}
			t.LastEvent[u.Name] = u.LastEvent
		}
	}
}

func fields(c *api.Counters) []*int64 {
	return []*int64{&c.Hooks, &c.Prevented, &c.Masked, &c.Withheld, &c.Stopped, &c.FailOpen, &c.Overrun, &c.NotEnforced, &c.Spooled, &c.Dropped}
}

func countersOf(s endpoint.Stats) api.Counters {
	c := s.Relay.Counters
	dropped := s.Relay.Spool.Dropped()
	for _, n := range s.Export.Dropped {
		dropped += n
	}
	return api.Counters{
		Hooks: int64(c.Hooks), Prevented: int64(c.Prevented), Masked: int64(c.Masked), Withheld: int64(c.Withheld),
		Stopped: int64(c.Stopped), FailOpen: int64(c.FailOpen), NotEnforced: int64(c.NotEnforced),
		Overrun: int64(s.Guard.Overruns), Spooled: int64(s.Relay.Spool.Appended), Dropped: int64(dropped),
	}
}
