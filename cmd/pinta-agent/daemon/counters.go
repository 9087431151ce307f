package daemon

import (
	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/endpoint"
	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/internal/api"
)

// countersName is where the state keeps the totals.
const countersName = "counters"

// totals are the report's counters, which never go down although the process
// that counts starts from zero each time.
type totals struct {
	Sum  api.Counters `json:"sum"`
	last api.Counters // of the running child
}

func loadTotals(state *enroll.State) *totals {
	t := &totals{}
	state.Load(countersName, t) //nolint:errcheck // counting starts anew then
	return t
}

// add takes the child's newest counters; smaller ones are those of a new child.
func (t *totals) add(s endpoint.Stats) {
	now := countersOf(s)
	if now.Hooks < t.last.Hooks || now.Spooled < t.last.Spooled {
		t.last = api.Counters{}
	}
	for i, n := range fields(&now) {
		sum, last := fields(&t.Sum)[i], fields(&t.last)[i]
		*sum += max(0, *n-*last)
	}
	t.last = now
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
