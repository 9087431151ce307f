package users

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// runningImage is this process' own image, which can be run even by an account
// that can't reach its path, and stays the same through an upgrade.
func runningImage() (string, error) {
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// Confine sets no_new_privs for every thread of this process: nothing that it
// starts can gain rights, by set-user-ID programs either. A program built with
// cgo can't reach all its threads, so it starts itself anew from one that has
// the mark, which lasts.
func Confine() error {
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && on == 1 {
		return nil
	}
	if _, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e == 0 {
		return nil
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	self, err := runningImage()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, os.Environ())
}
