package guard

import (
	"runtime"
	"runtime/debug"
)

// A judged command leaves 3 times its size in garbage, one that isn't plain shell
// text (guard/shell/plain) 40 times: how often the collector runs decides how
// long the slow answers take. Its pace follows what lives, which is only some
// 5 MiB and changes by a fifth from one cycle to the next; what a cycle gives
// back to the system the next one has to fault in again. A block that is never
// touched, and so takes no memory, makes the pace even: a cycle for each 25 MiB.
const (
	ballastBytes = 32 << 20
	pacePercent  = 60
)

// PaceCollector is for a process that judges, from its start to undo. A memory
// limit has to allow 32 MiB more than is really to be used.
func PaceCollector() (undo func()) {
	ballast := make([]byte, ballastBytes)
	percent := debug.SetGCPercent(pacePercent)
	return func() {
		debug.SetGCPercent(percent)
		runtime.KeepAlive(ballast)
	}
}
