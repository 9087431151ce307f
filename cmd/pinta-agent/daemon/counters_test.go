package daemon

import (
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/endpoint"
	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/sync/relay"
	"github.com/pinta-ai/pinta-agent/sync/spool"
)

// TestTotals: what a child counts from zero adds up over children and services;
// what the spool dropped, which it remembers itself, is told once.
func TestTotals(t *testing.T) {
	state, err := enroll.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stats := func(hooks, spooled, droppedBySpool, droppedByReceiver uint64) endpoint.Stats {
		return endpoint.Stats{
			Relay:  relay.Stats{Counters: relay.Counters{Hooks: hooks}, Spool: spool.Stats{Appended: spooled, DroppedAge: droppedBySpool}},
			Export: relay.ExportStats{State: relay.ExportOK, Dropped: map[string]uint64{"400": droppedByReceiver}},
		}
	}
	d := &Daemon{state: state, totals: loadTotals(state)}
	d.totals.add(stats(5, 9, 3, 0))
	d.totals.add(stats(7, 12, 4, 2)) // the same child
	d.totals.add(stats(1, 1, 4, 0))  // another one
	d.saveTotals()
	d.totals = loadTotals(state)   // another service,
	d.totals.add(endpoint.Stats{}) // whose child has said nothing yet
	d.totals.add(stats(2, 3, 5, 1))
	if s := d.totals.Sum; s.Hooks != 10 || s.Spooled != 16 || s.Dropped != 8 {
		t.Errorf("%d hooks, %d spooled, %d dropped; want 10, 16, 8", s.Hooks, s.Spooled, s.Dropped)
	}
	d.totals.add(stats(0, 0, 1, 0)) // another child, another spool
	if s := d.totals.Sum; s.Dropped != 9 {
		t.Errorf("%d dropped, want 9", s.Dropped)
	}
}

// TestLastEvents: that a user's hooks ran is known after a restart too.
func TestLastEvents(t *testing.T) {
	state, err := enroll.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen := func(users ...relay.User) endpoint.Stats {
		return endpoint.Stats{Relay: relay.Stats{Users: users}, Export: relay.ExportStats{State: relay.ExportOK}}
	}
	d := &Daemon{state: state, totals: loadTotals(state)}
	d.totals.add(seen(relay.User{Name: "ann", LastEvent: at}, relay.User{Name: "bob", LastEvent: at}))
	d.saveTotals()
	d.totals = loadTotals(state)
	d.totals.add(seen(relay.User{Name: "bob", LastEvent: at.Add(-time.Hour)}))
	for _, name := range []string{"ann", "bob"} {
		if got := d.totals.LastEvent[name]; !got.Equal(at) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
