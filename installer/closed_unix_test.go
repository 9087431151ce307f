//go:build unix

package installer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wayTo lists the folders from below the root down to path's.
func (b *bench) wayTo(path string) (dirs []string) {
	for dir := filepath.Dir(path); dir != b.root; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

// TestUmask: a service's umask is narrow, and every user's host has to reach
// the hook and the policy all the same; what is one user's own stays narrow.
func TestUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	b := newBench(t, "u")
	b.d.Layout.PolicyDir = filepath.Join(b.root, "etc", "github-copilot", "policy.d")
	plan, err := Plan(context.Background(), b.host, b.d)
	must(t, err)
	check := func(done Changes) {
		t.Helper()
		for _, s := range done.Steps {
			for _, o := range s.Ops {
				if i, err := os.Lstat(o.Path); o.Verb == "mkdir" && (err != nil || octal(i.Mode()) != o.Perm) {
					t.Errorf("%s: is %v, %v", o, i.Mode(), err)
				}
			}
		}
		for _, dir := range append(b.wayTo(b.d.Layout.HookBinary), b.wayTo(b.d.Layout.PolicyFile())...) {
			if i, err := os.Lstat(dir); err != nil || i.Mode().Perm() != 0o755 {
				t.Errorf("%s: %v, %v", dir, i.Mode(), err)
			}
		}
	}
	done := b.apply()
	check(done)
	if got, want := opsOf(done), opsOf(plan); !slices.Equal(got, want) {
		t.Errorf("apply did\n%q\nthe plan said\n%q", got, want)
	}
	must(t, os.RemoveAll(b.d.Layout.HookDir()))
	must(t, os.RemoveAll(filepath.Dir(b.d.Layout.PolicyDir)))
	check(b.apply())
	b.settled()

	b = newBench(t)
	b.d.Layout.System, b.d.Layout.PolicyDir = false, ""
	b.apply()
	if i, err := os.Lstat(b.d.Layout.HookDir()); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("user mode: %v, %v", i.Mode(), err)
	}
}

// TestClosedFolders: a folder that we made and that lets nobody in any more is
// opened; of another the owner is told how to.
func TestClosedFolders(t *testing.T) {
	for _, c := range []struct {
		name    string
		finding string
		dir     func(b *bench) string
		mode    fs.FileMode
		above   bool // the system's own, if we didn't make it
	}{
		{"plugin root", "hook-binary.not-executable", func(b *bench) string { return b.d.Layout.HookDir() }, 0o700, false},
		{"folder above", "hook-binary.not-executable", func(b *bench) string { return filepath.Dir(b.d.Layout.HookDir()) }, 0o744, true},
		{"policy folder", "policy-file.unreadable", func(b *bench) string { return b.d.Layout.PolicyDir }, 0o600, false},
		{"policy folder that can't be listed", "policy-file.unreadable", func(b *bench) string { return b.d.Layout.PolicyDir }, 0o711, false},
		{"folder above the policy's", "policy-file.unreadable", func(b *bench) string { return filepath.Dir(b.d.Layout.PolicyDir) }, 0o700, true},
		{"plugin root that can't be listed", "", func(b *bench) string { return b.d.Layout.HookDir() }, 0o711, false},
	} {
		for _, made := range []bool{true, false} {
			t.Run(c.name+map[bool]string{true: " of ours", false: " of another"}[made], func(t *testing.T) {
				b := newBench(t, "u")
				if !made {
					must(t, os.MkdirAll(b.d.Layout.PolicyDir, 0o755))
					must(t, os.MkdirAll(b.d.Layout.HookDir(), 0o755))
				}
				b.apply()
				must(t, os.Chmod(c.dir(b), c.mode))
				if c.finding == "" || !made && c.above {
					b.settled()
					return
				}
				found, err := Verify(context.Background(), b.host, b.d)
				must(t, err)
				if len(found) != 1 || found[0].ID != c.finding || found[0].Severity != Error || found[0].Fixable != made || !made && !strings.Contains(found[0].Remedy, "chmod a+rx "+c.dir(b)) {
					t.Errorf("found %+v", found)
				}
				plan, err := Plan(context.Background(), b.host, b.d)
				must(t, err)
				done, err := Apply(context.Background(), b.host, b.d)
				must(t, err)
				if got, want := opsOf(done), opsOf(plan); !slices.Equal(got, want) || done.OK() != made {
					t.Errorf("apply did\n%s\nthe plan said\n%s", show(done), show(plan))
				}
				if !made {
					if i, err := os.Lstat(c.dir(b)); err != nil || i.Mode().Perm() != c.mode {
						t.Errorf("another's folder was changed: %v, %v", i.Mode(), err)
					}
					must(t, os.Chmod(c.dir(b), 0o755))
				}
				b.settled()
			})
		}
	}
}

// TestClosedFolderAbove: what is above our folders and not ours keeps its mode,
// and nobody is told to open it.
func TestClosedFolderAbove(t *testing.T) {
	b := newBench(t, "u")
	private := filepath.Join(b.root, "private")
	must(t, os.Mkdir(private, 0o700))
	b.d.Layout = b.d.Layout.WithHookDir(filepath.Join(private, "hook"))
	b.apply()
	b.settled()
	if i, err := os.Lstat(private); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
}

// TestWatchOpensFolders: within two seconds.
func TestWatchOpensFolders(t *testing.T) {
	b := newBench(t, "u")
	b.apply()
	w := b.watching(WatchOptions{AuditEvery: time.Hour})
	must(t, os.Chmod(b.d.Layout.PolicyDir, 0o700))
	w.repairWithin(t, 2*time.Second, PolicyFile)
	must(t, os.Chmod(b.d.Layout.HookDir(), 0o700))
	w.repairWithin(t, 2*time.Second, HookBinary)
	b.settled()
}

// TestRootHoldsEverything: below --root a link that leads out is refused,
// wherever on the way it stands, and nothing is touched behind it.
func TestRootHoldsEverything(t *testing.T) {
	for name, link := range map[string]func(b *bench) string{
		"plugin root":             func(b *bench) string { return b.d.Layout.HookDir() },
		"folder above it":         func(b *bench) string { return filepath.Dir(b.d.Layout.HookDir()) },
		"policy folder":           func(b *bench) string { return b.d.Layout.PolicyDir },
		"folder above the policy": func(b *bench) string { return filepath.Dir(b.d.Layout.PolicyDir) },
		"state folder":            func(b *bench) string { return b.d.Layout.StateDir },
		"folder above the state":  func(b *bench) string { return filepath.Dir(b.d.Layout.StateDir) },
	} {
		t.Run(name, func(t *testing.T) {
			outside, at := t.TempDir(), ""
			for _, after := range []bool{false, true} { // before the first install, and swapped in later
				b := newBench(t, "u")
				if at = link(b); after {
					b.apply()
					must(t, os.RemoveAll(at))
				}
				must(t, os.MkdirAll(filepath.Dir(at), 0o755))
				must(t, os.Symlink(outside, at))
				before := tree(t, outside)
				plan, err := Plan(context.Background(), b.host, b.d)
				must(t, err)
				if plan.OK() {
					t.Errorf("not foretold:\n%s", show(plan))
				}
				done, err := Apply(context.Background(), b.host, b.d)
				must(t, err)
				if done.OK() {
					t.Errorf("not reported:\n%s", show(done))
				}
				b.d.Uninstall = &Removal{}
				if _, err = Apply(context.Background(), b.host, b.d); err != nil && !errors.Is(err, errOutside) {
					t.Error(err)
				}
				sameTree(t, tree(t, outside), before)
			}
		})
	}
	b := newBench(t, "u")
	must(t, os.Rename(b.d.Layout.Homes, b.d.Layout.Homes+"2"))
	must(t, os.Symlink("home2", b.d.Layout.Homes))
	if a, err := Accounts(context.Background(), b.d.Layout); err != nil || len(a) != 1 {
		t.Errorf("homes behind a link inside: %v, %v", a, err)
	}
	must(t, os.Remove(b.d.Layout.Homes))
	must(t, os.Symlink(t.TempDir(), b.d.Layout.Homes))
	if a, err := Accounts(context.Background(), b.d.Layout); err == nil {
		t.Errorf("homes behind a link that leads out: %v", a)
	}
}
