//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// die ends this process by a signal, as a crash does.
func die(name string) {
	s := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "SEGV": syscall.SIGSEGV}[name]
	signal.Reset(s)
	syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) //nolint:errcheck // only a core file less
	syscall.Kill(os.Getpid(), s)                              //nolint:errcheck // if it fails we exit
	time.Sleep(time.Second)
}
