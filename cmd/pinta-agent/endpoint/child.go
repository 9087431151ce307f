// Package endpoint is what answers hooks: guard and relay behind the local
// socket. It parses what everybody on the machine may send, so it runs in a
// process that holds no privilege and no key (security.md S16): its parent, the
// service, hands it the listener and the spool's folder, gives it the config
// over a pipe, and makes its uploads to the Manager. Each side takes what the
// other says for untrusted.
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
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinta-ai/pinta-agent/guard"
	"github.com/pinta-ai/pinta-agent/internal/local/serve"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/sync/relay"
	"github.com/pinta-ai/pinta-agent/sync/spool"
)

// EvaluationsFile is the guard's memory, in the spool's folder.
const EvaluationsFile = "evaluations.jsonl"

const (
	statsEvery = time.Second
	maxNames   = 4096
)

// server is a running child.
type server struct {
	setup   Setup
	out     *writer
	log     *slog.Logger
	config  atomic.Pointer[Config]
	names   names
	verdict verdicts
	engine  *guard.Engine
	spool   *spool.Spool
	relay   *relay.Relay
	export  *relay.Exporter
	uplink  *uplink
	callers callers
	repairs atomic.Int64 // as the parent counts them
	// loopback is why other adapters aren't answered; nil or empty if they are.
	loopback atomic.Pointer[string]
}

// Serve is the child's main function: it answers on l until in ends, then
// finishes what is under way and returns within 5 s.
func Serve(ctx context.Context, in io.Reader, out io.Writer, l net.Listener, spoolDir string, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	setups, configs := make(chan Setup, 1), make(chan Config, 1)
	s := &server{out: &writer{w: out}}
	s.config.Store(&Config{})
	s.uplink = newUplink(func(m fromChild) error { return s.out.send(m) }, func() string { return s.config.Load().Manager }, nil)
	heard := make(chan error, 1)
	go func() {
		defer cancel()
		defer s.uplink.close()
		heard <- receive(in, func(m toChild) error {
			switch {
			case m.Setup != nil:
				return give(ctx, setups, *m.Setup)
			case m.Config != nil:
				return give(ctx, configs, *m.Config)
			case m.Uploaded != nil:
				s.uplink.answer(m.Uploaded)
			case m.Users != nil:
				s.names.set(m.Users)
			case m.Repairs != nil:
				s.repairs.Store(*m.Repairs)
			case m.Tokens != nil:
				s.callers.admit(m.Tokens)
			}
			return nil
		})
	}()
	select {
	case s.setup = <-setups:
	case <-ctx.Done():
		return errors.Join(errors.New("the service sent no setup"), <-heard)
	}
	if err := s.open(spoolDir, stderr); err != nil {
		return err
	}
	err := errors.Join(s.run(ctx, l, configs), s.spool.Close())
	if ctx.Err() != nil {
		err = errors.Join(err, drained(heard))
	}
	return err
}

// give hands a message over unless the child is ending.
func give[M any](ctx context.Context, to chan<- M, m M) error {
	select {
	case to <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func drained(heard <-chan error) error {
	select {
	case err := <-heard:
		return err
	default:
		return nil
	}
}

func (s *server) open(dir string, stderr io.Writer) error {
	var level slog.Level
	level.UnmarshalText([]byte(s.setup.LogLevel)) //nolint:errcheck // info then
	s.log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})).With("part", "endpoint")
	s.names.homes = s.setup.Homes
	client, err := settings.Network{Proxy: settings.Secret(s.setup.Proxy), CAFile: s.setup.CAFile}.HTTPClient()
	if err != nil {
		return err
	}
	s.uplink.direct = client.Transport
	s.spool, err = spool.Open(dir, spool.Options{MaxBytes: s.setup.SpoolMax, MaxAge: s.setup.SpoolAge, Log: s.log})
	if err != nil {
		return fmt.Errorf("open the spool: %w", err)
	}
	s.engine = guard.NewEngine(guard.Options{Host: s.setup.Host, Log: s.log, HTTP: client, UserName: s.names.of,
		OnVerdict: s.verdict.add, Memory: guard.NewMemory(filepath.Join(dir, EvaluationsFile), 0)})
	s.relay = relay.New(relay.Options{Spool: s.spool, Log: s.log,
		Identity: func(p serve.Peer) relay.Identity {
			c := s.config.Load()
			return relay.Identity{DeviceID: c.DeviceID, Group: c.Group, User: s.names.of(p), Host: s.setup.Host}
		},
		Collect: func() bool { return !s.config.Load().Discard },
		OutputAction: func(id string) string {
			v, _ := s.engine.Why(id)
			return v.Action
		}})
	s.export = relay.NewExporter(relay.ExporterOptions{Spool: s.spool, Client: &http.Client{Transport: s.uplink},
		Destination: s.destination, Log: s.log})
	return nil
}

func (s *server) destination() relay.Destination {
	switch c := s.config.Load(); {
	case c.Collector != "":
		return relay.Destination{URL: c.Collector, Header: c.Headers}
	case c.Manager != "":
		// The parent signs; an upload carries no authorization of its own.
		return relay.Destination{URL: strings.TrimSuffix(c.Manager, "/") + tracesURI,
			Sign: func(string, string, []byte) (string, error) { return "", nil }}
	}
	return relay.Destination{}
}

func (s *server) run(ctx context.Context, l net.Listener, configs <-chan Config) error {
	mux := http.NewServeMux()
	mux.Handle("/guard/evaluate", s.engine.Handler())
	mux.Handle("/v1/traces", s.relay.Handler())
	all, ctx := errgroup.WithContext(ctx)
	s.answer(ctx, all, l, mux)
	if s.setup.Loopback != "" {
		all.Go(func() error { s.answerLoopback(ctx, all, mux); return nil })
	}
	all.Go(func() error { return s.export.Run(ctx) })
	all.Go(func() error { s.pushMetrics(ctx); return nil })
	all.Go(func() error { return s.follow(ctx, configs) })
	all.Go(func() error { return s.tell(ctx) })
	return all.Wait()
}

// answer serves h on l until ctx ends, and then lets answers finish.
func (s *server) answer(ctx context.Context, all *errgroup.Group, l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ConnContext: serve.ConnContext, ConnState: new(connections).note, ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	all.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve on %s: %w", l.Addr(), err)
		}
		return nil
	})
	all.Go(func() error {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close()
		}
		return nil
	})
}

// follow puts each config in force and says what came of it. The first one
// makes the child ready: it holds the last good config, or none.
func (s *server) follow(ctx context.Context, configs <-chan Config) error {
	ready := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-configs:
			applied := Applied{Seq: c.Seq}
			if err := s.apply(c); err != nil {
				applied.Error = err.Error()
			}
			if err := s.out.send(fromChild{Applied: &applied}); err != nil {
				return err
			}
			if !ready {
				ready = true
				if err := s.out.send(fromChild{Ready: true}); err != nil {
					return err
				}
			}
		}
	}
}

func (s *server) apply(c Config) error {
	if c.Version > 0 {
		if err := s.engine.Load(c.Guard, c.Version, c.Group); err != nil {
			return err
		}
	} else {
		s.engine.Unload()
	}
	s.config.Store(&c)
	s.export.Kick()
	return nil
}

// tell sends the state every second.
func (s *server) tell(ctx context.Context) error {
	for {
		stats := Stats{Relay: s.relay.Stats(), Export: s.export.Stats(), Guard: s.verdict.stats()}
		stats.Guard.Config = s.engine.Status()
		if why := s.loopback.Load(); why != nil {
			stats.Loopback = *why
		}
		if err := s.out.send(fromChild{Stats: &stats}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(statsEvery):
		}
	}
}

// GuardStats count verdicts since the child began.
type GuardStats struct {
	Config   guard.Status      `json:"config"`
	Verdicts map[string]uint64 `json:"verdicts"` // by decision, or the output's action
	// Denied counts denials by user: after one the hook leaves its span in the
	// user's queue (hook.md I4), so the service has that drained.
	Denied   map[string]uint64 `json:"denied"`
	Overruns uint64            `json:"overruns"`
	Faults   uint64            `json:"faults"`
	// Failed counts events on which a rule's condition failed (guard.Verdict).
	Failed uint64 `json:"failed,omitempty"`
}

type verdicts struct {
	mu    sync.Mutex
	count GuardStats
}

func (v *verdicts) add(one guard.Verdict) {
	if one.Repeat {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.count.Verdicts == nil {
		v.count.Verdicts, v.count.Denied = map[string]uint64{}, map[string]uint64{}
	}
	kind := strings.ToLower(one.Decision)
	if one.Decision == "DENY" && (one.Action == "mask" || one.Action == "withhold") {
		kind = one.Action
	}
	v.count.Verdicts[kind]++
	if one.Decision == "DENY" && (len(v.count.Denied) < maxNames || v.count.Denied[one.User] > 0) {
		v.count.Denied[one.User]++
	}
	if one.Overrun {
		v.count.Overruns++
	}
	if one.Fault {
		v.count.Faults++
	}
	if len(one.Failed) > 0 {
		v.count.Failed++
	}
}

func (v *verdicts) stats() GuardStats {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.count
	c.Verdicts, c.Denied = maps.Clone(v.count.Verdicts), maps.Clone(v.count.Denied)
	return c
}
