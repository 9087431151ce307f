package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// inside marks the bench that runs in a private /etc.
const inside = "PINTA_BENCH_PRIVATE_ETC"

// machine is the folder that the hook looks in (installer.md 2).
const machine = "/etc/github-copilot/policy.d"

// yielding runs the bench of the yielding run in a private /etc that
// holds policy as the machine's hook file and nothing else.
func yielding(policy string, args []string) error {
	if os.Getenv(inside) == "" {
		if os.Geteuid() != 0 {
			return errors.New("needs root: a policy file is the machine's")
		}
		command := exec.Command("/proc/self/exe", args...)
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		command.Env = append(os.Environ(), inside+"=1")
		command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		return command.Run()
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
	return os.WriteFile(filepath.Join(machine, "90-pinta.json"), data, 0o644)
}
