//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
	"github.com/pinta-ai/pinta-agent/enroll/enrolltest"
	"github.com/pinta-ai/pinta-agent/guard"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// TestSpanBeforeFirstConfig: hooks are registered as soon as a machine is
// enrolled, so spans may come before its first config. They wait for it, and
// carry the device.
func TestSpanBeforeFirstConfig(t *testing.T) {
	ctx := t.Context()
	manager := enrolltest.New(t) // has no config until Publish
	collector, err := world.StartCollector()
	if err != nil {
		t.Fatal(err)
	}
	defer collector.Close()
	site := &world.Site{Dir: t.TempDir(), Programs: programs(t)}
	machine := site.Machine(filepath.Join(site.Dir, "machine"))
	if err := os.MkdirAll(machine.Home("dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := machine.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer machine.Agent.Stop()
	layout, err := settings.NewLayout(machine.Root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(layout.TokenFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(layout.TokenFile, []byte(manager.Token(t, 1).Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	err = world.Until(ctx, 60*time.Second, func() error {
		_, err := os.Stat(machine.HookFile("dev"))
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, machine.Agent.Tail())
	}

	post(t, layout, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708","name":"early","kind":1,"startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}`)
	config := manager.GuardConfig(1)
	config.Telemetry.Endpoint = collector.URL
	policy, err := guard.ParsePolicy("builtin")
	if err != nil {
		t.Fatal(err)
	}
	if config.Guard, err = policy.GuardJSON(); err != nil {
		t.Fatal(err)
	}
	manager.Publish(manager.Sign(t, config), `"1"`)
	err = world.Until(ctx, 60*time.Second, func() error {
		spans := collector.Received()
		if len(spans) == 0 {
			return fmt.Errorf("no span at the collector")
		}
		manager.Mu.Lock()
		defer manager.Mu.Unlock()
		if id := spans[0].Attributes["pinta.device.id"]; manager.Devices[id] == nil {
			return world.Forever(fmt.Errorf("device %q on the span, want that of the enrolment", id))
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v\n%s", err, machine.Agent.Tail())
	}
}

// post sends a body to the agent's relay.
func post(t *testing.T, layout settings.Layout, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", layout.Endpoint)
	}}}
	defer client.CloseIdleConnections()
	res, err := client.Post("http://agent/v1/traces", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
}
