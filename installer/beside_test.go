package installer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// TestBesideALink: an agent that is started by a link finds the hook beside
// the program, not beside the link.
func TestBesideALink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	program, bin := filepath.Join(dir, "Agent", "pinta-agent"), filepath.Join(dir, "bin")
	write(t, program, "", 0o755)
	must(t, os.Mkdir(bin, 0o755))
	link := filepath.Join(bin, "pinta-agent")
	if err := os.Symlink(program, link); err != nil {
		t.Skip("no right to make links here:", err)
	}
	l := settings.Layout{HookBinary: filepath.Join(dir, "elsewhere", "pinta-hook")}
	want := filepath.Join(dir, "Agent", "pinta-hook")
	for _, self := range []string{program, link} {
		if got := beside(self, l); got != want {
			t.Errorf("started as %s: %s, want %s", self, got, want)
		}
	}
	if got := beside(filepath.Join(dir, "gone", "pinta-agent"), l); got != filepath.Join(dir, "gone", "pinta-hook") {
		t.Errorf("of a program that is gone: %s", got)
	}
}
