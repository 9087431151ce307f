// Package device keeps an enrolled machine in step with its Manager: it waits
// for a newer guard config, checks it, has it applied and keeps the last good
// one, reports, and does signed actions. It decides nothing about guarding and
// changes nothing on the machine itself: Callbacks do.
//
// Trouble with the Manager changes nothing here but the pace (security.md S9).
package device

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

const (
	// hold is how long the Manager holds a poll (manager.md 3).
	hold = 55 * time.Second
	// shortest is what a poll is held at least, whatever a proxy does.
	shortest = 10 * time.Second
	// slack is what an exchange may take beyond that.
	slack = 30 * time.Second
	// actionTime bounds one action.
	actionTime = 5 * time.Minute
	// defaultCheckin holds until a config or an enrolment says otherwise.
	defaultCheckin         = time.Minute
	minCheckin, maxCheckin = 10 * time.Second, 24 * time.Hour
	// gap is the least time between two reports that changes asked for.
	gap = 2 * time.Second
	// look is how often the state is looked at for an identity, and the clock for
	// a suspend that has ended; asleep is the jump that tells one.
	look, asleep = 5 * time.Second, 30 * time.Second
)

// Before the first answer a machine is likely just starting, alone. A Manager
// that went away takes all its devices with it: they come back spread over half
// a minute and more, less than twice what they ask in quiet times.
var (
	firstBackoff = enroll.Backoff{Base: 3 * time.Second, Max: 15 * time.Minute}
	laterBackoff = enroll.Backoff{Base: 30 * time.Second, Max: 15 * time.Minute}
)

// breakAfter is how many failed polls in a row make reports wait for a poll
// that works.
const breakAfter = 3

// Callbacks are what the agent does for this package. Apply and Report are
// needed, the others may be nil.
type Callbacks struct {
	// Apply puts a checked config in force as one swap. With an error the one
	// before must still be in force.
	Apply func(context.Context, *api.GuardConfig) error
	// Report tells the state of the machine; config state, actions and the agent's
	// version are filled in here.
	Report func() api.Report
	// Reported is called with each report that the Manager has taken.
	Reported func(api.Report)
	// Action does repair, diagnostics, log-level and the machine's part of
	// unenroll. detail is for the administrator.
	Action func(context.Context, api.Action) (detail string, err error)
	// Retired is called once after the identity ended, to take back what was
	// installed; with an error it is called again at the next start.
	Retired func(context.Context, enroll.Retirement) error
}

// Options say what to run with.
type Options struct {
	State  *enroll.State
	Client *enroll.Client
	Clock  settings.Clock
	Log    *slog.Logger
	Callbacks
}

// Device is the Manager's side of this machine.
type Device struct {
	Options
	started time.Time

	// applying serializes what changes the config.
	applying sync.Mutex
	// reporting serializes reports and actions.
	reporting sync.Mutex

	mu      sync.Mutex
	current *config // in force; nil before there was one
	refused refusal
	status  Status
	wake    context.CancelFunc // ends the poll that is held

	change chan struct{}    // something to report
	woken  [2]chan struct{} // for the two loops: don't sleep on
}

const (
	pollWoken = iota
	reportWoken
)

// Status is what `status` shows of the connection.
type Status struct {
	ConfigVersion int64     `json:"configVersion"`
	ExpiresAt     time.Time `json:"expiresAt,omitzero"`
	Stale         bool      `json:"stale,omitempty"`
	// Refused says why the newest config is not the one in force.
	Refused string `json:"refused,omitempty"`
	// Contact is the last answer of the Manager that was its own.
	Contact  time.Time `json:"contact,omitzero"`
	Reported time.Time `json:"reported,omitzero"`
	Failures int       `json:"failures,omitempty"`
	Next     time.Time `json:"next,omitzero"`
	Error    string    `json:"error,omitempty"`
}

// New makes a Device. Nothing runs yet.
func New(o Options) *Device {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Device{
		Options: o, started: o.Clock.Now(), change: make(chan struct{}, 1),
		woken: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)},
	}
}

// Run restores the last good config, also without a network, and then stays in
// step until ctx ends. Without an identity it waits for one.
func (d *Device) Run(ctx context.Context) error {
	if err := d.Restore(ctx); err != nil {
		d.Log.Error("the last good config could not be put in force", "error", err)
	}
	var all sync.WaitGroup
	all.Go(func() { d.pollLoop(ctx) })
	all.Go(func() { d.reportLoop(ctx) })
	all.Go(func() { d.watchClock(ctx) })
	all.Wait()
	return ctx.Err()
}

// SyncOnce asks for the newest config, applies it and reports.
func (d *Device) SyncOnce(ctx context.Context) error {
	if err := d.Restore(ctx); err != nil {
		d.Log.Error("the last good config could not be put in force", "error", err)
	}
	return errors.Join(d.poll(ctx, 0, true), d.report(ctx))
}

// Changed asks for a report soon: something that it tells has changed.
func (d *Device) Changed() { signal(d.change) }

// Wake asks for one prompt check-in: after a suspend, or with a new identity.
// Whatever the loops wait for, they go on at once; a poll that is held is
// dropped, since its connection or its identity is most likely dead.
func (d *Device) Wake() {
	for _, c := range d.woken {
		signal(c)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wake != nil {
		d.wake()
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Status returns the state of the connection.
func (d *Device) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.status
	if d.current != nil {
		s.ConfigVersion, s.ExpiresAt, s.Stale = d.current.doc.Version, d.current.doc.ExpiresAt, d.current.stale(d.Clock.Now())
	}
	if d.refused.err != nil {
		s.Refused = d.refused.err.Error()
	}
	return s
}

// contact notes an exchange with the Manager: its own answer, or err.
func (d *Device) contact(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.status.Contact, d.status.Error = d.Clock.Now(), ""
		return
	}
	if text := err.Error(); text != d.status.Error {
		d.status.Error = text
		d.Log.Warn("the manager can't be reached, or refuses; what is in force stays", "error", err)
	}
}

// checkin is the time between two reports.
func (d *Device) checkin() time.Duration {
	seconds := 0
	d.mu.Lock()
	if d.current != nil {
		seconds = d.current.doc.Agent.CheckinSeconds
	}
	d.mu.Unlock()
	if seconds == 0 {
		if id, err := d.State.Identity(); err == nil {
			seconds = id.CheckinSeconds
		}
	}
	if seconds == 0 {
		return defaultCheckin
	}
	return min(max(time.Duration(seconds)*time.Second, minCheckin), maxCheckin)
}

// sleep waits; false means that ctx is over. wake, if there is one, ends it early.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-wake:
		}
	}
	return ctx.Err() == nil
}

// upTo is a random time below d: full jitter.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// watchClock notices that the machine slept: the wall clock went on and timers
// did not. Then one prompt check-in makes up for all that were missed.
func (d *Device) watchClock(ctx context.Context) {
	last := d.Clock.Now().Round(0)
	for sleep(ctx, look, nil) {
		now := d.Clock.Now().Round(0)
		if now.Sub(last) > look+asleep {
			d.Log.Info("the machine slept, or its clock was set", "for", now.Sub(last).Round(time.Second))
			d.Wake()
		}
		last = now
	}
}
