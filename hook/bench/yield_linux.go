package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// inside marks the bench that runs in a private /etc.
const inside = "PINTA_BENCH_PRIVATE_ETC"

// machine is the folder that the hook looks in (installer.md 2).
const machine = "/etc/github-copilot/policy.d"

// yielding runs the bench of the yielding run in a private /etc that
// holds policy as the machine's hook file and nothing else. It does so in a
// process that begins after the file is there: an older client has not read it.
func yielding(policy string, args []string) error {
	switch os.Getenv(inside) {
	case "client":
		return nil
	case "":
		if os.Geteuid() != 0 {
			return errors.New("needs root: a policy file is the machine's")
		}
		return again("etc", args, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS})
	}
	data, err := os.ReadFile(policy)
	if err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", "/etc", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount a private /etc: %w", err)
	}
	if err := os.MkdirAll(machine, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(machine, "90-pinta.json"), data, 0o644); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond) // more than the units in which files and processes are stamped
	return again("client", os.Args[1:], nil)
}

// again runs this program once more, as another part of the bench.
func again(part string, args []string, attr *syscall.SysProcAttr) error {
	command := exec.Command("/proc/self/exe", args...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(os.Environ(), inside+"="+part)
	command.SysProcAttr = attr
	return command.Run()
}

// asClient makes of a hook what the client makes of it: a process group.
func asClient(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
