package installer

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// driftCase is one way in which a machine comes to differ from what is wanted.
// Its name is the object's and the kind's, as docs/drift.md lists them.
type driftCase struct {
	object Object
	kind   Kind
	name   string // more than one case of a kind
	do     func(t *testing.T, b *bench)
	// after checks more than that repair puts everything right.
	after func(t *testing.T, b *bench)
}

func (c driftCase) id() string {
	id := string(c.object) + "/" + string(c.kind)
	if c.name != "" {
		id += "/" + strings.ReplaceAll(c.name, " ", "_")
	}
	return id
}

func report(name string) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) { write(t, b.hookFile("u"), read(t, "testdata/reports/"+name), 0o644) }
}

// kept checks that what stood at our path is kept once, byte for byte.
func kept(content string) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) {
		origs, err := filepath.Glob(b.hookFile("u") + ".orig-*")
		must(t, err)
		if len(origs) != 1 || read(t, origs[0]) != content {
			t.Errorf("kept %q", origs)
		}
	}
}

func keptReport(name string) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) { kept(read(t, "testdata/reports/"+name))(t, b) }
}

var driftCases = []driftCase{
	{HookFile, Absent, "", func(t *testing.T, b *bench) { must(t, os.Remove(b.hookFile("u"))) }, nil},
	{HookFile, Absent, "with its folder", func(t *testing.T, b *bench) { must(t, os.RemoveAll(b.home("u", ".copilot"))) }, nil},
	{HookFile, Altered, "", func(t *testing.T, b *bench) {
		s := read(t, b.hookFile("u"))
		write(t, b.hookFile("u"), strings.Replace(s, `"PINTA_GUARD_DISABLED": "0"`, `"PINTA_GUARD_DISABLED": "1"`, 1), 0o644)
	}, notKept},
	{HookFile, Altered, "disableAllHooks inside", func(t *testing.T, b *bench) {
		s := read(t, b.hookFile("u"))
		write(t, b.hookFile("u"), strings.Replace(s, `"version": 1,`, `"version": 1, "disableAllHooks": true,`, 1), 0o644)
	}, notKept},
	{HookFile, Altered, "cut off by a full disk", func(t *testing.T, b *bench) { must(t, os.Truncate(b.hookFile("u"), 200)) }, notKept},
	{HookFile, Altered, "emptied", func(t *testing.T, b *bench) { must(t, os.Truncate(b.hookFile("u"), 0)) }, notKept},
	{HookFile, Unreadable, "too large", func(t *testing.T, b *bench) { must(t, os.Truncate(b.hookFile("u"), maxRegistration+1)) }, nil},
	{HookFile, WrongType, "directory", func(t *testing.T, b *bench) {
		must(t, os.Remove(b.hookFile("u")))
		write(t, filepath.Join(b.hookFile("u"), "inside"), "x", 0o644)
	}, func(t *testing.T, b *bench) {
		if m, _ := filepath.Glob(b.hookFile("u") + ".orig-*/inside"); len(m) != 1 {
			t.Error("the directory wasn't kept")
		}
	}},
	{HookFile, WrongType, "link outside", func(t *testing.T, b *bench) {
		write(t, filepath.Join(b.root, "victim"), "precious", 0o644)
		must(t, os.Remove(b.hookFile("u")))
		must(t, os.Symlink(filepath.Join(b.root, "victim"), b.hookFile("u")))
	}, func(t *testing.T, b *bench) {
		if read(t, filepath.Join(b.root, "victim")) != "precious" {
			t.Error("wrote through a link that leads outside")
		}
	}},
	{HookFile, WrongType, "link to another file of the user", func(t *testing.T, b *bench) {
		write(t, b.home("u", ".bashrc"), "precious", 0o644)
		must(t, os.Remove(b.hookFile("u")))
		must(t, os.Symlink("../../.bashrc", b.hookFile("u")))
	}, func(t *testing.T, b *bench) {
		if read(t, b.home("u", ".bashrc")) != "precious" {
			t.Error("wrote through a link to a file that isn't ours")
		}
	}},
	{HookFile, WrongType, "FIFO", func(t *testing.T, b *bench) {
		must(t, os.Remove(b.hookFile("u")))
		must(t, mkfifo(b.hookFile("u")))
	}, nil},
	{HookFile, WrongType, "second name", func(t *testing.T, b *bench) { must(t, os.Link(b.hookFile("u"), b.home("u", "other"))) }, nil},
	{HookFile, WrongOwner, "", func(t *testing.T, b *bench) { chown(t, b.hookFile("u")) }, nil},
	{HookFile, WrongMode, "", func(t *testing.T, b *bench) { must(t, os.Chmod(b.hookFile("u"), 0o666)) }, nil},
	{HookFile, StalePath, "", func(t *testing.T, b *bench) {
		s := read(t, b.hookFile("u"))
		write(t, b.hookFile("u"), strings.ReplaceAll(s, b.d.Layout.HookDir(), "/opt/elsewhere"), 0o644)
	}, notKept},
	{HookFile, UnknownSchema, "", func(t *testing.T, b *bench) {
		s := read(t, b.hookFile("u"))
		write(t, b.hookFile("u"), strings.Replace(s, `"schema": 1`, `"schema": 7`, 1), 0o644)
	}, notKept},
	{HookFile, NotOurs, "", func(t *testing.T, b *bench) { write(t, b.hookFile("u"), `{"version":1,"hooks":{}}`, 0o600) }, kept(`{"version":1,"hooks":{}}`)},
	{HookFile, NotOurs, "two spellings", report("R49.json"), keptReport("R49.json")},
	{HookFile, NotOurs, "wrong types", report("R51.json"), keptReport("R51.json")},
	{HookFile, NotOurs, "bad entries", report("R52.json"), keptReport("R52.json")},
	{HookFile, NotOurs, "BOM", report("R54.json"), keptReport("R54.json")},
	{HookFile, NotOurs, "UTF-16", report("R54.utf16.json"), keptReport("R54.utf16.json")},
	{HookFile, NotOurs, "command line in quotes", report("R31.json"), keptReport("R31.json")},
	{HookFile, NotOurs, "host timeout too short", report("R36.json"), keptReport("R36.json")},
	{HookFile, NotOurs, "disableAllHooks", report("R61.json"), keptReport("R61.json")},
	{HookFile, NotOurs, "binary gone", report("R64.json"), keptReport("R64.json")},
	{HookFile, NotOurs, "non-ASCII home", report("R74.json"), keptReport("R74.json")},
	{HookFile, NotOurs, "not JSON", report("R112.json"), keptReport("R112.json")},
	{HookFile, OldAdapter, "", report("R57.json"), keptReport("R57.json")},
	{HookFile, Unwanted, "", func(t *testing.T, b *bench) { b.d.Hooks.User = false }, func(t *testing.T, b *bench) {
		if _, err := os.Lstat(b.hookFile("u")); err == nil {
			t.Error("hook file is still there")
		}
	}},

	{EnvFile, Absent, "", func(t *testing.T, b *bench) { must(t, os.Remove(b.envFile("u"))) }, nil},
	{EnvFile, Altered, "", func(t *testing.T, b *bench) {
		write(t, b.envFile("u"), "# mine\r\nPINTA_GUARD_ENDPOINT=http://evil/\r\nX=1", 0o600)
	}, func(t *testing.T, b *bench) {
		s := read(t, b.envFile("u"))
		if !strings.Contains(s, "# mine\r\n") || !strings.HasSuffix(s, "\r\nX=1") || strings.Contains(s, "evil") {
			t.Errorf("env file %q", s)
		}
	}},
	{EnvFile, Altered, "emptied", func(t *testing.T, b *bench) { must(t, os.Truncate(b.envFile("u"), 0)) }, nil},
	{EnvFile, Altered, "timeout of the configuration changed", func(t *testing.T, b *bench) { b.d.GuardTimeoutMs = 900 }, func(t *testing.T, b *bench) {
		for _, f := range []string{b.envFile("u"), b.hookFile("u"), b.d.Layout.PolicyFile()} {
			if !strings.Contains(read(t, f), "900") {
				t.Errorf("%s doesn't hold the new timeout", f)
			}
		}
	}},
	{EnvFile, Altered, "token of a TCP listener left", func(t *testing.T, b *bench) {
		s := read(t, b.envFile("u"))
		write(t, b.envFile("u"), s+"PINTA_RELAY_TOKEN=old\nCOPILOT_PLUGIN_OPTION_HEADERS=x-pinta-relay-token=old\n", 0o600)
	}, func(t *testing.T, b *bench) {
		if strings.Contains(read(t, b.envFile("u")), "old") {
			t.Error("the token is still there")
		}
	}},
	{EnvFile, Unreadable, "too large", func(t *testing.T, b *bench) { must(t, os.Truncate(b.envFile("u"), maxRegistration+1)) }, nil},
	{EnvFile, NotOurs, "UTF-16", func(t *testing.T, b *bench) { write(t, b.envFile("u"), "\xff\xfeA\x00=\x001\x00", 0o600) }, nil},
	{EnvFile, WrongType, "directory", func(t *testing.T, b *bench) {
		must(t, os.Remove(b.envFile("u")))
		must(t, os.Mkdir(b.envFile("u"), 0o755))
	}, nil},
	{EnvFile, WrongType, "link into dotfiles", func(t *testing.T, b *bench) {
		write(t, b.home("u", "dotfiles", "env"), "MINE=1\n", 0o600)
		must(t, os.Remove(b.envFile("u")))
		must(t, os.Symlink("../dotfiles/env", b.envFile("u")))
	}, func(t *testing.T, b *bench) {
		if !strings.Contains(read(t, b.envFile("u")), "MINE=1") || read(t, b.home("u", "dotfiles", "env")) != "MINE=1\n" {
			t.Error("the user's lines were lost, or the linked file was changed")
		}
	}},
	{EnvFile, WrongType, "link outside", func(t *testing.T, b *bench) {
		write(t, filepath.Join(b.root, "victim"), "SECRET=1\n", 0o600)
		must(t, os.Remove(b.envFile("u")))
		must(t, os.Symlink(filepath.Join(b.root, "victim"), b.envFile("u")))
	}, func(t *testing.T, b *bench) {
		if strings.Contains(read(t, b.envFile("u")), "SECRET") || read(t, filepath.Join(b.root, "victim")) != "SECRET=1\n" {
			t.Error("read or wrote through a link that leads outside")
		}
	}},
	{EnvFile, WrongOwner, "", func(t *testing.T, b *bench) { chown(t, b.envFile("u")) }, nil},
	{EnvFile, WrongMode, "", func(t *testing.T, b *bench) { must(t, os.Chmod(b.envFile("u"), 0o644)) }, nil},
	{EnvFile, Unwanted, "", func(t *testing.T, b *bench) { b.d.Hooks.User = false }, nil},

	{HookBinary, Absent, "", func(t *testing.T, b *bench) { must(t, os.Remove(b.d.Layout.HookBinary)) }, nil},
	{HookBinary, Absent, "plugin root gone", func(t *testing.T, b *bench) { must(t, os.RemoveAll(b.d.Layout.HookDir())) }, nil},
	{HookBinary, Altered, "", func(t *testing.T, b *bench) { write(t, b.d.Layout.HookBinary, "#!/bin/sh\nexit 1\n", 0o755) }, nil},
	{HookBinary, Altered, "truncated", func(t *testing.T, b *bench) { must(t, os.Truncate(b.d.Layout.HookBinary, 3)) }, nil},
	{HookBinary, WrongType, "directory", func(t *testing.T, b *bench) {
		must(t, os.Remove(b.d.Layout.HookBinary))
		must(t, os.Mkdir(b.d.Layout.HookBinary, 0o755))
	}, nil},
	{HookBinary, WrongType, "link", func(t *testing.T, b *bench) {
		must(t, os.Remove(b.d.Layout.HookBinary))
		must(t, os.Symlink("/bin/true", b.d.Layout.HookBinary))
	}, nil},
	{HookBinary, WrongOwner, "", func(t *testing.T, b *bench) { chown(t, b.d.Layout.HookBinary) }, nil},
	{HookBinary, WrongMode, "", func(t *testing.T, b *bench) { must(t, os.Chmod(b.d.Layout.HookBinary, 0o777)) }, nil},
	{HookBinary, NotExecutable, "", func(t *testing.T, b *bench) { must(t, os.Chmod(b.d.Layout.HookBinary, 0o644)) }, nil},

	{PolicyFile, Absent, "", func(t *testing.T, b *bench) { must(t, os.RemoveAll(b.d.Layout.PolicyDir)) }, nil},
	{PolicyFile, Altered, "", func(t *testing.T, b *bench) {
		s := read(t, b.d.Layout.PolicyFile())
		write(t, b.d.Layout.PolicyFile(), strings.Replace(s, "exit 0", "exit 1", 1), 0o644)
	}, nil},
	{PolicyFile, NotOurs, "", func(t *testing.T, b *bench) { write(t, b.d.Layout.PolicyFile(), "{}", 0o644) }, nil},
	{PolicyFile, StalePath, "", func(t *testing.T, b *bench) {
		s := read(t, b.d.Layout.PolicyFile())
		write(t, b.d.Layout.PolicyFile(), strings.ReplaceAll(s, b.d.Layout.HookDir(), "/opt/elsewhere"), 0o644)
	}, nil},
	{PolicyFile, WrongOwner, "", func(t *testing.T, b *bench) { chown(t, b.d.Layout.PolicyFile()) }, nil},
	{PolicyFile, WrongMode, "", func(t *testing.T, b *bench) { must(t, os.Chmod(b.d.Layout.PolicyFile(), 0o666)) }, nil},
	{PolicyFile, WrongType, "link", func(t *testing.T, b *bench) {
		must(t, os.Rename(b.d.Layout.PolicyFile(), b.d.Layout.PolicyFile()+".moved"))
		must(t, os.Symlink("90-pinta.json.moved", b.d.Layout.PolicyFile()))
	}, nil},
	{PolicyFile, Unwanted, "", func(t *testing.T, b *bench) { b.d.Hooks.Machine = false }, nil},

	{HookImage, Absent, "", func(t *testing.T, b *bench) { must(t, os.RemoveAll(filepath.Join(b.d.Layout.StateDir, "images"))) }, nil},
	{HookImage, Altered, "", func(t *testing.T, b *bench) {
		write(t, filepath.Join(b.d.Layout.StateDir, "images", sumOf([]byte(fakeHook))), "evil", 0o700)
	}, nil},
	{Journal, Altered, "", func(t *testing.T, b *bench) { write(t, filepath.Join(b.d.Layout.StateDir, journalName), "{", 0o600) }, nil},
	{Folder, WrongMode, "state folder", func(t *testing.T, b *bench) { must(t, os.Chmod(b.d.Layout.StateDir, 0o777)) }, nil},
}

func notKept(t *testing.T, b *bench) {
	if m, _ := filepath.Glob(b.hookFile("u") + ".orig-*"); len(m) > 0 {
		t.Errorf("kept %q, though it was ours", m)
	}
}

// chown gives a file to somebody else; only root can.
func chown(t *testing.T, path string) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	must(t, os.Chown(path, 4711, 4711))
}

// TestDrift: every kind is found by the plan, put right by one apply, and
// gone afterwards; nothing else is touched.
func TestDrift(t *testing.T) {
	for _, c := range driftCases {
		t.Run(c.id(), func(t *testing.T) {
			b := newBench(t, "u")
			write(t, b.home("u", ".copilot", "hooks", "theirs.json"), `{"version":1,"hooks":{"Stop":[]}}`, 0o664)
			b.apply()
			c.do(t, b)
			plan, err := Plan(context.Background(), b.host, b.d)
			must(t, err)
			if !slices.ContainsFunc(plan.Steps, func(s Step) bool { return s.Object == c.object && s.Kind == c.kind && len(s.Ops) > 0 }) {
				t.Fatalf("plan doesn't find it:\n%s", show(plan))
			}
			done := b.apply()
			if got, want := opsOf(done), opsOf(plan); !slices.Equal(got, want) {
				t.Errorf("apply did\n%s\nthe plan said\n%s", show(done), show(plan))
			}
			b.settled()
			if c.after != nil {
				c.after(t, b)
			}
			if i, err := os.Stat(b.home("u", ".copilot", "hooks", "theirs.json")); c.name != "with its folder" && (err != nil || i.Mode().Perm() != 0o664) {
				t.Error("another owner's file was touched")
			}
		})
	}
}

// TestDriftThroughOwnLink: a hook file that its user keeps elsewhere in the
// home is repaired there, and the link stays.
func TestDriftThroughOwnLink(t *testing.T) {
	b := newBench(t, "u")
	b.apply()
	must(t, os.MkdirAll(b.home("u", "dotfiles"), 0o755))
	must(t, os.Rename(b.hookFile("u"), b.home("u", "dotfiles", "hook.json")))
	must(t, os.Symlink("../../dotfiles/hook.json", b.hookFile("u")))
	b.settled()
	want := read(t, b.home("u", "dotfiles", "hook.json"))
	write(t, b.home("u", "dotfiles", "hook.json"), strings.Replace(want, "exit 0", "exit 1", 3), 0o644)
	b.apply()
	b.settled()
	if to, err := os.Readlink(b.hookFile("u")); err != nil || to != "../../dotfiles/hook.json" {
		t.Errorf("the link is gone: %q, %v", to, err)
	}
	if read(t, b.home("u", "dotfiles", "hook.json")) != want {
		t.Error("the file behind the link isn't right")
	}
}

// TestDriftFolderLinks: a folder may be a link inside the home; one that leads
// outside is refused, and nothing is written there.
func TestDriftFolderLinks(t *testing.T) {
	b := newBench(t, "in", "out")
	must(t, os.MkdirAll(b.home("in", "dotfiles", "copilot"), 0o755))
	must(t, os.Symlink("dotfiles/copilot", b.home("in", ".copilot")))
	victim := filepath.Join(b.root, "victim")
	must(t, os.MkdirAll(victim, 0o755))
	must(t, os.Symlink(victim, b.home("out", ".copilot")))
	c, err := Apply(context.Background(), b.host, b.d)
	must(t, err)
	if _, err := os.Stat(b.home("in", "dotfiles", "copilot", "hooks", hookFileName)); err != nil {
		t.Error(err)
	}
	if left := tree(t, victim); len(left) > 1 {
		t.Errorf("wrote outside: %v", left)
	}
	if c.OK() || !strings.Contains(show(c), errOutside.Error()) {
		t.Errorf("the refusal isn't reported:\n%s", show(c))
	}
}

// TestDriftKeptOnce: the same foreign content again and again is kept once,
// different ones up to a limit.
func TestDriftKeptOnce(t *testing.T) {
	b := newBench(t, "u")
	b.apply()
	for n := range 3 * maxKept {
		write(t, b.hookFile("u"), "same", 0o644)
		b.apply()
		write(t, b.hookFile("u"), strings.Repeat("x", n), 0o644)
		if n > 0 {
			b.apply()
		}
	}
	origs, _ := filepath.Glob(b.hookFile("u") + ".orig-*")
	if len(origs) != maxKept {
		t.Errorf("%d kept", len(origs))
	}
}

// TestDriftDocument: docs/drift.md has a row for every kind, and each test that
// it names exists.
func TestDriftDocument(t *testing.T) {
	doc := read(t, "../docs/drift.md")
	var code strings.Builder
	files, err := filepath.Glob("*_test.go")
	must(t, err)
	more, err := filepath.Glob("users/*_test.go")
	must(t, err)
	for _, f := range append(files, more...) {
		code.WriteString(read(t, f))
	}
	named := regexp.MustCompile("`(Test\\w+)(?:/([^`]+))?`").FindAllStringSubmatch(doc, -1)
	if len(named) < 20 {
		t.Errorf("the document names only %d tests", len(named))
	}
	for _, m := range named {
		if !strings.Contains(code.String(), "func "+m[1]+"(t *testing.T)") {
			t.Errorf("%s doesn't exist", m[0])
		}
		if m[1] == "TestDrift" && !slices.ContainsFunc(driftCases, func(c driftCase) bool { return c.id() == m[2] }) {
			t.Errorf("%s isn't a case", m[0])
		}
	}
	for _, k := range Kinds {
		if !strings.Contains(doc, "| "+string(k)+" |") {
			t.Errorf("no row for the kind %s", k)
		}
	}
	for _, c := range driftCases {
		if !strings.Contains(doc, "TestDrift/"+string(c.object)+"/"+string(c.kind)) {
			t.Errorf("no row names TestDrift/%s", c.id())
		}
	}
}
