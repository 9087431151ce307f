package copilot_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
)

// awkward is a folder with what breaks careless quoting, long enough that the
// socket's path is longer than a socket address takes.
const awkward = "Zoë O'Demo's (x) & 100% $HOME `true` \"machine\" — a path that is far too long for a socket's address"

// TestGuardFaults: whatever happens to the agent in mid-session, calls go on;
// when it is back, they are judged again. All in one session, with a home that
// holds blanks, quotes and non-ASCII.
func TestGuardFaults(t *testing.T) {
	findCLI(t)
	m := enrolled(t, awkward)
	s := newScript(t, m, "guard faults")
	s.write("victim/keep", "")
	socket := socketOf(t, m)
	var stub *stubGuard
	serve := func(answer func(net.Conn)) func() {
		return func() { stub.close(); stub = listen(t, socket, answer) }
	}
	s.bash("call_before", "touch before-ran; rm -rf victim")
	s.bash("call_killed", "touch killed; rm -rf nothing", func() { m.Agent.Kill() })
	s.bash("call_gone", "touch gone; rm -rf nothing", func() { os.Remove(socket) })
	s.bash("call_slow", "touch slow; rm -rf nothing", serve(slowly))
	s.bash("call_hanging", "touch hanging; rm -rf nothing", serve(func(c net.Conn) { time.Sleep(20 * time.Second) }))
	s.bash("call_broken", "touch broken; rm -rf nothing", serve(func(c net.Conn) { answer(c, "200 OK", "no JSON at all") }))
	s.bash("call_error", "touch error; rm -rf nothing", serve(func(c net.Conn) { answer(c, "500 Internal Server Error", "{}") }))
	s.bash("call_closing", "touch closing; rm -rf nothing", serve(func(net.Conn) {}))
	s.bash("call_after", "touch after-ran; rm -rf victim", func() {
		stub.close()
		os.Remove(socket)
		start(t, m)
	})
	s.run()
	const since = "1.0.49"
	s.denied("awkward-home.deny", "call_before", denyText, s.path("before-ran"), since)
	for id, key := range map[string]string{"killed": "fault.agent-killed", "gone": "fault.guard-down", "slow": "fault.guard-slow",
		"hanging": "fault.guard-hanging", "broken": "fault.guard-broken", "error": "fault.guard-error", "closing": "fault.guard-closing"} {
		s.runs(key, "call_"+id, s.path(id))
	}
	s.denied("fault.agent-back", "call_after", denyText, s.path("after-ran"), since)
}

// TestHookFaults: whatever happens to the hook binary in mid-session, calls go
// on, and a repaired one judges again in the same session.
func TestHookFaults(t *testing.T) {
	findCLI(t)
	m := enrolled(t, "it's "+awkward)
	s := newScript(t, m, "hook faults")
	s.write("victim/keep", "")
	hook := filepath.Join(m.Root, "usr", "lib", "pinta-agent", "pinta-hook")
	good, err := os.ReadFile(hook)
	if err != nil {
		t.Fatal(err)
	}
	put := func(content string, mode os.FileMode) func() {
		return func() { os.RemoveAll(hook); writeFile(t, hook, content, mode) }
	}
	s.bash("call_before", "touch before-ran; rm -rf victim")
	// The agent must not repair what the next turns break.
	s.bash("call_missing", "touch missing; rm -rf nothing", func() { m.Agent.Kill(); os.Remove(hook) })
	s.bash("call_root", "touch root-missing; rm -rf nothing", func() { os.RemoveAll(filepath.Dir(hook)) })
	s.bash("call_mode", "touch not-executable; rm -rf nothing", put(string(good), 0o644))
	s.bash("call_corrupt", "touch corrupt; rm -rf nothing", put("\x7fELF\x02\x01\x01 not really", 0o755))
	s.bash("call_truncated", "touch truncated; rm -rf nothing", put(string(good[:len(good)/2]), 0o755))
	s.bash("call_empty", "touch empty; rm -rf nothing", put("", 0o755))
	s.bash("call_interpreter", "touch interpreter; rm -rf nothing", put("#!/nonexistent/interpreter\n", 0o755))
	s.bash("call_segv", "touch segv; rm -rf nothing", put("#!/bin/sh\nkill -SEGV $$\n", 0o755))
	s.bash("call_kill", "touch killed; rm -rf nothing", put("#!/bin/sh\nkill -KILL $$\n", 0o755))
	s.bash("call_exit2", "touch exit2; rm -rf nothing", put("#!/bin/sh\necho 'panic: x' >&2\nexit 2\n", 0o755))
	s.bash("call_exit1", "touch exit1; rm -rf nothing", put("#!/bin/sh\nexit 1\n", 0o755))
	s.bash("call_directory", "touch directory; rm -rf nothing", func() { os.RemoveAll(hook); os.Mkdir(hook, 0o755) })
	s.bash("call_after", "touch after-ran; rm -rf victim", func() {
		start(t, m)
		err := world.Until(t.Context(), 30*time.Second, func() error {
			data, err := os.ReadFile(hook)
			if err == nil && string(data) != string(good) {
				err = fmt.Errorf("%s is not yet repaired", hook)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	s.run()
	const since = "1.0.49"
	s.denied("awkward-home.deny-2", "call_before", denyText, s.path("before-ran"), since)
	for id, file := range map[string]string{"missing": "missing", "root": "root-missing", "mode": "not-executable", "corrupt": "corrupt",
		"truncated": "truncated", "empty": "empty", "interpreter": "interpreter", "segv": "segv", "kill": "killed", "exit2": "exit2", "exit1": "exit1", "directory": "directory"} {
		s.runs("fault.hook-"+file, "call_"+id, s.path(file))
	}
	s.denied("fault.hook-repaired", "call_after", denyText, s.path("after-ran"), since)
}

// socketOf is the path of the agent's socket.
func socketOf(t *testing.T, m *world.Machine) string {
	t.Helper()
	path := filepath.Join(m.Root, "run", "pinta-agent", "agent.sock")
	if !exists(path) {
		t.Fatalf("the agent has no socket at %s", path)
	}
	return path
}

// stubGuard stands in for a guard that misbehaves.
type stubGuard struct {
	listener net.Listener
	socket   string
}

func (s *stubGuard) close() {
	if s != nil {
		s.listener.Close()
		os.Remove(s.socket)
	}
}

// listen serves answer at the agent's socket, whose path may be too long for
// an address: it is bound by way of a short link.
func listen(t *testing.T, socket string, serve func(net.Conn)) *stubGuard {
	os.Remove(socket)
	short, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Error(err)
		return nil
	}
	defer os.RemoveAll(short)
	link := filepath.Join(short, "d")
	if err := os.Symlink(filepath.Dir(socket), link); err != nil {
		t.Error(err)
		return nil
	}
	l, err := net.Listen("unix", filepath.Join(link, filepath.Base(socket)))
	if err != nil {
		t.Error(err)
		return nil
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	os.Chmod(socket, 0o666)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buffer := make([]byte, 1<<16)
				c.Read(buffer) // enough of the request to have been asked
				serve(c)
			}()
		}
	}()
	return &stubGuard{l, socket}
}

func answer(c net.Conn, status, body string) {
	fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
}

// slowly answers with a denial, a byte at a time, that comes too late.
func slowly(c net.Conn) {
	body := `{"decision":"DENY","reason":"too late","userMessage":"too late","durationMs":1}`
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	for _, b := range []byte(head + body) {
		if _, err := c.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	io.Copy(io.Discard, c)
}
