package serve

import (
	"os"
	"path/filepath"
	"strconv"
)

// shortPath calls f with a name for dir/base that the kernel's 108 bytes hold.
// The descriptor's entry in /proc needs no chdir, which would move every thread.
func shortPath(d *os.File, dir, base string, f func(string) error) error {
	full := filepath.Join(dir, base)
	if len(full) < 108 {
		return f(full)
	}
	return f("/proc/self/fd/" + strconv.Itoa(int(d.Fd())) + "/" + base)
}
