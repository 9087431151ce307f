//go:build unix

package installer

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUninstallRestoresOddHomes: whatever stood at our places before the first
// install comes back as it was, whatever its type.
func TestUninstallRestoresOddHomes(t *testing.T) {
	for name, odd := range map[string]func(t *testing.T, b *bench){
		"directory at the hook file": func(t *testing.T, b *bench) { write(t, filepath.Join(b.hookFile("u"), "z"), "1", 0o644) },
		"FIFO at the hook file": func(t *testing.T, b *bench) {
			must(t, os.MkdirAll(filepath.Dir(b.hookFile("u")), 0o755))
			must(t, mkfifo(b.hookFile("u")))
		},
		"foreign hook file with a second name": func(t *testing.T, b *bench) {
			write(t, b.hookFile("u"), `{"x":1}`, 0o644)
			must(t, os.Link(b.hookFile("u"), b.home("u", "other")))
		},
		"directory at the env file": func(t *testing.T, b *bench) { write(t, filepath.Join(b.envFile("u"), "z"), "1", 0o644) },
		"link at the env file": func(t *testing.T, b *bench) {
			write(t, b.home("u", "dot", "env"), "A=1\nPINTA_GUARD_ENDPOINT=x\n", 0o600)
			must(t, os.MkdirAll(b.home("u", ".copilot"), 0o755))
			must(t, os.Symlink("../dot/env", b.envFile("u")))
		},
		"dangling link at the env file": func(t *testing.T, b *bench) {
			must(t, os.MkdirAll(b.home("u", ".copilot"), 0o755))
			must(t, os.Symlink("../gone", b.envFile("u")))
		},
		"env file that is no text": func(t *testing.T, b *bench) { write(t, b.envFile("u"), "A=\x001\n", 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "u")
			odd(t, b)
			before := tree(t, b.home("u"))
			b.apply()
			b.settled()
			b.d.Uninstall = &Removal{}
			b.apply()
			b.settled()
			sameTree(t, tree(t, b.home("u")), before)
		})
	}
}

// TestUninstallKeepsLinesAddedSince: lines that came into the env file after
// the install are worth more than the link that stood there before; nobody else
// may write it.
func TestUninstallKeepsLinesAddedSince(t *testing.T) {
	b := newBench(t, "u")
	write(t, b.home("u", "env"), "A=1\n", 0o600)
	must(t, os.MkdirAll(b.home("u", ".copilot"), 0o755))
	must(t, os.Symlink("../env", b.envFile("u")))
	b.apply()
	write(t, b.envFile("u"), read(t, b.envFile("u"))+"B=2\n", 0o600)
	b.d.Uninstall = &Removal{}
	b.apply()
	if i, err := os.Lstat(b.envFile("u")); err != nil || i.Mode() != 0o600 || read(t, b.envFile("u")) != "A=1\nB=2\n" {
		t.Errorf("%v %v %q", i.Mode(), err, read(t, b.envFile("u")))
	}
}

// TestUninstallRemovesTheHooksOwnFiles: the locks of queue and trace go with
// the data folder.
func TestUninstallRemovesTheHooksOwnFiles(t *testing.T) {
	b := newBench(t, "u")
	before := tree(t, b.home("u"))
	b.apply()
	for _, n := range []string{"trace.json", "trace.lock", "queue.lock", "flush.lock", "failed-spans.jsonl"} {
		write(t, b.home("u", ".copilot", dataDirName, n), "", 0o600)
	}
	b.d.Uninstall = &Removal{}
	b.apply()
	sameTree(t, tree(t, b.home("u")), before)
}

// TestDanglingHooksFolder: repair can't mend a link of the user's to nothing,
// and doctor says so.
func TestDanglingHooksFolder(t *testing.T) {
	b := newBench(t, "u")
	must(t, os.MkdirAll(b.home("u", ".copilot"), 0o755))
	must(t, os.Symlink("../gone", b.home("u", ".copilot", "hooks")))
	d, err := Doctor(context.Background(), b.host, b.d)
	must(t, err)
	i := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.Object == string(HookFile) })
	if i < 0 || d.Findings[i].Fixable || !strings.Contains(d.Findings[i].Detail, "remove the link") {
		t.Errorf("%+v", d.Findings)
	}
}

// TestUninstallWhereNoFolderIs: something else in the place of a folder of the
// machine's says that nothing of ours is there: it stays, and the uninstall completes.
func TestUninstallWhereNoFolderIs(t *testing.T) {
	for name, dir := range map[string]func(b *bench) string{
		"policy folder":   func(b *bench) string { return b.d.Layout.PolicyDir },
		"folder above it": func(b *bench) string { return filepath.Dir(b.d.Layout.PolicyDir) },
		"plugin root":     func(b *bench) string { return b.d.Layout.HookDir() },
		"state folder":    func(b *bench) string { return b.d.Layout.StateDir },
	} {
		for kind, put := range map[string]func(path string) error{
			"file": func(path string) error { return os.WriteFile(path, []byte("theirs"), 0o644) },
			"FIFO": mkfifo,
		} {
			t.Run(kind+" at the "+name, func(t *testing.T) {
				b := newBench(t, "u")
				b.apply()
				at := dir(b)
				must(t, os.RemoveAll(at))
				must(t, put(at))
				before := tree(t, at)
				b.d.Uninstall = &Removal{}
				plan, err := Plan(context.Background(), b.host, b.d)
				must(t, err)
				done := b.apply()
				if got, want := opsOf(done), opsOf(plan); !slices.Equal(got, want) {
					t.Errorf("uninstall did\n%q\nthe plan said\n%q", got, want)
				}
				sameTree(t, tree(t, at), before)
				b.settled()
			})
		}
	}
}

// TestUninstallKeepsFoldersInTheData: a folder isn't the hook's, whatever its
// name.
func TestUninstallKeepsFoldersInTheData(t *testing.T) {
	b := newBench(t, "u")
	b.apply()
	at := b.home("u", ".copilot", dataDirName, "trace.json")
	write(t, filepath.Join(at, "theirs"), "x", 0o644)
	before := tree(t, at)
	b.d.Uninstall = &Removal{Purge: true}
	b.apply()
	sameTree(t, tree(t, at), before)
}

// TestUninstallKeepsWhatIsNoImage: of the folder of verified copies only these
// are removed, and nothing where a link in its place leads.
func TestUninstallKeepsWhatIsNoImage(t *testing.T) {
	image := strings.Repeat("0123", 16)
	for _, linked := range []bool{false, true} {
		b := newBench(t, "u")
		b.apply()
		at := filepath.Join(b.d.Layout.StateDir, "images")
		if linked {
			must(t, os.RemoveAll(at))
			must(t, os.Symlink(b.home("u"), at))
			at = b.home("u")
		}
		write(t, filepath.Join(at, "theirs"), "x", 0o644)
		write(t, filepath.Join(at, strings.Repeat("a", 64), "theirs"), "x", 0o644)
		write(t, filepath.Join(at, image), "x", 0o644)
		write(t, filepath.Join(at, "."+image+".abc.tmp"), "x", 0o644)
		b.d.Uninstall = &Removal{}
		b.apply()
		names, err := os.ReadDir(at)
		must(t, err)
		if want := map[bool]int{false: 2, true: 4}[linked]; len(names) != want {
			t.Errorf("linked %v: %v are left", linked, names)
		}
	}
}
