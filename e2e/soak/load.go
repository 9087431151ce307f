//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
)

// load is what one machine is given to deliver.
type load struct {
	m *world.Machine

	mu       sync.Mutex
	spans    map[string]bool // ids of spans that the relay answered for
	sessions map[string]bool // of hook runs, each of one span
	times    []time.Duration // of posts answered at the first try
	runs     []time.Duration // of hooks
	retried  int             // posts that had no answer, and were made again
	broken   []string        // hook runs that weren't as they must be
}

func newLoad(m *world.Machine) *load {
	return &load{m: m, spans: map[string]bool{}, sessions: map[string]bool{}}
}

// transport calls the machine's agent, with a connection for each call as a
// hook does.
func (l *load) transport() http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(l.m.Root, "run", "pinta-agent", "agent.sock"))
	}, DisableKeepAlives: true}
}

// post has an adapter post spans until ctx ends, each again until it is
// answered for, as a hook's queue does.
func (l *load) post(ctx context.Context, rate int, r *rand.Rand) {
	transport := l.transport()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	turn := make(chan struct{}, 64)
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		id := fmt.Sprintf("%016x", r.Uint64()|1)
		body := adapterSpan(id, r.IntN(2500), r.IntN(200) == 0)
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			l.deliver(transport, id, body)
		})
	}
}

func (l *load) deliver(transport http.RoundTripper, id, body string) {
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		start := time.Now()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/v1/traces", strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := transport.RoundTrip(request)
		status := 0
		if err == nil {
			if _, err = io.Copy(io.Discard, response.Body); err == nil {
				status = response.StatusCode
			}
			response.Body.Close()
		}
		cancel()
		took := time.Since(start)
		l.mu.Lock()
		if status == http.StatusOK {
			l.spans[id] = true
			if try == 0 {
				l.times = append(l.times, took)
			}
			l.mu.Unlock()
			return
		}
		l.retried++
		l.mu.Unlock()
		time.Sleep(200 * time.Millisecond)
	}
}

// adapterSpan has intValue as a number, as some adapters write it.
func adapterSpan(id string, pad int, large bool) string {
	text := strings.Repeat("x", pad)
	if large {
		text = strings.Repeat("a line of output\\n", 12_000)
	}
	now := time.Now().UnixNano()
	return fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%032x","spanId":%q,"name":"copilot.PostToolUse","kind":1,"startTimeUnixNano":"%d","endTimeUnixNano":"%d","attributes":[`+
		`{"key":"ingest.type","value":{"stringValue":"copilot"}},{"key":"copilot.hook","value":{"stringValue":"PostToolUse"}},{"key":"copilot.turn","value":{"intValue":7}},`+
		`{"key":"copilot.session_id","value":{"stringValue":"adapter"}},{"key":"copilot.tool_result","value":{"stringValue":"%s"}}]}]}]}]}`, now, id, now, now, text)
}

// hooks runs the registered hook as a host does, some of them denied.
func (l *load) hooks(ctx context.Context, rate int, r *rand.Rand) {
	entries, err := registered(l.m.HookFile("dev"))
	if err != nil {
		l.note("hook file: " + err.Error())
		return
	}
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	turn := make(chan struct{}, 4)
	var wg sync.WaitGroup
	defer wg.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		session := fmt.Sprintf("soak-%d-%08x", n, r.Uint32())
		event, command := []string{"PreToolUse", "PostToolUse", "UserPromptSubmit"}[n%3], "go test ./..."
		if n%15 == 0 { // denied: its span goes by the queue
			event, command = "PreToolUse", "rm -r build"
		}
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			l.hook(entries[event], event, session, command)
		})
	}
}

type entry struct {
	Bash string            `json:"bash"`
	Env  map[string]string `json:"env"`
}

func registered(path string) (map[string]entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Hooks map[string][]entry `json:"hooks"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	out := map[string]entry{}
	for event, list := range file.Hooks {
		out[event] = list[0]
	}
	return out, nil
}

func (l *load) hook(e entry, event, session, command string) {
	payload, err := json.Marshal(map[string]any{"hook_event_name": event, "session_id": session, "cwd": l.m.Home("dev"),
		"timestamp": time.Now().UTC().Format(time.RFC3339Nano), "tool_name": "Bash", "tool_input": map[string]any{"command": command},
		"tool_result": map[string]any{"result_type": "success", "text_result_for_llm": "ok\n"}, "prompt": "go on"})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", e.Bash)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.m.Home("dev"), "LANG=C.UTF-8", "COPILOT_CLI=1", "COPILOT_CLI_BINARY_VERSION=1.0.49"}
	for k, v := range e.Env {
		c.Env = append(c.Env, k+"="+v)
	}
	var stderr bytes.Buffer
	c.Stdin, c.Stderr = bytes.NewReader(payload), &stderr
	start := time.Now()
	out, err := c.Output()
	took := time.Since(start)
	if err != nil {
		l.note(fmt.Sprintf("hook for %s: %v %s", event, err, stderr.Bytes()))
		return
	}
	if len(out) > 0 && !json.Valid(out) {
		l.note(fmt.Sprintf("hook for %s prints what is no JSON: %.200s", event, out))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions[session] = true
	l.runs = append(l.runs, took)
}

func (l *load) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.broken) < 20 {
		l.broken = append(l.broken, what)
	}
}

// quantiles are in milliseconds.
type quantiles struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50Ms"`
	P99 float64 `json:"p99Ms"`
	Max float64 `json:"maxMs"`
}

func quantilesOf(times []time.Duration) quantiles {
	if len(times) == 0 {
		return quantiles{}
	}
	slices.Sort(times)
	at := func(percent int) float64 {
		return float64(times[(len(times)-1)*percent/100].Microseconds()) / 1000
	}
	return quantiles{len(times), at(50), at(99), at(100)}
}
