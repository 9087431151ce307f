package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinta-ai/pinta-agent/enroll/enrolltest"
)

// TestUnwritableHome: a user who enrols for himself and can't write his home,
// or not all of it, is told what is wrong and how to mend it.
func TestUnwritableHome(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: to become a user whose home is somebody else's")
	}
	const nobody = 65534
	manager := enrolltest.New(t)
	bin := filepath.Dir(programs(t).Agent)
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	base, err := os.MkdirTemp("", "unwritable-") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	home := filepath.Join(base, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (status int, stdout, stderr string) {
		command := exec.Command(programs(t).Agent, args...)
		command.Dir = "/"
		command.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + filepath.Join(home, "run")}
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		var out, errs bytes.Buffer
		command.Stdout, command.Stderr = &out, &errs
		if err := command.Run(); command.ProcessState == nil {
			t.Fatal(err)
		}
		return command.ProcessState.ExitCode(), out.String(), errs.String()
	}

	status, _, stderr := run("enroll", manager.Token(t, 1).Reveal())
	if status != 6 || !strings.Contains(stderr, "give this account write access") {
		t.Errorf("a home of somebody else: exit %d, %s", status, stderr)
	}
	if left, _ := os.ReadDir(home); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}

	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(home, ".copilot"), 0o755); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := run("enroll", "--json", manager.Token(t, 1).Reveal())
	var enrolled struct {
		DeviceID string   `json:"deviceId"`
		Users    []string `json:"users"`
	}
	if err := json.Unmarshal([]byte(stdout), &enrolled); status != 0 || err != nil {
		t.Fatalf("exit %d, %v, %s", status, err, fmt.Sprint(stdout, stderr))
	}
	if enrolled.DeviceID == "" || len(enrolled.Users) != 0 || !strings.Contains(stderr, "belongs to another account") || !strings.Contains(stderr, "for nobody") {
		t.Errorf("%s%s", stdout, stderr)
	}
}
