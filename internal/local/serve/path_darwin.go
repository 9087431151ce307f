package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

var chdirMu sync.Mutex

// shortPath calls f with a name for dir/base that the kernel's 104 bytes hold:
// for a long one from inside the folder. It happens once, at start.
func shortPath(d *os.File, dir, base string, f func(string) error) (err error) {
	full := filepath.Join(dir, base)
	if len(full) < 104 {
		return f(full)
	}
	chdirMu.Lock()
	defer chdirMu.Unlock()
	back, err := os.Open(".")
	if err != nil {
		return err
	}
	defer back.Close()
	if err := d.Chdir(); err != nil {
		return err
	}
	defer func() {
		if e := back.Chdir(); e != nil && err == nil {
			err = fmt.Errorf("return to the working directory: %w", e)
		}
	}()
	return f(base)
}
