package safefile

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Temporary files are called ".<target>.<random>.tmp": hidden, and with an ending that no host loads
// (installer.md 1). The writer holds a lock on its own, so a file without an owner is known at once.
const tempEnd = ".tmp"

func tempPrefix(name string) string { return "." + name + "." }

// createTemp makes a new file that only this process can open until it gets its final mode.
func createTemp(p place, name string) (*os.File, string, error) {
	for range 100 {
		temp := tempPrefix(name) + strconv.FormatUint(rand.Uint64(), 36) + tempEnd
		if _, err := step(OpCreate, filepath.Join(p.dir(), name), nil); err != nil {
			return nil, "", err
		}
		f, err := p.open(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if markOwned(f) {
			return f, temp, nil
		}
		f.Close() // a clean-up took it between creation and mark: try another name
		_ = p.remove(temp)
	}
	return nil, "", fail("create", filepath.Join(p.dir(), name), os.ErrExist)
}

// CleanTemps removes what writers of the file at path left when they were killed.
func CleanTemps(path string) { cleanTemps(pathPlace{filepath.Dir(path)}, filepath.Base(path)) }

// cleanTemps removes what writers of the same target left when they were killed. It never fails: a leftover is untidy, not wrong.
func cleanTemps(p place, name string) {
	names, err := p.names()
	if err != nil {
		return
	}
	for _, n := range names {
		if strings.HasPrefix(n, tempPrefix(name)) && strings.HasSuffix(n, tempEnd) {
			if fi, err := p.lstat(n); err == nil && fi.Mode().IsRegular() {
				removeOrphan(p, n, fi)
			}
		}
	}
}
