//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
)

// site is world.Site with a Manager that can be killed and started again at
// its address.
type site struct {
	*world.Site
	listen  string
	command *exec.Cmd
}

// startSite starts a Manager that forwards to the URL.
func startSite(ctx context.Context, dir string, p world.Programs, forward string) (*site, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{listen: l.Addr().String(), Site: &world.Site{Dir: dir, Programs: p}}
	l.Close()
	return s, s.start(ctx, forward)
}

func (s *site) start(ctx context.Context, forward string) error {
	ready := filepath.Join(s.Dir, "manager.ready")
	os.Remove(ready)
	log, err := os.OpenFile(filepath.Join(s.Dir, "manager.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.command = exec.Command(s.Programs.Manager, "serve", "--data", filepath.Join(s.Dir, "manager"), "--listen", s.listen,
		"--ready-file", ready, "--forward", forward)
	s.command.Stdout, s.command.Stderr = log, log
	if err := s.command.Start(); err != nil {
		return fmt.Errorf("start the Manager: %w", err)
	}
	return world.Until(ctx, 30*time.Second, func() error {
		data, err := os.ReadFile(ready)
		if err != nil {
			return err
		}
		var r struct {
			URL          string `json:"url"`
			AdminKeyFile string `json:"adminKeyFile"`
		}
		err = json.Unmarshal(data, &r)
		s.URL, s.AdminKey = r.URL, r.AdminKeyFile
		return err
	})
}

// kill ends the Manager as a power cut would.
func (s *site) kill() {
	s.command.Process.Kill()
	s.command.Wait()
}

// machine enrols a new machine of the group, with a user dev, and starts its
// agent.
func (s *site) machine(ctx context.Context, name, group, settings string) (*world.Machine, error) {
	m := s.Machine(filepath.Join(s.Dir, name))
	if err := os.MkdirAll(m.Home("dev"), 0o755); err != nil {
		return nil, err
	}
	if settings != "" {
		file := filepath.Join(m.Root, "etc", "pinta-agent", "agent.yaml")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(settings), 0o600)); err != nil {
			return nil, err
		}
	}
	var t world.Token
	if err := s.Admin(ctx, &t, "token", "create", "--group", group); err != nil {
		return nil, err
	}
	if _, err := m.Enroll(ctx, t.Token); err != nil {
		return nil, err
	}
	return m, m.Start(ctx)
}

// collector is a plain collector behind a door that misbehaves on demand.
type collector struct {
	*world.Collector
	url  string
	door *http.Server

	mu   sync.Mutex
	mode string
	hits int
}

// The ways in which the collector's door misbehaves.
var moods = []string{"503", "429", "slow", "cut", "refuse"}

func startCollector() (*collector, error) {
	inner, err := world.StartCollector()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &collector{Collector: inner, url: "http://" + l.Addr().String() + "/v1/traces"}
	c.door = &http.Server{Handler: http.HandlerFunc(c.serve), ReadHeaderTimeout: 5 * time.Second}
	go c.door.Serve(l)
	return c, nil
}

func (c *collector) close() {
	c.door.Close()
	c.Close()
}

func (c *collector) set(mode string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mode, c.hits = mode, 0
}

func (c *collector) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/traces" { // it takes no metrics
		http.NotFound(w, r)
		return
	}
	c.mu.Lock()
	mode := c.mode
	c.hits++
	first := c.hits == 1
	c.mu.Unlock()
	pass := func(w http.ResponseWriter) {
		request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, c.URL, r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		request.Header = r.Header
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer response.Body.Close()
		w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
		w.WriteHeader(response.StatusCode)
	}
	switch mode {
	case "503":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "429":
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusTooManyRequests)
	case "slow":
		time.Sleep(3 * time.Second)
		pass(w)
	case "cut": // taken, but the answer is lost; once, since each may repeat a batch
		if first {
			pass(discard{})
		}
		panic(http.ErrAbortHandler)
	case "refuse":
		panic(http.ErrAbortHandler)
	default:
		pass(w)
	}
}

// discard is a ResponseWriter to nowhere.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
