//go:build unix

package installer

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"syscall"
)

const (
	errNoSpace  = syscall.ENOSPC
	errReadOnly = syscall.EROFS
	errBusy     = syscall.ETXTBSY
)

// renameAside: a running image can be replaced in place.
const renameAside = false

func bareEnv() []string { return nil }

func linksOf(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert,nolintlint // narrower on other systems
	}
	return 1
}

// isolate gives the program a group of its own, so that what it starts ends
// with it.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

func statusOf(e *exec.ExitError) int {
	if ws, ok := e.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return e.ExitCode()
}

// below moves a system path below --root.
func below(root, path string) string {
	if root == "" {
		return path
	}
	return filepath.Join(root, path)
}
