//go:build unix

package installer

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
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

// widen gives a directory of this account the permission bits that its making
// left out: a service's umask is narrower than what every user has to read.
func widen(dir string, perm fs.FileMode) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return err
	}
	if uid, _, _ := safefile.Owner(i); uid != os.Geteuid() {
		return fail("chmod", dir, safefile.ErrOwner)
	}
	if i.Mode().Perm() == perm {
		return nil
	}
	return f.Chmod(perm)
}

// below moves a system path below --root.
func below(root, path string) string {
	if root == "" {
		return path
	}
	return filepath.Join(root, path)
}
