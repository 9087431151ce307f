//go:build unix

package guard

import (
	"syscall"
	"time"
)

// cpuTime is the processor time of this process, which a busy machine doesn't
// stretch.
func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
