package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestNotify(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	notify(socket, "READY=1")
	if err := l.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	n, err := l.Read(b)
	if err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("systemd hears %q, %v", b[:n], err)
	}
	notify(filepath.Join(t.TempDir(), "nobody"), "READY=1") // must not hang or fail
}

func TestWatchdogPeriod(t *testing.T) {
	for name, test := range map[string]struct {
		micros, pid string
		want        time.Duration
	}{
		"not asked for":   {"", "", 0},
		"for us":          {"3000000", strconv.Itoa(os.Getpid()), 3 * time.Second},
		"for any":         {"3000000", "", 3 * time.Second},
		"for another":     {"3000000", "1", 0},
		"no number":       {"soon", "", 0},
		"negative number": {"-5", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WATCHDOG_USEC", test.micros)
			t.Setenv("WATCHDOG_PID", test.pid)
			if got := watchdogPeriod(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
