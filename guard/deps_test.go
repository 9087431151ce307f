package guard

import (
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDependencies: gitleaks' rules are linked, its scanner and the archive
// parsers behind it are not; nor is the Manager.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range strings.Fields(string(out)) {
		for _, never := range []string{"gitleaks/v8/detect", "gitleaks/v8/sources", "mholt/archives", "rardecode", "sevenzip", "compress/xz", "wazero", "pinta-agent/manager", "pinta-agent/sync", "pinta-agent/installer", "charmbracelet"} {
			if strings.Contains(p, never) {
				t.Errorf("links %s", p)
			}
		}
	}
}
