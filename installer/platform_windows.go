package installer

import (
	"io/fs"
	"os/exec"

	"golang.org/x/sys/windows"
)

const (
	errNoSpace  = windows.ERROR_DISK_FULL
	errReadOnly = windows.ERROR_WRITE_PROTECT
	errBusy     = windows.ERROR_SHARING_VIOLATION
)

// renameAside: the system holds a running image open against replacement.
const renameAside = true

// bareEnv is what a program needs to find its system libraries.
func bareEnv() []string {
	dir, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return nil
	}
	return []string{"SystemRoot=" + dir}
}

// widen: what a directory lets others do is in its ACL, set when it is made.
func widen(string, fs.FileMode) error { return nil }

func linksOf(fs.FileInfo) uint64 { return 1 }

func isolate(*exec.Cmd) {}

func statusOf(e *exec.ExitError) int { return e.ExitCode() }
