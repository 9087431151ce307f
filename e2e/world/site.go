package world

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// Site is what serves the machines: one Manager and one collector.
type Site struct {
	Dir       string // throw-away; logs and the Manager's data lie here
	Programs  Programs
	Collector *Collector
	Manager   *Process
	URL       string // of the Manager
	AdminKey  string // its admin key file
}

// Open starts a collector and a Manager that forwards to it.
func Open(ctx context.Context, dir string, programs Programs) (*Site, error) {
	s := &Site{Dir: dir, Programs: programs}
	var err error
	if s.Collector, err = StartCollector(); err != nil {
		return nil, err
	}
	if err := s.startManager(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close stops the Manager and the collector.
func (s *Site) Close() {
	s.Manager.Stop()
	s.Collector.Close()
}

func (s *Site) startManager(ctx context.Context) error {
	readyFile := filepath.Join(s.Dir, "manager.ready")
	var err error
	s.Manager, err = start(s.Dir, "manager", s.Programs.Manager, "serve", "--data", filepath.Join(s.Dir, "manager"),
		"--listen", "127.0.0.1:0", "--ready-file", readyFile, "--forward", s.Collector.URL)
	if err != nil {
		return err
	}
	// What the Manager writes when it serves (manager.md section 7).
	var ready struct {
		URL          string `json:"url"`
		AdminKeyFile string `json:"adminKeyFile"`
	}
	err = Until(ctx, 30*time.Second, func() error {
		if err := s.Manager.ended("the Manager"); err != nil {
			return err
		}
		data, err := os.ReadFile(readyFile)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &ready)
	})
	if err != nil {
		return fmt.Errorf("wait for the Manager: %w", err)
	}
	s.URL, s.AdminKey = ready.URL, ready.AdminKeyFile
	return nil
}

// Admin runs a pinta-manager command against the Manager.
func (s *Site) Admin(ctx context.Context, into any, args ...string) error {
	args = append(args, "--json", "--server", s.URL, "--admin-key-file", s.AdminKey)
	return call(ctx, s.Dir, into, s.Programs.Manager, args...)
}

// Publish has the Manager apply a policy; it returns the config's version.
func (s *Site) Publish(ctx context.Context, policy string) (int64, error) {
	file := filepath.Join(s.Dir, "policy.yaml")
	if err := safefile.WriteFile(file, []byte(policy), safefile.Attr{Perm: 0o644, UID: -1, GID: -1}); err != nil {
		return 0, err
	}
	var applied struct {
		Version int64 `json:"version"`
	}
	err := s.Admin(ctx, &applied, "policy", "apply", "-f", file)
	return applied.Version, err
}

// Token is a fresh enrolment token.
type Token struct {
	Token string `json:"token"`
	ID    string `json:"id"`
}

// Token has the Manager make a one-time enrolment token.
func (s *Site) Token(ctx context.Context) (t Token, err error) {
	err = s.Admin(ctx, &t, "token", "create")
	return t, err
}
