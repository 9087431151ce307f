//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
	"github.com/pinta-ai/pinta-agent/sync/relay"
)

const policy = `mode: enforce
timeoutMs: 1500
rules:
  - id: deny_recursive_delete
    on: tool_input
    tools: [shell]
    when: commands.exists(c, c.name == 'rm' && c.flags.exists(f, f == 'r' || f == 'recursive'))
    action: deny
    message: "Not here."
  - id: mask_secrets
    on: tool_output
    detect: [secrets]
    action: mask
    message: "The output held a secret, which was masked."
`

// report is what a soak found.
type report struct {
	Seconds   float64        `json:"seconds"`
	Seed      uint64         `json:"seed"`
	Faults    map[string]int `json:"faults"`
	Manager   tally          `json:"manager"`   // a machine that delivers to the Manager
	Collector tally          `json:"collector"` // one that delivers to the collector itself
	Forwarded tally          `json:"forwarded"` // what the Manager handed on to the collector
	Post      quantiles      `json:"post"`      // an adapter's post, answered at the first try
	Relay     quantiles      `json:"relay"`     // the same in the agent's own view, the last 1 000
	Hook      quantiles      `json:"hook"`      // whole runs of the hook with a shell around
	Retried   int            `json:"retried"`
	Memory    []usage        `json:"memory"`
	Broken    []string       `json:"broken,omitempty"`
}

// tally compares what went in with what is there.
type tally struct {
	In         int `json:"in"`
	Out        int `json:"out"` // different spans
	Lost       int `json:"lost"`
	Duplicated int `json:"duplicated"`
}

func (r *report) ok() bool {
	return r.Manager.Lost == 0 && r.Manager.Duplicated == 0 && r.Collector.Lost == 0 && r.Forwarded.Lost == 0 && len(r.Broken) == 0 && r.Manager.In > 0
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%.0f s of load with faults (seed %d)\n", r.Seconds, r.Seed)
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(w, "  %3d x %s\n", r.Faults[name], name)
	}
	fmt.Fprintf(w, "%-34s %8s %8s %8s %10s\n", "spans", "in", "out", "lost", "duplicated")
	for _, line := range []struct {
		name string
		t    tally
	}{{"to the Manager", r.Manager}, {"to a collector", r.Collector}, {"from the Manager to a collector", r.Forwarded}} {
		fmt.Fprintf(w, "%-34s %8d %8d %8d %10d\n", line.name, line.t.In, line.t.Out, line.t.Lost, line.t.Duplicated)
	}
	fmt.Fprintf(w, "%-34s %8s %8s %8s %8s\n", "latency", "n", "p50", "p99", "max (ms)")
	for _, line := range []struct {
		name string
		q    quantiles
	}{{"post of a span", r.Post}, {"  as the relay sees it", r.Relay}, {"run of the hook", r.Hook}} {
		fmt.Fprintf(w, "%-34s %8d %8.1f %8.1f %8.1f\n", line.name, line.q.N, line.q.P50, line.q.P99, line.q.Max)
	}
	fmt.Fprintf(w, "%d posts were made again after no answer or a refusal\n", r.Retried)
	printUsage(w, r.Memory)
	for _, b := range r.Broken {
		fmt.Fprintln(w, "broken:", b)
	}
	if r.ok() {
		fmt.Fprintln(w, "nothing lost; nothing twice at the Manager")
	} else {
		fmt.Fprintln(w, "FAILED")
	}
}

func soak(ctx context.Context, o options, dir string, programs world.Programs) (result, error) {
	c, err := startCollector()
	if err != nil {
		return nil, err
	}
	defer c.close()
	s, err := startSite(ctx, dir, programs, c.url)
	if err != nil {
		return nil, err
	}
	defer func() { s.kill() }()
	managed, direct, err := twoMachines(ctx, s, c)
	if err != nil {
		return nil, err
	}
	defer func() { managed.Agent.Stop(); direct.Agent.Stop() }()

	r := &report{Seed: o.seed}
	random := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(o.seed, n)) }
	watch := &sampler{}
	toManager, toCollector := newLoad(managed), newLoad(direct)
	chaos := &chaos{o: o, site: s, collector: c, machines: []*world.Machine{managed, direct}, rand: random(0)}
	start := time.Now()
	timed, stop := context.WithTimeout(ctx, o.length)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { toManager.post(timed, o.rate, random(1)) })
	wg.Go(func() { toCollector.post(timed, o.rate, random(2)) })
	wg.Go(func() { toManager.hooks(timed, o.hooks, random(3)) })
	wg.Go(func() { chaos.run(timed) })
	wg.Go(func() {
		for timed.Err() == nil {
			chaos.mu.Lock()
			watch.look("under load", managed.Agent.PID())
			chaos.mu.Unlock()
			wait(timed, 2*time.Second)
		}
	})
	wg.Wait()
	r.Seconds, r.Faults = time.Since(start).Seconds(), chaos.done
	if err := errors.Join(ctx.Err(), chaos.err); err != nil {
		return nil, err
	}
	if err := r.count(ctx, s, c, toManager, toCollector); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, managed.Agent.Tail())
	}
	wait(ctx, 12*time.Second)
	watch.look("idle afterwards", managed.Agent.PID())
	r.Memory = watch.list
	r.Post, r.Hook = quantilesOf(slices.Concat(toManager.times, toCollector.times)), quantilesOf(toManager.runs)
	r.Retried, r.Broken = toManager.retried+toCollector.retried, slices.Concat(toManager.broken, toCollector.broken)
	r.Relay, err = ownView(ctx, managed)
	return r, err
}

// twoMachines are one that delivers to the Manager and one of a group whose
// telemetry goes straight to the collector.
func twoMachines(ctx context.Context, s *site, c *collector) (managed, direct *world.Machine, err error) {
	if _, err := s.Publish(ctx, policy); err != nil {
		return nil, nil, err
	}
	if err := s.Admin(ctx, nil, "group", "create", "direct"); err != nil {
		return nil, nil, err
	}
	file := filepath.Join(s.Dir, "direct.yaml")
	if err := os.WriteFile(file, []byte(policy+"telemetry: {endpoint: \""+c.url+"\"}\n"), 0o600); err != nil {
		return nil, nil, err
	}
	if err := s.Admin(ctx, nil, "policy", "apply", "-f", file, "--group", "direct"); err != nil {
		return nil, nil, err
	}
	if managed, err = s.machine(ctx, "managed", "default", ""); err != nil {
		return nil, nil, err
	}
	direct, err = s.machine(ctx, "direct", "direct", "")
	return managed, direct, err
}

// drainTime covers the service's round through the users' queues, and the
// longest wait between two tries after a fault.
const drainTime = 4 * time.Minute

// count waits until everything has arrived, and a moment more for what comes
// twice.
func (r *report) count(ctx context.Context, s *site, c *collector, toManager, toCollector *load) error {
	var at, after arrivals
	look := func() (err error) {
		at, err = atManager(ctx, s, toManager.m.Device)
		after = atCollector(c)
		return err
	}
	end := time.Now().Add(drainTime)
	for {
		if err := look(); err != nil {
			return err
		}
		r.Manager, r.Collector, r.Forwarded = at.compare(toManager), after.compare(toCollector), after.compare(toManager)
		if r.Manager.Lost+r.Collector.Lost+r.Forwarded.Lost == 0 || time.Now().After(end) {
			break
		}
		wait(ctx, 2*time.Second)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	wait(ctx, 5*time.Second)
	if err := look(); err != nil {
		return err
	}
	r.Manager, r.Collector, r.Forwarded = at.compare(toManager), after.compare(toCollector), after.compare(toManager)
	return nil
}

// arrivals are how often each span arrived, by its id or its hook's session.
type arrivals map[string]int

func (a arrivals) compare(l *load) tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := tally{In: len(l.spans) + len(l.sessions)}
	for _, want := range []map[string]bool{l.spans, l.sessions} {
		for key := range want {
			switch n := a[key]; n {
			case 0:
				t.Lost++
			default:
				t.Out++
				t.Duplicated += n - 1
			}
		}
	}
	return t
}

func atManager(ctx context.Context, s *site, device string) (arrivals, error) {
	file := filepath.Join(s.Dir, "events.jsonl")
	os.Remove(file)
	if err := s.Admin(ctx, nil, "events", "export", "--device", device, "-o", file); err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a := arrivals{}
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, err
		}
		var e struct{ SpanID, Session string }
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		a.add(e.SpanID, e.Session)
	}
}

func atCollector(c *collector) arrivals {
	a := arrivals{}
	for _, span := range c.Received() {
		a.add(span.ID, span.Attributes["copilot.session_id"])
	}
	return a
}

// add counts an adapter's span by its id and a hook's by its session.
func (a arrivals) add(id, session string) {
	if session == "adapter" {
		a[id]++
	} else {
		a[session]++
	}
}

// ownView is what the relay says about its answers.
func ownView(ctx context.Context, m *world.Machine) (quantiles, error) {
	var s struct {
		Service struct {
			Detail struct {
				Endpoint struct {
					Relay struct {
						Answers relay.Quantiles `json:"answerMs"`
					}
				}
			}
		}
	}
	err := m.Call(ctx, &s, "status", "--json")
	q := s.Service.Detail.Endpoint.Relay.Answers
	return quantiles{N: q.N, P50: q.P50, P99: q.P99, Max: q.Max}, err
}
