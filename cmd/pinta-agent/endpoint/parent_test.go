//go:build unix

package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

// TestChildThatHangs: one that reads nothing and says nothing is ended and
// started again, and holds nobody up who has something to tell it.
func TestChildThatHangs(t *testing.T) {
	dir := t.TempDir()
	l, err := serve.Listen(filepath.Join(dir, "s"), serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := hanging(t, dir, l)
	p.config.Guard, _ = json.Marshal(strings.Repeat("x", 1<<20)) // no pipe holds it
	p.silence = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	deadline := time.Now().Add(20 * time.Second)
	for starts := 0; starts < 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d starts", starts)
		}
		told := make(chan struct{})
		go func() { p.SetRepairs(1); p.Stats(); close(told) }()
		select {
		case <-told:
		case <-time.After(10 * time.Second):
			t.Fatal("the service is held up")
		}
		log, _ := os.ReadFile(filepath.Join(dir, "starts"))
		starts = len(log)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func hanging(t *testing.T, dir string, l net.Listener) *Parent {
	t.Helper()
	program := filepath.Join(dir, "hanging")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf x >>"+dir+"/starts\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return New(Options{Listener: l, Program: program, Setup: Setup{SpoolDir: dir}, Log: slog.New(slog.DiscardHandler)})
}

// TestNothingElseIsInherited: what whoever started the service left open in it
// is not open in the child (security.md S16).
func TestNothingElseIsInherited(t *testing.T) {
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	dir := t.TempDir()
	l, err := serve.Listen(filepath.Join(dir, "s"), serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := New(Options{Listener: l, Program: filepath.Join(dir, "looking"), Setup: Setup{SpoolDir: dir}, Log: slog.New(slog.DiscardHandler)})
	script := fmt.Sprintf("#!/bin/sh\nfor n in 3 4 %d %d; do if [ -e /dev/fd/$n ]; then printf 1; else printf 0; fi; done >%s/found\n", pipe[0], pipe[1], dir)
	if err := os.WriteFile(p.o.Program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := p.spawn()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.wait()
	if found, _ := os.ReadFile(filepath.Join(dir, "found")); string(found) != "1100" {
		t.Errorf("open are %s of listener, spool and two that are the service's", found)
	}
}

// TestSpoolOfAChildBefore: the account gets what a child without it left, but
// nothing that somebody may have put there.
func TestSpoolOfAChildBefore(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	for _, path := range []string{outside, filepath.Join(dir, "state")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	hand := func() {
		t.Helper()
		d, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := own(d, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	owner := func(path string) uint32 {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Uid
	}
	hand()
	later := filepath.Join(dir, "later")
	if err := os.WriteFile(later, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hand()
	if owner(dir) != 12345 || owner(filepath.Join(dir, "state")) != 12345 || owner(outside) != 0 || owner(later) != 0 {
		t.Errorf("owners: %d %d %d %d", owner(dir), owner(filepath.Join(dir, "state")), owner(outside), owner(later))
	}
}
