//go:build unix

package hook

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// policyPath is the machine's hook file at its real path, never below --root.
const policyPath = "/etc/github-copilot/policy.d/90-pinta.json"

// policyFile reads the machine's hook file if the host would: it and its
// folder belong to root and nobody else can write them.
func policyFile() ([]byte, error) {
	dir := filepath.Dir(policyPath)
	fi, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if uid, _, ok := safefile.Owner(fi); !ok || uid != 0 || !fi.IsDir() || fi.Mode().Perm()&0o022 != 0 {
		return nil, syscall.EPERM
	}
	data, _, err := safefile.Read(policyPath, maxPolicy, safefile.Check{Owners: []int{0}, Forbid: 0o022})
	return data, err
}
