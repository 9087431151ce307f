package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/daemon"
)

// supervised serves and tells systemd, where it asks for that (sd_notify(3)),
// when hooks are answered and that this goes on.
func (a *app) supervised(ctx context.Context) error {
	socket, period := os.Getenv("NOTIFY_SOCKET"), watchdogPeriod()
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if err := os.Unsetenv(name); err != nil { // they are not meant for children
			return err
		}
	}
	if socket == "" {
		return a.serve(ctx, nil)
	}
	tell := func(state string) { notify(socket, state) }
	defer context.AfterFunc(ctx, func() { tell("STOPPING=1") })()
	return a.serve(ctx, func() {
		tell("READY=1")
		if period > 0 {
			go a.watchdog(ctx, period, tell)
		}
	})
}

// watchdogPeriod is how often systemd wants to hear of this very process; 0: not.
func watchdogPeriod() time.Duration {
	micros, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	pid := os.Getenv("WATCHDOG_PID")
	if err != nil || micros <= 0 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(micros) * time.Microsecond
}

// watchdog reports life as long as the service answers the way a command of the
// administrator would ask it. Its Manager has no part in that (security.md S9).
func (a *app) watchdog(ctx context.Context, period time.Duration, tell func(string)) {
	tick := time.NewTicker(period / 3)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, period/4)
		var status daemon.Status
		err := daemon.Ask(asking, a.layout, http.MethodGet, "/status", &status)
		cancel()
		if err == nil {
			tell("WATCHDOG=1")
		} else if !errors.Is(err, context.Canceled) {
			a.logger().Warn("the service does not answer itself", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// notify sends one datagram. systemd acts on what it doesn't hear, so a failure
// needs no other report.
func notify(socket, state string) {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	conn.Write([]byte(state)) //nolint:errcheck // see above
}
