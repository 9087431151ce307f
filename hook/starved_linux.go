package hook

import (
	"bytes"
	"os"
)

// starved says whether another thread of this process would run if it had a
// processor: it then doesn't hang on a disk. Asked only by a tick that finds a
// read under way.
func starved() bool {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false
	}
	running := 0
	for _, t := range threads {
		stat, err := os.ReadFile("/proc/self/task/" + t.Name() + "/stat")
		if err != nil {
			continue
		}
		// 123 (name) R …: the name may hold anything, brackets too.
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 && bytes.HasPrefix(stat[i:], []byte(") R")) {
			running++
		}
	}
	return running > 1 // one is this thread
}
