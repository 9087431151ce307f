// Package manager is the reference Manager: it enrols devices, gives each group its signed guard config, takes reports and
// traces, and lets administrators do what manager.md 6 lists. Everything that it trusts is a signature or a hash in its
// store; everything that it tells a device is signed. It runs no hook, judges no event but for policy tests, and holds no
// secret of a token or an API key.
package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// Options say how a Manager runs. Zero values are the defaults in brackets.
type Options struct {
	Dir        string        // data directory
	URL        string        // how agents reach it
	Pin        []byte        // SHA-256 of the own CA's SPKI, for tokens; nil with a public certificate
	Checkin    time.Duration // between reports [60 s]
	ConfigLife time.Duration // of a signed config; it is signed anew at half of it [7 days]
	EventAge   time.Duration // events older than this are dropped [30 days]
	EventBytes int64         // oldest events are dropped beyond this [4 GiB]
	Forward    string        // OTLP/HTTP endpoint that gets all traces as well
	Trusted    []string      // CIDRs of reverse proxies whose X-Forwarded-For counts
	CloneGrace time.Duration // how long calls of the boot before may still arrive [10 s]
	Log        *slog.Logger
	Now        func() time.Time
	Policies   Policies
}

func (o *Options) defaults() {
	set(&o.Checkin, 60*time.Second)
	set(&o.ConfigLife, 7*24*time.Hour)
	set(&o.EventAge, 30*24*time.Hour)
	set(&o.EventBytes, 4<<30)
	set(&o.CloneGrace, 10*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

func set[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// tenant is the only one of this server. Every transaction names it, so that a server of many can follow.
const tenant = "default"

// Manager is a running Manager without its listener.
type Manager struct {
	opt       Options
	store     store.Store
	keys      *keyring
	hub       *hub
	seen      *sightings
	refusals  refusals
	replay    *replay
	known     deviceCache
	gates     gates
	proxies   proxies
	audience  string
	urls      map[string]bool // audiences that an enrolment may name
	started   atomic.Int64    // Unix seconds; since
	ids       *idMaker
	forwarder *forwarder
	lot       *lot // takes held connections back; nil: they end with their answer
}

// Open opens or founds the Manager in opt.Dir.
func Open(opt Options) (*Manager, error) {
	opt.defaults()
	var err error
	if opt.URL, err = token.CheckURL(opt.URL); err != nil { // as tokens carry it, since it is the audience of enrolments
		return nil, fmt.Errorf("--url: %w", err)
	}
	if err := safefile.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	m := &Manager{opt: opt, ids: newIDs(opt.Now), replay: newReplay(opt.Now), gates: newGates()}
	m.started.Store(opt.Now().Unix())
	if m.proxies, err = parseProxies(opt.Trusted); err != nil {
		return nil, err
	}
	if m.keys, err = openKeyring(opt.Dir); err != nil {
		return nil, err
	}
	db, err := store.OpenBolt(filepath.Join(opt.Dir, "manager.db"))
	if err != nil {
		return nil, err
	}
	m.store = db
	if err := m.found(context.Background()); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	m.hub, m.seen = newHub(), newSightings()
	if opt.Forward != "" {
		m.forwarder = newForwarder(m)
	}
	if err := m.signConfigs(context.Background()); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return m, nil
}

// found makes what the first start needs and remembers the URL of this one.
func (m *Manager) found(ctx context.Context) error {
	return m.store.Update(ctx, tenant, func(tx store.Tx) error {
		if err := m.keys.state(tx, m); err != nil {
			return err
		}
		meta, err := metas.Get(tx, metaServer)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		// Devices keep the audience that they were enrolled with, so it never changes; the URL may.
		set(&meta.Audience, m.opt.URL)
		if meta.URLs == nil {
			meta.URLs = map[string]bool{}
		}
		meta.URLs[m.opt.URL], meta.URLs[meta.Audience] = true, true
		m.audience, m.urls = meta.Audience, meta.URLs
		if err := metas.Put(tx, metaServer, meta); err != nil {
			return err
		}
		if _, err := groups.Get(tx, DefaultGroup); errors.Is(err, store.ErrNotFound) {
			if err := groups.Put(tx, DefaultGroup, api.Group{Name: DefaultGroup, CreatedAt: m.opt.Now().UTC()}); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		return m.foundPolicy(tx)
	})
}

// Handler serves the API.
func (m *Manager) Handler() http.Handler { return m.routes() }

// Run does what has to be done now and then until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	if m.forwarder != nil {
		go m.forwarder.run(ctx)
	}
	configs, stop := m.store.Watch(tenant, topicConfig)
	defer stop()
	often, seldom := time.NewTicker(5*time.Second), time.NewTicker(time.Minute)
	defer often.Stop()
	defer seldom.Stop()
	try := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			m.opt.Log.Error(what, "err", err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-configs:
			try("load configs", m.loadConfigs(ctx))
		case <-often.C:
			try("write reports", m.flushReports(ctx))
		case <-seldom.C:
			try("sign configs", m.signConfigs(ctx))
			try("drop old events", m.retain(ctx))
		}
	}
}

// Release answers held polls at once and refuses new ones; the first step of ending.
func (m *Manager) Release() { m.hub.release() }

// Close writes what is pending and closes the store.
func (m *Manager) Close() error {
	m.Release()
	return errors.Join(m.flushReports(context.Background()), m.store.Close())
}

// Root is the fingerprint of the root key.
func (m *Manager) Root() string { return m.keys.root.id }

// view and update are the store with the tenant of this server.
func (m *Manager) view(ctx context.Context, fn func(store.Tx) error) error {
	return m.store.View(ctx, tenant, fn)
}

func (m *Manager) update(ctx context.Context, fn func(store.Tx) error) error {
	return m.store.Update(ctx, tenant, fn)
}

// idMaker gives ULIDs that only go up, so that keys made of them are in the order of their making.
type idMaker struct {
	now func() time.Time
	src *ulid.LockedMonotonicReader
}

func newIDs(now func() time.Time) *idMaker {
	return &idMaker{now, &ulid.LockedMonotonicReader{MonotonicReader: ulid.Monotonic(randomSource{}, 0)}}
}

func (g *idMaker) next() string { return ulid.MustNew(ulid.Timestamp(g.now()), g.src).String() }
