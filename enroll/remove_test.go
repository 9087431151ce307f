package enroll

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestRemoveLeavesNothingBehind: with the state go the folders above it that were
// made for it, as far as nobody else put something there.
func TestRemoveLeavesNothingBehind(t *testing.T) {
	for name, c := range map[string]struct{ before, foreign, kept, gone string }{
		"all are ours":        {"", "", "", "local"},
		"the upper was there": {"local", "", "local", "local/state"},
		"both were there":     {"local/state", "", "local/state", "local/state/agent"},
		"somebody's file":     {"", "local/theirs", "local/theirs", "local/state"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			if err := os.MkdirAll(filepath.Join(top, c.before), 0o755); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(top, "local", "state", "agent")
			for range 2 { // the second finds all there
				if _, err := Open(dir); err != nil {
					t.Fatal(err)
				}
			}
			if c.foreign != "" {
				if err := os.WriteFile(filepath.Join(top, c.foreign), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := Remove(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(filepath.Join(top, c.kept)); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(filepath.Join(top, c.gone)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", c.gone, err)
			}
		})
	}
}
