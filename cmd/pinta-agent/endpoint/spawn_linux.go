package endpoint

import "syscall"

// attributes: the child ends with its parent, however that ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
