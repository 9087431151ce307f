package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// Options of a Parent.
type Options struct {
	Layout   settings.Layout
	Listener net.Listener
	Setup    Setup
	// Program starts the child; empty is this very executable.
	Program string
	// Device makes calls with the device's identity.
	Device http.RoundTripper
	Log    *slog.Logger
	Stderr io.Writer
}

// Parent keeps a child running and gives it its config. Its methods are safe
// for concurrent use.
type Parent struct {
	o Options

	mu      sync.Mutex
	config  Config
	users   map[string]string // names by number
	tokens  map[string]string // names by loopback token
	repairs int64
	out     *writer // nil while no child runs
	stats   Stats
	ready   bool
	applied map[int64]chan Applied
	refused string        // why the child doesn't serve by config; empty if it does
	begun   bool          // a child was started
	started chan struct{} // closed when a child was ready for the first time
	once    sync.Once
	uploads chan struct{} // bounds those under way
	silence time.Duration // after which a child that says nothing is ended
	patient time.Duration // how long Serve waits for a child that is away
}

const maxUploads = 4

// New returns a Parent whose child is started by Run.
func New(o Options) *Parent {
	return &Parent{o: o, applied: map[int64]chan Applied{}, started: make(chan struct{}), uploads: make(chan struct{}, maxUploads), silence: longestSilence, patient: longestRestart + longestSilence}
}

// restart limits.
const (
	firstRestart   = 100 * time.Millisecond
	longestRestart = 30 * time.Second
	calm           = time.Minute // a child that lived this long starts the waits anew
	stopTime       = 5 * time.Second
	longestSilence = 30 * time.Second // a child tells its state each second
)

// Run keeps a child running until ctx ends, and then gives it 5 s to finish.
func (p *Parent) Run(ctx context.Context) error {
	wait := firstRestart
	for {
		start := time.Now()
		err := p.runChild(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(start) > calm {
			wait = firstRestart
		}
		p.o.Log.Error("the guard and relay process ended; hooks fail open until it is back", "error", err, "restart", wait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, longestRestart)
	}
}

// Started is closed once a child serves.
func (p *Parent) Started() <-chan struct{} { return p.started }

// child is a running child, wherever it runs.
type child struct {
	in   io.WriteCloser
	out  io.Reader
	wait func() error
	kill func()
}

func (p *Parent) runChild(ctx context.Context) error {
	c, err := p.spawn()
	if err != nil {
		return err
	}
	// A child that hangs, or reads nothing so that a send to it waits under the
	// lock, would hold up the installer too.
	alive := time.AfterFunc(p.silence, c.kill)
	defer alive.Stop()
	out := &writer{w: c.in}
	p.mu.Lock()
	p.out, p.begun = out, true
	err = errors.Join(out.send(toChild{Setup: &p.o.Setup}), out.send(toChild{Users: p.users}), out.send(toChild{Tokens: p.tokens}), out.send(toChild{Repairs: &p.repairs}), out.send(toChild{Config: &p.config}))
	p.mu.Unlock()
	uploads, stopUploads := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		c.in.Close() // the child's sign to finish
		time.AfterFunc(stopTime, c.kill)
	})
	if err == nil {
		err = receive(c.out, func(m fromChild) error {
			alive.Reset(p.silence)
			return p.hear(uploads, out, m)
		})
	}
	stop()
	stopUploads()
	p.gone()
	c.in.Close()
	if err != nil {
		c.kill()
	}
	return errors.Join(err, c.wait())
}

// hear takes one message of the child; all of it is untrusted.
func (p *Parent) hear(ctx context.Context, out *writer, m fromChild) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case m.Ready:
		p.ready = true
		p.once.Do(func() { close(p.started) })
	case m.Stats != nil:
		p.stats = *m.Stats
	case m.Applied != nil:
		if m.Applied.Seq == p.config.Seq {
			p.refused = m.Applied.Error
		}
		if waiting := p.applied[m.Applied.Seq]; waiting != nil {
			waiting <- *m.Applied
			delete(p.applied, m.Applied.Seq)
		} else if m.Applied.Error != "" {
			p.o.Log.Error("the config in force can't be used; hooks are judged by the built-in rules", "error", m.Applied.Error)
		}
	case m.Upload != nil:
		select {
		case p.uploads <- struct{}{}:
		default:
			return errors.New("the guard and relay process asks for more uploads at once than it needs")
		}
		manager := p.config.Manager
		go func() {
			defer func() { <-p.uploads }()
			if err := out.send(toChild{Uploaded: carry(ctx, m.Upload, manager, p.o.Device)}); err != nil {
				p.o.Log.Debug("answer an upload", "error", err)
			}
		}()
	default:
		return errors.New("a message of the guard and relay process says nothing")
	}
	return nil
}

func (p *Parent) gone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out, p.ready = nil, false
	for seq, waiting := range p.applied {
		waiting <- Applied{Seq: seq, Error: "the guard and relay process ended before it took the config"}
		delete(p.applied, seq)
	}
}

// Serve has the child serve by c from now on, and after each restart. It
// returns when the child has taken it; an error says why it goes on with the
// config before. Before Run the first child is left to take it: what is given
// then was in force.
func (p *Parent) Serve(ctx context.Context, c Config) error {
	p.mu.Lock()
	c.Seq = p.config.Seq + 1
	before := p.config
	p.config = c
	if !p.begun {
		p.mu.Unlock()
		return nil
	}
	answer := make(chan Applied, 1)
	p.applied[c.Seq] = answer
	if p.out != nil { // else, or if it is ending, the next child starts with it
		p.out.send(toChild{Config: &c}) //nolint:errcheck // gone gives the answer
	}
	p.mu.Unlock()
	away := time.NewTimer(p.patient)
	defer away.Stop()
	var err error
	select {
	case <-ctx.Done():
		return ctx.Err()
	case a := <-answer:
		if a.Error == "" {
			return nil
		}
		err = errors.New(a.Error)
	case <-away.C:
		err = errors.New("the guard and relay process isn't there to take the config")
	}
	p.back(c.Seq, before)
	return err
}

// back returns to the config before one that was not taken. A child that began
// with that one has never had it.
func (p *Parent) back(from int64, before Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.applied, from)
	if p.config.Seq != from {
		return
	}
	before.Seq = from + 1
	p.config, p.refused = before, ""
	if p.out != nil {
		p.out.send(toChild{Config: &before}) //nolint:errcheck // the child is ending: the next one starts with it
	}
}

// SetUsers names the machine's accounts by their numbers, for the identity on
// spans, and by their loopback tokens, if there is such a listener.
func (p *Parent) SetUsers(names, tokens map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if maps.Equal(p.users, names) && maps.Equal(p.tokens, tokens) {
		return
	}
	p.users, p.tokens = names, tokens
	if p.out == nil {
		return // the next child gets them
	}
	if err := errors.Join(p.out.send(toChild{Users: names}), p.out.send(toChild{Tokens: tokens})); err != nil {
		p.o.Log.Debug("name the users", "error", err)
	}
}

// SetRepairs says how many changes to the hooks were undone, for the metrics.
func (p *Parent) SetRepairs(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.repairs = n; p.out != nil {
		p.out.send(toChild{Repairs: &n}) //nolint:errcheck // the child is ending: the next one gets it
	}
}

// Stats returns what the child said last, and whether it serves.
func (p *Parent) Stats() (Stats, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Refused = p.refused
	return s, p.ready
}

// program is the executable that children are started from.
func (p *Parent) program() (string, error) {
	if p.o.Program != "" {
		return p.o.Program, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the own executable: %w", err)
	}
	return self, nil
}
