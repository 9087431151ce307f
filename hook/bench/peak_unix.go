//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// peakOf is the largest resident size of an ended process, in KiB.
func peakOf(p *os.ProcessState) int64 {
	u, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return u.Maxrss / 1024
	}
	return u.Maxrss
}
