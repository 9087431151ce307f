package users

import (
	"os"
	"syscall"
)

func runningImage() (string, error) { return os.Executable() }

// dieWithParent: the end of its stdin tells the worker.
func dieWithParent(*syscall.SysProcAttr) {}

func Confine() error { return nil }
