package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager"
)

// fleet is all agents and the Manager that they belong to.
type fleet struct {
	options
	manager *process
	admin   *api.Client
	token   token.Token
	agents  []*agent
	rate    *rate

	enrolled, failures, busy, held, errors atomic.Int64
	down                                   atomic.Bool // errors are explained by a restart

	checked atomic.Pointer[checked]
	buffers sync.Pool // of *bytes.Buffer

	mu        sync.Mutex
	published time.Time
	version   int64
	acks      []time.Duration
}

// newFleet starts a Manager and tells its memory before it has an agent, in KiB.
func newFleet(ctx context.Context, o options) (f *fleet, base int64, err error) {
	f = &fleet{options: o, manager: &process{dir: o.dir}, rate: newRate()}
	if err := f.manager.start(ctx); err != nil {
		return nil, 0, err
	}
	base = f.manager.rss()
	key, err := manager.ReadAdminKeyFile(f.manager.keyFile)
	if err != nil {
		return nil, 0, err
	}
	network, err := key.Network()
	if err != nil {
		return nil, 0, err
	}
	client, err := network.HTTPClient()
	if err != nil {
		return nil, 0, err
	}
	f.admin = &api.Client{BaseURL: f.manager.url, HTTP: client, Authorize: func(r *http.Request, _ []byte) error {
		r.Header.Set("Authorization", "Bearer "+key.Key)
		return nil
	}}
	return f, base, f.makeToken(ctx)
}

// makeToken makes a reusable token.
func (f *fleet) makeToken(ctx context.Context) error {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	made, err := api.JSON[api.TokenCreated](f.admin.CreateToken(ctx, api.TokenCreate{ID: ulid.Make().String(), PublicKey: api.EncodeKey(pub), TTLSeconds: 3600}))
	if err != nil {
		return err
	}
	root, err := token.ParseFingerprint(made.Root)
	if err != nil {
		return err
	}
	pin, err := token.ParseFingerprint(made.TLSPin)
	if err != nil {
		return err
	}
	f.token, err = token.FromKey(key, made.URL, made.ID, root, pin)
	return err
}

// enrolAll enrols the fleet, as many at a time as there are workers.
func (f *fleet) enrolAll(ctx context.Context) (time.Duration, error) {
	jobs := make(chan *agent)
	var wg sync.WaitGroup
	began := time.Now()
	for range f.workers {
		wg.Go(func() {
			for a := range jobs {
				if err := a.enrol(ctx); err != nil {
					if f.failures.Add(1) <= 5 {
						fmt.Fprintf(os.Stderr, "enrolment: %v\n", err)
					}
				}
			}
		})
	}
	for range f.options.agents {
		a, err := newAgent(f)
		if err != nil {
			return 0, err
		}
		f.agents = append(f.agents, a)
		select {
		case jobs <- a:
		case <-ctx.Done():
		}
	}
	close(jobs)
	wg.Wait()
	return time.Since(began), ctx.Err()
}

func (f *fleet) startAll(ctx context.Context) {
	for _, a := range f.agents {
		go a.pollLoop(ctx)
		go a.reportLoop(ctx)
	}
}

// publish publishes a policy and returns how long each agent took to have its acknowledgement taken.
func (f *fleet) publish(ctx context.Context) ([]time.Duration, error) {
	f.mu.Lock()
	f.published, f.version, f.acks = time.Now(), 2, nil
	f.mu.Unlock()
	v, err := api.JSON[api.PolicyVersion](f.admin.PublishPolicy(ctx, api.PolicyPublish{Files: []api.PolicyFile{{Name: "builtin"}}}))
	if err != nil {
		return nil, err
	}
	if v.Version != 2 {
		return nil, fmt.Errorf("published version %d", v.Version)
	}
	err = f.until(ctx, 90*time.Second, "everybody has the new policy", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.acks) >= len(f.agents)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(err, errTime) {
		err = nil // what is missing shows in the count
	}
	return append([]time.Duration(nil), f.acks...), err
}

// checked is the last config document that held.
type checked struct {
	doc     []byte
	version int64
}

// take reads a config and checks it as an agent does. All agents get the same document, so one check and a few buffers are for
// all: on one machine those of ten thousand would take the time that is to be measured.
func (f *fleet) take(a *agent, res *http.Response, err error) (version int64, _ error) {
	if err != nil || res.StatusCode != http.StatusOK {
		_, err := api.Raw(res, err)
		return 0, err
	}
	defer res.Body.Close()
	b, _ := f.buffers.Get().(*bytes.Buffer)
	if b == nil {
		b = new(bytes.Buffer)
	}
	defer f.buffers.Put(b)
	b.Reset()
	if _, err := b.ReadFrom(io.LimitReader(res.Body, api.MaxConfig)); err != nil {
		return 0, fmt.Errorf("read the config: %w", err)
	}
	if last := f.checked.Load(); last != nil && bytes.Equal(last.doc, b.Bytes()) {
		return last.version, nil
	}
	doc, err := unpacked(res.Header, b.Bytes())
	if err != nil {
		return 0, fmt.Errorf("read the config: %w", err)
	}
	var c api.GuardConfig
	if err := api.Verify(doc, &c, a.keys); err != nil {
		return 0, err
	}
	if c.Aud != a.caller.Audience || c.Version < a.version.Load() || !time.Now().Before(c.ExpiresAt) {
		return 0, fmt.Errorf("config %d isn't for this agent now", c.Version)
	}
	f.checked.Store(&checked{bytes.Clone(b.Bytes()), c.Version})
	return c.Version, nil
}

func unpacked(h http.Header, body []byte) (string, error) {
	if h.Get("Content-Encoding") != "gzip" {
		return string(body), nil
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	doc, err := io.ReadAll(io.LimitReader(z, api.MaxConfig))
	return string(doc), err
}

// acked notes that the Manager took an agent's first report of a version.
func (f *fleet) acked(a *agent, version int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if version == f.version && a.acked != version {
		a.acked = version
		f.acks = append(f.acks, time.Since(f.published))
	}
}

// restart ends the Manager, starts it anew and waits until everybody polls again.
func (f *fleet) restart(ctx context.Context, o options) (time.Duration, error) {
	f.down.Store(true)
	sig := os.Signal(terminate)
	if o.kill {
		sig = os.Kill
	}
	before := f.generation()
	took := f.manager.end(sig)
	began := time.Now()
	if !o.kill && took > 5*time.Second {
		return 0, fmt.Errorf("the Manager took %s to end", took)
	}
	if err := f.manager.start(ctx); err != nil {
		return 0, err
	}
	err := f.until(ctx, 3*time.Minute, "everybody is back", func() bool {
		for _, a := range f.agents {
			if a.polls.Load() <= before[a] {
				return false
			}
		}
		return true
	})
	f.down.Store(false)
	return time.Since(began), err
}

// generation is how many polls of each agent have been answered or are held.
func (f *fleet) generation() map[*agent]int64 {
	m := make(map[*agent]int64, len(f.agents))
	for _, a := range f.agents {
		m[a] = a.polls.Load()
	}
	return m
}

var errTime = errors.New("not in time")

func (f *fleet) until(ctx context.Context, limit time.Duration, what string, ok func() bool) error {
	for end := time.Now().Add(limit); !ok(); {
		if time.Now().After(end) {
			return fmt.Errorf("%s: %w", what, errTime)
		}
		if !pause(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}
