//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
)

// usage is the memory of one moment, in MiB; Linux only, else zero. Together
// counts pages that both processes map (the program's text) once.
type usage struct {
	When      string  `json:"when"`
	Service   float64 `json:"serviceRss"`
	Endpoint  float64 `json:"endpointRss"`
	Anonymous float64 `json:"anonymous"` // of both
	Together  float64 `json:"together"`  // Pss of both
}

// sampler keeps the largest usage of each occasion.
type sampler struct{ list []usage }

func (s *sampler) look(when string, pid int) {
	u := usage{When: when}
	service := rollup(pid)
	u.Service, u.Anonymous, u.Together = service["Rss"], service["Anonymous"], service["Pss"]
	for _, child := range children(pid) {
		endpoint := rollup(child)
		u.Endpoint += endpoint["Rss"]
		u.Anonymous += endpoint["Anonymous"]
		u.Together += endpoint["Pss"]
	}
	for i := range s.list {
		if old := &s.list[i]; old.When == when {
			if u.Together > old.Together {
				*old = u
			}
			return
		}
	}
	s.list = append(s.list, u)
}

// rollup is /proc/PID/smaps_rollup in MiB.
func rollup(pid int) map[string]float64 {
	out := map[string]float64{}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		var kib float64
		if _, err := fmt.Sscan(rest, &kib); err == nil {
			out[name] = kib / 1024
		}
	}
	return out
}

func printUsage(w io.Writer, list []usage) {
	fmt.Fprintf(w, "%-34s %8s %8s %8s %8s\n", "memory (MiB)", "service", "endpoint", "anon", "together")
	for _, u := range list {
		fmt.Fprintf(w, "%-34s %8.1f %8.1f %8.1f %8.1f\n", u.When, u.Service, u.Endpoint, u.Anonymous, u.Together)
	}
}

// Limits of issue 7, in MiB.
const (
	idleLimit = 40
	fullLimit = 70
)

// measured is what -memory prints.
type measured struct {
	Memory []usage `json:"memory"`
	Spool  int64   `json:"spoolBytes"`
	Bad    []string
}

func (m *measured) ok() bool { return len(m.Bad) == 0 }

func (m *measured) print(w io.Writer) {
	printUsage(w, m.Memory)
	fmt.Fprintf(w, "spool held %.0f MiB; limits: %d MiB idle, %d MiB with a full spool\n", float64(m.Spool)/(1<<20), idleLimit, fullLimit)
	for _, b := range m.Bad {
		fmt.Fprintln(w, "FAILED:", b)
	}
}

// settle is longer than the agent takes to give memory back.
const settle = 15 * time.Second

// measureMemory looks at an agent that has just started, that has judged with
// every detector, and whose spool is full because its collector is away.
func measureMemory(ctx context.Context, _ options, dir string, programs world.Programs) (result, error) {
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
	if _, err := s.Publish(ctx, policy); err != nil {
		return nil, err
	}
	m, err := s.machine(ctx, "machine", "default", "spoolMaxMiB: 64\n")
	if err != nil {
		return nil, err
	}
	defer func() { m.Agent.Stop() }()
	out := &measured{}
	watch := &sampler{}
	wait(ctx, settle)
	watch.look("idle after the start", m.Agent.PID())

	l := newLoad(m)
	entries, err := registered(m.HookFile("dev"))
	if err != nil {
		return nil, err
	}
	transport := l.transport()
	if err := ask(ctx, transport); err != nil {
		return nil, err
	}
	for i := range 20 {
		l.hook(entries["PreToolUse"], "PreToolUse", fmt.Sprintf("memory-%d", i), "go test ./...")
	}
	wait(ctx, settle)
	watch.look("idle, detectors loaded", m.Agent.PID())

	s.kill()
	r := rand.New(rand.NewPCG(1, 1))
	flood, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	go func() {
		for flood.Err() == nil {
			watch.look("most while the spool fills", m.Agent.PID())
			wait(flood, 200*time.Millisecond)
		}
	}()
	for flood.Err() == nil {
		id := fmt.Sprintf("%016x", r.Uint64()|1)
		l.deliver(transport, id, adapterSpan(id, 0, true))
	}
	wait(ctx, settle)
	watch.look("spool full, idle", m.Agent.PID())
	out.Memory = watch.list
	var status struct {
		Service struct {
			Detail struct {
				Endpoint struct {
					Relay struct {
						Spool struct{ Bytes, DroppedFull int64 }
					}
				}
			}
		}
	}
	if err := m.Call(ctx, &status, "status", "--json"); err != nil {
		return nil, err
	}
	out.Spool = status.Service.Detail.Endpoint.Relay.Spool.Bytes
	for _, u := range out.Memory {
		limit := float64(idleLimit)
		if strings.Contains(u.When, "spool") {
			limit = fullLimit
		}
		if u.Together > limit {
			out.Bad = append(out.Bad, fmt.Sprintf("%s: %.1f MiB, at most %.0f", u.When, u.Together, limit))
		}
	}
	if out.Spool < 32<<20 {
		out.Bad = append(out.Bad, "the spool was not full")
	}
	return out, errors.Join(ctx.Err())
}

// ask has the guard look for secrets of every kind in a long output.
func ask(ctx context.Context, transport http.RoundTripper) error {
	body := adapterSpan("00000000000000aa", 0, true)
	words := "aws_secret_access_key token password api_key ghp_ xoxb- sk_live_ AKIA glpat- eyJ -----BEGIN PRIVATE KEY----- client_secret https://hooks.slack.com/services/ "
	body = strings.Replace(body, "a line of output", words, 200)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/guard/evaluate", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("X-Pinta-Guard-Budget-Ms", "8000")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("the guard answers %s: %s", response.Status, text)
	}
	return nil
}
