//go:build unix

package settings

import (
	"os"
	"path/filepath"
)

func isAdministrator() bool { return os.Geteuid() == 0 }

// userSocket is below the session's runtime folder, or in the state folder
// where the session has none.
func userSocket(stateDir string) (dir, socket string) {
	dir = os.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		dir = stateDir
	}
	return dir, filepath.Join(dir, "pinta-agent.sock")
}

func (l Layout) rootedEndpoint() string { return l.under(l.Endpoint) }
