//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/demo"
	"github.com/pinta-ai/pinta-agent/e2e/world"
	"github.com/pinta-ai/pinta-agent/internal/api"
)

// TestSessionsUnguarded: a session that began before its hooks is counted in
// the report to the Manager and, by user, in status, until it ends. Sessions of
// the tester's own on this machine may count too.
func TestSessionsUnguarded(t *testing.T) {
	ctx := t.Context()
	site, err := world.Open(ctx, t.TempDir(), programs(t))
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	m := site.Machine(filepath.Join(site.Dir, "machine"))
	if err := os.MkdirAll(m.Home("dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(site.Dir, "copilot")
	if err := world.Copy(site.Programs.Agent, program); err != nil {
		t.Fatal(err)
	}
	session := exec.Command(program, "demo", demo.SessionCommand)
	in, err := session.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	defer session.Process.Kill()
	time.Sleep(1100 * time.Millisecond) // the kernel tells starts to the tick from a boot time in seconds

	if _, err := site.Publish(ctx, perUserPolicy); err != nil {
		t.Fatal(err)
	}
	token, err := site.Token(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Enroll(ctx, token.Token); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer m.Agent.Stop()

	told := func() (atManager, inStatus int, err error) {
		var device struct {
			Report api.Report `json:"report"`
		}
		if err := site.Admin(ctx, &device, "device", "show", m.Device); err != nil {
			return 0, 0, err
		}
		var s status
		if err := m.Call(ctx, &s, "status", "--json"); err != nil {
			return 0, 0, err
		}
		for _, u := range s.Service.Detail.Users {
			if u.Name == "dev" {
				inStatus += u.SessionsUnguarded
			}
		}
		return device.Report.SessionsUnguarded, inStatus, nil
	}
	most := 0
	err = world.Until(ctx, 20*time.Second, func() error {
		manager, status, err := told()
		if err == nil && (manager == 0 || manager != status) {
			err = fmt.Errorf("%d sessions at the Manager, %d in status", manager, status)
		}
		most = manager
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, m.Agent.Tail())
	}
	in.Close()
	session.Wait()
	if err := os.WriteFile(filepath.Join(m.Home("dev"), ".copilot", "settings.json"), []byte("{}"), 0o600); err != nil { // something to look at
		t.Fatal(err)
	}
	err = world.Until(ctx, 20*time.Second, func() error {
		manager, status, err := told()
		if err == nil && (manager >= most || manager != status) {
			err = fmt.Errorf("%d sessions at the Manager, %d in status: want fewer than %d", manager, status, most)
		}
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, m.Agent.Tail())
	}
}
