package endpoint

import "syscall"

// attributes: without a death signal, the child notices the end of its stdin.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
