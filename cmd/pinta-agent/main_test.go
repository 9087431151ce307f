package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/demo"
	"github.com/pinta-ai/pinta-agent/e2e/world"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// TestMain lets the scripts run this very program as pinta-agent.
func TestMain(m *testing.M) {
	testscript.Main(cleaned{m}, map[string]func(){"pinta-agent": main})
}

// cleaned removes the built programs after the tests.
type cleaned struct{ *testing.M }

func (c cleaned) Run() int {
	status := c.M.Run()
	os.RemoveAll(built.dir)
	return status
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// programs builds the three programs once for all tests.
func programs(t *testing.T) world.Programs {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "pinta-agent-test-"); built.err == nil {
			_, built.err = world.Build(t.Context(), built.dir)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return world.In(built.dir)
}

// TestScripts plays testdata/script: each is a session of an administrator.
// `manager` starts a real Manager for the script and sets ADMIN, the flags of
// its commands; `json FIELD FILE` sets an environment variable of that name.
func TestScripts(t *testing.T) {
	bin := filepath.Dir(programs(t).Agent)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("BIN", bin)
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("ROOT", filepath.Join(e.WorkDir, "machine"))
			return os.MkdirAll(filepath.Join(e.WorkDir, "machine", "home", "dev"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"manager": startManager, "status": expectStatus, "json": readField,
		},
	})
}

// startManager is the command manager: it runs one until the script ends, or "! manager".
func startManager(ts *testscript.TestScript, stop bool, _ []string) {
	if stop {
		pid, err := strconv.Atoi(ts.Getenv("MANAGER"))
		ts.Check(err)
		p, err := os.FindProcess(pid)
		ts.Check(err)
		ts.Check(p.Kill())
		return
	}
	dir := ts.MkAbs("manager")
	ready := ts.MkAbs("manager.ready")
	command := exec.Command(filepath.Join(ts.Getenv("BIN"), "pinta-manager"), "serve", "--data", dir, "--listen", "127.0.0.1:0", "--ready-file", ready)
	var log bytes.Buffer
	command.Stderr = &log
	ts.Check(command.Start())
	ts.Setenv("MANAGER", strconv.Itoa(command.Process.Pid))
	ts.Defer(func() {
		command.Process.Kill()
		command.Wait()
	})
	for range 500 {
		if _, err := os.Stat(ready); err == nil {
			ts.Setenv("ADMIN", filepath.Join(dir, "admin-key.json"))
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	ts.Fatalf("the Manager is not ready: %s", log.String())
}

// expectStatus runs a command and compares its exit status: status N COMMAND...
func expectStatus(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // testscript returns it plain
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

// readField sets an environment variable to a field of a file of JSON.
func readField(ts *testscript.TestScript, _ bool, args []string) {
	var fields map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &fields))
	ts.Setenv(args[0], fmt.Sprint(fields[args[0]]))
}

// TestDemo: the README's first command succeeds and says so for machines.
func TestDemo(t *testing.T) {
	command := exec.Command(programs(t).Agent, "demo", "--json")
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	var report demo.Report
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
		t.Fatal(err)
	}
	want := []string{"enroll", "install", "allow", "deny", "mask", "stop", "telemetry", "config", "move", "repair", "outage", "recover"}
	var got []string
	for _, s := range report.Steps {
		got = append(got, s.Name)
		if !s.OK {
			t.Errorf("step %s: %s", s.Name, s.Detail)
		}
	}
	if !report.OK || !slices.Equal(got, want) || report.DeviceID == "" || report.Spans == 0 {
		t.Errorf("report %+v", report)
	}
}

// TestNoManager: a service that runs as root holds no server it doesn't need.
func TestNoManager(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(out)) {
		for _, banned := range []string{"github.com/pinta-ai/pinta-agent/manager", "google.golang.org/grpc", "net/http/pprof", "testing", "github.com/mholt/archives"} {
			if line == banned || strings.HasPrefix(line, banned+"/") {
				t.Errorf("pinta-agent links %s", line)
			}
		}
	}
}

// configure writes a machine's agent.yaml.
func configure(t *testing.T, layout settings.Layout, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(layout.ConfigFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(layout.ConfigFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
