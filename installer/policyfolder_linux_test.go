package installer

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// TestRealPolicyFolder: at the machine's real paths, where nothing above is
// exempt from being judged, repair puts right what is ours, leaves alone what
// somebody else controls and says so, and follows nothing outside (S1).
func TestRealPolicyFolder(t *testing.T) {
	if !inThrowAway(t) {
		return
	}
	must(t, os.Unsetenv("TMPDIR"))
	l, err := settings.NewLayout("")
	must(t, err)
	image := filepath.Join(t.TempDir(), "pinta-hook")
	write(t, image, fakeHook, 0o755)
	dir, file := l.PolicyDir, l.PolicyFile()
	const outside = "/var/victim"
	b := &bench{t: t, host: Real(l), d: Desired{Layout: l, Version: "1", Hooks: Hooks{Machine: true}, Managed: true, GuardTimeoutMs: 400,
		Endpoints: Endpoints{Guard: l.GuardURL(), Traces: l.TracesURL()}, Image: Image{Beside: image}}}
	aside := func() {
		must(t, os.RemoveAll(file))
	}
	for _, c := range []struct {
		name    string
		mended  bool   // by repair; otherwise nothing may change
		finding string // before the repair; "" if the plan has none of its own
		do      func()
	}{
		{"file of another owner", true, "policy-file.wrong-owner", func() { must(t, os.Chown(file, 1234, 1234)) }},
		{"file that all may write", true, "policy-file.wrong-mode", func() { must(t, os.Chmod(file, 0o777)) }},
		{"file is a link", true, "policy-file.wrong-type", func() { aside(); must(t, os.Symlink(filepath.Join(outside, "90-pinta.json"), file)) }},
		{"file is a second name", true, "policy-file.wrong-type", func() { aside(); must(t, os.Link(filepath.Join(outside, "90-pinta.json"), file)) }},
		{"file is a FIFO", true, "policy-file.wrong-type", func() { aside(); must(t, unix.Mkfifo(file, 0o644)) }},
		{"file is a full directory", true, "policy-file.wrong-type", func() { aside(); write(t, filepath.Join(file, "x"), "x", 0o644) }},
		{"folder of another owner", false, "policy-folder.untrusted", func() { must(t, os.Chown(dir, 1234, 1234)) }},
		{"folder that all may write", false, "policy-folder.untrusted", func() { must(t, os.Chmod(dir, 0o777)) }},
		{"folder that root's group may write", false, "policy-folder.untrusted", func() { must(t, os.Chmod(dir, 0o775)) }},
		{"folder above that all may write", false, "policy-folder.untrusted", func() { must(t, os.Chmod(filepath.Dir(dir), 0o777)) }},
		{"folder is a link", false, "policy-folder.untrusted", func() {
			must(t, os.RemoveAll(dir))
			must(t, os.Symlink(outside, dir))
		}},
		{"folder is a link of the administrator's", false, "policy-folder.untrusted", func() {
			must(t, os.RemoveAll(dir))
			must(t, os.Chown(outside, 0, 0))
			must(t, os.Symlink(outside, dir))
		}},
		{"folder is a FIFO", false, "policy-folder.untrusted", func() {
			must(t, os.RemoveAll(dir))
			must(t, unix.Mkfifo(dir, 0o644))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, os.RemoveAll(filepath.Dir(dir)))
			b.t = t
			b.apply()
			must(t, os.RemoveAll(outside))
			write(t, filepath.Join(outside, "90-pinta.json"), "precious", 0o640)
			must(t, os.Chown(outside, 1234, 1234)) // a folder that anybody but root may have prepared
			before := tree(t, outside)
			c.do()
			drifted := tree(t, filepath.Dir(dir))

			d, err := Doctor(context.Background(), b.host, b.d)
			must(t, err)
			i := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.ID == c.finding })
			if i < 0 || d.Findings[i].Fixable != c.mended {
				t.Errorf("no %s, or it says falsely whether repair mends it: %+v", c.finding, d.Findings)
			}
			for _, f := range d.Findings {
				if f.Fixable && !c.mended && strings.HasPrefix(f.ID, "policy-file.") {
					t.Errorf("called fixable: %+v", f)
				}
			}
			sameTree(t, tree(t, filepath.Dir(dir)), drifted)

			done, err := Apply(context.Background(), b.host, b.d)
			must(t, err)
			sameTree(t, tree(t, outside), before)
			if c.mended {
				if !done.OK() {
					t.Errorf("not mended:\n%s", show(done))
				}
				b.settled()
				return
			}
			sameTree(t, tree(t, filepath.Dir(dir)), drifted)
		})
	}
}
