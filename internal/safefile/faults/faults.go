// Package faults makes internal/safefile fail on purpose: full disks, denied or read-only trees, short writes, kills at
// a chosen step. For tests only; no binary links it.
package faults

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// Rule says which steps fail, and how. The zero values of Op and Path fit every step.
type Rule struct {
	Op    safefile.Op
	Path  string // part of the target's path
	After int    // so many fitting steps succeed first
	Once  bool   // only one step fails
	Short int    // bytes that a failing write still writes
	Err   error
}

// Script is a set of rules and the record of all steps.
type Script struct {
	mu    sync.Mutex
	Rules []Rule
	seen  []int
	done  []bool
	Steps []string // "op base-name"
}

// Use installs rules for the length of a test.
func Use(t testing.TB, rules ...Rule) *Script {
	s := &Script{Rules: rules, seen: make([]int, len(rules)), done: make([]bool, len(rules))}
	t.Cleanup(safefile.Inject(s))
	return s
}

// Before implements safefile.Fault.
func (s *Script) Before(op safefile.Op, path string, data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Steps = append(s.Steps, string(op)+" "+path[strings.LastIndexByte(path, os.PathSeparator)+1:])
	for i, r := range s.Rules {
		if s.done[i] || r.Op != "" && r.Op != op || !strings.Contains(path, r.Path) {
			continue
		}
		if s.seen[i]++; s.seen[i] <= r.After {
			continue
		}
		s.done[i] = r.Once
		return r.Short, r.Err
	}
	return len(data), nil
}

// killVar names the step at which a re-executed test binary dies.
const killVar = "SAFEFILE_KILL_AT"

// KillEnv is the environment entry that makes a process which calls KillFromEnv die before its n-th step (from 0);
// half tells a write to write half of its bytes first.
func KillEnv(n int, half bool) string {
	s := killVar + "=" + strconv.Itoa(n)
	if half {
		s += "h"
	}
	return s
}

// KillFromEnv arms what KillEnv asked for. The process ends as by kill -9: no deferred call runs.
func KillFromEnv() {
	s, ok := os.LookupEnv(killVar)
	if !ok {
		return
	}
	n, err := strconv.Atoi(strings.TrimSuffix(s, "h"))
	if err != nil {
		panic(err)
	}
	safefile.Inject(&killer{at: n, half: strings.HasSuffix(s, "h")})
}

type killer struct {
	mu   sync.Mutex
	at   int
	half bool
	dead bool
}

func (k *killer) Before(op safefile.Op, _ string, data []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		die()
	}
	if k.at > 0 {
		k.at--
		return len(data), nil
	}
	if op == safefile.OpWrite && k.half {
		k.dead = true // safefile writes the half and wants to clean up: that step is never reached
		return len(data) / 2, os.ErrDeadlineExceeded
	}
	die()
	return 0, nil
}

func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Kill()
	}
	for {
		time.Sleep(time.Hour)
	}
}
