package installer

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const newerHook = "#!/bin/sh\n# newer\nexit 0\n"

func TestImageSources(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, b *bench)
		want string // content of the registered hook; empty: none
		says string // part of the error
	}{
		{"beside the agent", func(*testing.T, *bench) {}, fakeHook, ""},
		{"--hook wins", func(t *testing.T, b *bench) {
			b.d.Image.Flag = filepath.Join(b.root, "given")
			write(t, b.d.Image.Flag, newerHook, 0o755)
		}, newerHook, ""},
		{"--hook that isn't there is a fault", func(t *testing.T, b *bench) { b.d.Image.Flag = filepath.Join(b.root, "given") }, "", "--hook"},
		{"copy in the state folder", func(t *testing.T, b *bench) {
			b.apply()
			must(t, os.Remove(b.d.Image.Beside))
			must(t, os.Remove(b.d.Layout.HookBinary))
		}, fakeHook, ""},
		{"altered copy doesn't count", func(t *testing.T, b *bench) {
			b.apply()
			must(t, os.Remove(b.d.Image.Beside))
			must(t, os.Remove(b.d.Layout.HookBinary))
			write(t, filepath.Join(b.d.Layout.StateDir, "images", sumOf([]byte(fakeHook))), newerHook, 0o700)
		}, "", "--hook PATH"},
		{"a release takes its own hash only", func(t *testing.T, b *bench) { b.d.Image.SHA256 = sumOf([]byte(newerHook)) }, "", "--hook PATH"},
		{"put there by a package", func(t *testing.T, b *bench) {
			must(t, os.Remove(b.d.Image.Beside))
			write(t, b.d.Layout.HookBinary, fakeHook, 0o755)
		}, fakeHook, ""},
		{"package upgraded it with the agent", func(t *testing.T, b *bench) {
			b.apply()
			must(t, os.Remove(b.d.Image.Beside))
			write(t, b.d.Layout.HookBinary, newerHook, 0o755)
			b.d.Version = "1.3.0"
		}, newerHook, ""},
		{"altered without an upgrade", func(t *testing.T, b *bench) {
			b.apply()
			must(t, os.Remove(b.d.Image.Beside))
			write(t, b.d.Layout.HookBinary, newerHook, 0o755)
		}, fakeHook, ""},
		{"image that doesn't run here", func(t *testing.T, b *bench) { write(t, b.d.Image.Beside, "\x7fELF foreign", 0o755) }, "", "doesn't run on this machine"},
		{"image that prints", func(t *testing.T, b *bench) { write(t, b.d.Image.Beside, "#!/bin/sh\necho hello\n", 0o755) }, "", "doesn't run on this machine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, "u")
			c.do(t, b)
			done, err := Apply(context.Background(), b.host, b.d)
			must(t, err)
			got, _ := os.ReadFile(b.d.Layout.HookBinary)
			if string(got) != c.want {
				t.Errorf("registered hook holds %q, want %q\n%s", got, c.want, show(done))
			}
			if c.says != "" && !strings.Contains(show(done), c.says) {
				t.Errorf("no %q in\n%s", c.says, show(done))
			}
			if c.says == "" {
				b.settled()
				if i, err := os.Stat(filepath.Join(b.d.Layout.StateDir, "images", sumOf(got))); err != nil || i.Mode().Perm() != 0o700 {
					t.Error("no verified copy is kept")
				}
			}
			if m, _ := filepath.Glob(b.d.Layout.HookBinary + ".*"); len(m) > 0 {
				t.Errorf("left behind %q", m)
			}
		})
	}
}

// TestNothingPointsToNothing: without a hook nothing is registered; a failed
// upgrade leaves the old one registered and working (security.md S12).
func TestNothingPointsToNothing(t *testing.T) {
	b := newBench(t, "u")
	must(t, os.Remove(b.d.Image.Beside))
	done, err := Apply(context.Background(), b.host, b.d)
	must(t, err)
	if _, err := os.Lstat(b.hookFile("u")); err == nil {
		t.Error("a hook is registered that isn't there")
	}
	if done.OK() || len(done.Skipped) != 1 || done.Users[0].Hook != "absent" {
		t.Errorf("not reported:\n%s", show(done))
	}
	write(t, b.d.Image.Beside, fakeHook, 0o755)
	b.apply()
	write(t, b.d.Image.Beside, "garbage", 0o755)
	done, err = Apply(context.Background(), b.host, b.d)
	must(t, err)
	if done.OK() || read(t, b.d.Layout.HookBinary) != fakeHook {
		t.Errorf("a broken image replaced the working one:\n%s", show(done))
	}
}

// TestOldAgentsHookRunsOn: a hook that is running keeps its inode (field
// reports R66, R77, R81).
func TestOldAgentsHookRunsOn(t *testing.T) {
	b := newBench(t, "u")
	b.apply()
	old, err := os.Stat(b.d.Layout.HookBinary)
	must(t, err)
	write(t, b.d.Image.Beside, newerHook, 0o755)
	b.apply()
	now, err := os.Stat(b.d.Layout.HookBinary)
	must(t, err)
	if os.SameFile(old, now) {
		t.Error("the image was changed in place")
	}
}

func TestPluginRootMove(t *testing.T) {
	b := newBench(t, "u")
	clock := &clocked{System: b.host.System, now: time.Now()}
	b.host.System = clock
	b.apply()
	old := b.d.Layout.HookBinary
	running := []Process{{PID: 1, Name: "copilot", Started: clock.now.Add(-time.Hour)}}
	b.host.Hosts = func() []Process { return running }

	b.d.Layout = b.d.Layout.WithHookDir("/opt/pinta agent")
	b.apply()
	for _, f := range []string{b.hookFile("u"), b.d.Layout.PolicyFile()} {
		if s := read(t, f); !strings.Contains(s, "/opt/pinta agent/pinta-hook") || strings.Contains(s, old) {
			t.Errorf("%s isn't rewritten", f)
		}
	}
	if read(t, b.d.Layout.HookBinary) != fakeHook {
		t.Error("the new path holds no hook")
	}
	must(t, os.Remove(old)) // the running session still needs it
	b.apply()
	if read(t, old) != fakeHook {
		t.Error("the old path isn't restored while a session uses it")
	}
	write(t, b.d.Image.Beside, newerHook, 0o755)
	b.apply()
	if read(t, old) != newerHook {
		t.Error("the old path keeps an old hook")
	}
	b.settled()

	for _, c := range []struct {
		name string
		do   func()
	}{
		{"the session ended, a newer one runs", func() { running[0].Started = clock.now.Add(time.Minute) }},
		{"thirty days are over", func() { clock.now = clock.now.Add(maxMoveAge + time.Minute) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.do()
			b.apply()
			if _, err := os.Lstat(filepath.Dir(old)); err == nil {
				t.Error("the old path is still there")
			}
			b.settled()
			// Move back for the next case.
			old, b.d.Layout = b.d.Layout.HookBinary, b.d.Layout.WithHookDir(filepath.Dir(old))
			running[0].Started = clock.now.Add(-time.Hour)
			b.apply()
			if _, err := os.Lstat(old); err != nil {
				t.Error(err)
			}
		})
	}

	b.d.Uninstall = &Removal{}
	b.apply()
	for _, p := range []string{old, b.d.Layout.HookBinary} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s survives the uninstall", p)
		}
	}
}

// clocked is a system at another time.
type clocked struct {
	System
	now time.Time
}

func (c *clocked) Now() time.Time { return c.now }

// TestPluginRootMoveWhileWatched: every registration is rewritten within 2 s of
// the new configuration, while hooks of a running session go on.
func TestPluginRootMoveWhileWatched(t *testing.T) {
	b := newBench(t, "u", "v")
	b.apply()
	running := Process{PID: 1, Name: "copilot", Started: time.Now().Add(-time.Hour)}
	b.host.Hosts = func() []Process { return []Process{running} }
	wanted := make(chan Desired, 1)
	wanted <- b.d
	trigger := make(chan struct{}, 1)
	w := b.watching(WatchOptions{AuditEvery: time.Hour, Trigger: trigger, Desired: func(context.Context) (Desired, error) {
		d := <-wanted
		wanted <- d
		return d, nil
	}})
	stop := make(chan struct{})
	bad := make(chan string, 1)
	go func() { // the running session
		defer close(bad)
		text := POSIX(b.d.Layout.HookBinary)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if r := runText(t, []string{"/bin/sh"}, text, "{}"); r.status != 0 || r.stderr != "" {
				bad <- r.stderr
				return
			}
		}
	}()
	d := <-wanted
	d.Layout = d.Layout.WithHookDir("/opt/pinta")
	wanted <- d
	begin := time.Now()
	trigger <- struct{}{}
	for _, f := range []string{b.hookFile("u"), b.hookFile("v"), d.Layout.PolicyFile()} {
		for !strings.Contains(read(t, f), "/opt/pinta/pinta-hook") {
			if time.Since(begin) > 2*time.Second {
				t.Fatalf("%s isn't rewritten after %s", f, time.Since(begin))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	t.Logf("rewritten after %s", time.Since(begin))
	close(stop)
	for s := range bad {
		t.Errorf("the running session wasn't guarded: %s", s)
	}
	_ = w
}

func TestUninstallRestores(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(t *testing.T, b *bench)
		since func(t *testing.T, b *bench) // changes of others after the install
		want  func(before, since map[string]string) map[string]string
	}{
		{"nothing there", func(*testing.T, *bench) {}, nil, nil},
		{"empty folders", func(t *testing.T, b *bench) { must(t, os.MkdirAll(b.home("u", ".copilot", "hooks"), 0o750)) }, nil, nil},
		{"foreign hook file", report("R52.json"), nil, nil},
		{"unparseable hook file", report("R112.json"), nil, nil},
		{"env file without end of line", func(t *testing.T, b *bench) { write(t, b.envFile("u"), "A=1", 0o640) }, nil, nil},
		{"empty env file", func(t *testing.T, b *bench) { write(t, b.envFile("u"), "", 0o600) }, nil, nil},
		{"env file with CRLF and BOM", func(t *testing.T, b *bench) { write(t, b.envFile("u"), "\xef\xbb\xbfA=1\r\n#x\r\n", 0o644) }, nil, nil},
		{"Node adapter that still works", func(t *testing.T, b *bench) {
			script := b.home("u", ".pinta", "pinta-copilot", "dist", "index.js")
			write(t, script, "//", 0o644)
			write(t, b.hookFile("u"), `{"version":1,"hooks":{"PreToolUse":[{"type":"command","command":"node '`+script+`'"}]}}`, 0o644)
		}, nil, nil},
		{"spans of the Node adapter", func(t *testing.T, b *bench) {
			write(t, b.home("u", ".copilot", dataDirName, queueName), "{}\n", 0o600)
		}, nil, nil},
		{"what the hook made goes", func(*testing.T, *bench) {}, func(t *testing.T, b *bench) {
			write(t, b.home("u", ".copilot", dataDirName, "trace.json"), "{}", 0o600)
			write(t, b.home("u", ".copilot", dataDirName, "trace.json.lock"), "", 0o600)
			write(t, b.home("u", ".copilot", dataDirName, queueName), "", 0o600)
		}, func(before, _ map[string]string) map[string]string { return before }},
		{"foreign changes since then stay", func(t *testing.T, b *bench) { write(t, b.envFile("u"), "A=1\n", 0o644) }, func(t *testing.T, b *bench) {
			s := read(t, b.envFile("u"))
			write(t, b.envFile("u"), s+"B=2\n", 0o600)
			write(t, b.home("u", ".copilot", "hooks", "theirs.json"), "{}", 0o644)
		}, func(_, since map[string]string) map[string]string {
			return map[string]string{".copilot/pinta-copilot.env": "-rw-r--r-- A=1\nB=2\n", ".copilot/hooks/theirs.json": since[".copilot/hooks/theirs.json"]}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, "u")
			c.setup(t, b)
			before := tree(t, b.home("u"))
			b.apply()
			var since map[string]string
			if c.since != nil {
				c.since(t, b)
				since = tree(t, b.home("u"))
			}
			b.d.Uninstall = &Removal{}
			b.apply()
			b.settled()
			got := tree(t, b.home("u"))
			if c.want == nil {
				sameTree(t, got, before)
				return
			}
			for p, want := range c.want(before, since) {
				if got[p] != want {
					t.Errorf("%s: %q, want %q", p, got[p], want)
				}
			}
			if _, ok := got[".copilot/hooks/"+hookFileName]; ok {
				t.Error("hook file is still there")
			}
		})
	}
}

// TestUninstallKeepsUndelivered: spans that wait for delivery go with purge
// only.
func TestUninstallKeepsUndelivered(t *testing.T) {
	b := newBench(t, "u")
	b.apply()
	queue := b.home("u", ".copilot", dataDirName, queueName)
	write(t, queue, "{}\n", 0o600)
	b.d.Uninstall = &Removal{}
	b.apply()
	if _, err := os.Stat(queue); err != nil {
		t.Error(err)
	}
	b.d.Uninstall.Purge = true
	b.apply()
	if _, err := os.Stat(filepath.Dir(queue)); err == nil {
		t.Error("purge keeps the data folder")
	}
}

// TestUninstallOrder: entries first, then after the grace the binary.
func TestUninstallOrder(t *testing.T) {
	b := newBench(t, "u")
	b.apply()
	waited := time.Duration(0)
	b.host.Sleep = func(_ context.Context, d time.Duration) {
		waited += d
		if _, err := os.Stat(b.d.Layout.HookBinary); err != nil {
			t.Error("the binary went before the grace was over")
		}
		for _, p := range []string{b.hookFile("u"), b.d.Layout.PolicyFile(), b.envFile("u")} {
			if _, err := os.Lstat(p); err == nil {
				t.Errorf("%s is there while the binary goes", p)
			}
		}
	}
	text := POSIX(b.d.Layout.HookBinary)
	b.d.Uninstall = &Removal{Grace: HookGrace}
	done := b.apply()
	if waited != HookGrace {
		t.Errorf("waited %s", waited)
	}
	order := []Object{}
	for _, s := range done.Steps {
		if len(order) == 0 || order[len(order)-1] != s.Object {
			order = append(order, s.Object)
		}
	}
	if i, j := slices.Index(order, PolicyFile), slices.Index(order, HookFile); i > j || j > slices.Index(order, HookBinary) {
		t.Errorf("order %v", order)
	}
	checkRun(t, runText(t, []string{"/bin/sh"}, text, "{}"), "", "is missing") // what a session still holds
	again := b.apply()
	if len(again.Steps) > 0 {
		t.Errorf("a second run did\n%s", show(again))
	}
}

// TestOldAdapterKeepsBacklog: the Node adapter's hook file is replaced, its
// queue and its other env keys stay.
func TestOldAdapterKeepsBacklog(t *testing.T) {
	b := newBench(t, "u")
	report("R57.json")(t, b)
	write(t, b.home("u", ".copilot", dataDirName, queueName), `{"savedAt":"x","payload":{}}`+"\n", 0o600)
	write(t, b.envFile("u"), "COPILOT_PLUGIN_OPTION_ENDPOINT=https://old/\nPINTA_TELEMETRY_TIMEOUT_MS=900\n", 0o600)
	b.apply()
	if read(t, b.home("u", ".copilot", dataDirName, queueName)) == "" {
		t.Error("the backlog is gone")
	}
	if s := read(t, b.envFile("u")); !strings.Contains(s, "PINTA_TELEMETRY_TIMEOUT_MS=900\n") || strings.Contains(s, "https://old/") {
		t.Errorf("env file %q", s)
	}
	if strings.Contains(read(t, b.hookFile("u")), "index.js") {
		t.Error("the Node adapter is still registered")
	}
}

// TestTwoCopilotHomes: with COPILOT_HOME known, or set in a start-up file, both
// homes are registered.
func TestTwoCopilotHomes(t *testing.T) {
	b := newBench(t, "told", "found", "elsewhere")
	for i := range b.d.Users {
		if b.d.Users[i].Name == "told" {
			b.d.Users[i].CopilotHome = b.home("told", "cp")
		}
	}
	write(t, b.home("found", ".bashrc"), "export COPILOT_HOME=\"$HOME/my copilot\"\n", 0o644)
	write(t, b.home("elsewhere", ".profile"), "COPILOT_HOME="+filepath.Join(b.root, "data")+"\n", 0o644)
	must(t, os.MkdirAll(filepath.Join(b.root, "data"), 0o755))
	b.apply()
	b.settled()
	for _, dir := range []string{b.home("told", ".copilot"), b.home("told", "cp"), b.home("found", ".copilot"), b.home("found", "my copilot"), b.home("elsewhere", ".copilot"), filepath.Join(b.root, "data")} {
		for _, f := range []string{filepath.Join(dir, "hooks", hookFileName), filepath.Join(dir, envFileName)} {
			if _, err := os.Stat(f); err != nil {
				t.Error(err)
			}
		}
	}
	before := len(b.d.Users)
	b.d.Uninstall = &Removal{}
	b.apply()
	if m, _ := filepath.Glob(filepath.Join(b.root, "data", "*")); len(m) > 0 || before != 3 {
		t.Errorf("left %q", m)
	}
}
