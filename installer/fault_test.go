package installer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/installer/users"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// jobs are the runs that are interrupted: each starts from a state of its own
// and must end in the state that an undisturbed run reaches.
var jobs = []struct {
	name string
	// before brings a fresh bench to where the run starts.
	before func(t *testing.T, b *bench)
}{
	{"install", func(*testing.T, *bench) {}},
	{"repair", func(t *testing.T, b *bench) {
		b.apply()
		write(t, b.hookFile("u"), "{}", 0o644)
		write(t, b.envFile("u"), "A=1\nPINTA_GUARD_ENDPOINT=x\n", 0o600)
		write(t, b.d.Layout.HookBinary, "#!/bin/sh\nexit 7\n", 0o755)
	}},
	{"upgrade", func(t *testing.T, b *bench) {
		b.apply()
		write(t, b.d.Image.Beside, "#!/bin/sh\n# newer\nexit 0\n", 0o755)
		b.d.Version = "1.3.0"
	}},
	{"move of the plugin root", func(t *testing.T, b *bench) {
		b.apply()
		b.d.Layout = b.d.Layout.WithHookDir("/opt/pinta")
	}},
	{"uninstall", func(t *testing.T, b *bench) {
		write(t, b.hookFile("u"), "{}", 0o644) // comes back
		write(t, b.envFile("u"), "A=1", 0o644)
		b.apply()
		b.d.Uninstall = &Removal{}
	}},
}

var errKilled = errors.New("killed")

// TestCrashAtEveryStep ends the run at each step, also in the middle of a
// write: the next run completes it, and leaves nothing behind.
func TestCrashAtEveryStep(t *testing.T) {
	for _, job := range jobs {
		t.Run(job.name, func(t *testing.T) {
			clean := newBench(t, "u")
			job.before(t, clean)
			clean.apply()
			want := state(t, clean)
			for step := 0; ; step++ {
				b := newBench(t, "u")
				job.before(t, b)
				steps := crashAt(t, b, step)
				if steps <= step {
					if step < 20 {
						t.Errorf("only %d steps", step)
					}
					return
				}
				b.apply()
				b.settled()
				sameTree(t, state(t, b), want)
				if t.Failed() {
					t.Fatalf("after a crash at step %d", step)
				}
			}
		})
	}
}

// crashAt applies until the step from which on nothing can be done, as if the
// process were dead, and returns how many steps there were.
func crashAt(t *testing.T, b *bench, step int) int {
	t.Helper()
	f := &deadFrom{at: step}
	undo := safefile.Inject(f)
	defer undo()
	Apply(context.Background(), b.host, b.d)
	return f.n
}

// deadFrom lets a number of steps succeed; of the next write half the bytes.
type deadFrom struct {
	n, at int
}

func (d *deadFrom) Before(_ safefile.Op, _ string, data []byte) (int, error) {
	d.n++
	if d.n <= d.at {
		return len(data), nil
	}
	return len(data) / 2, errKilled
}

// state is everything below the root but what differs from run to run: times
// in kept names, the journal (that a crash may make claim more), the log.
func state(t *testing.T, b *bench) map[string]string {
	t.Helper()
	out := map[string]string{}
	for p, v := range tree(t, b.root) {
		if strings.HasPrefix(p, "dist") || strings.HasSuffix(p, journalName) || strings.HasSuffix(p, lockName) {
			continue
		}
		v = strings.ReplaceAll(v, b.root, "ROOT")
		v = strings.ReplaceAll(v, strings.ReplaceAll(b.root, "/", "%2F"), "ROOT")
		out[origTime.ReplaceAllString(p, ".orig-TIME")] = v
	}
	return out
}

// TestFaultsAtEveryWrite: a full disk, a read-only file system, refused rights
// or a broken disk at any step leaves what was there whole, is reported with a
// remedy, and is overcome as soon as it ends.
func TestFaultsAtEveryWrite(t *testing.T) {
	for _, c := range []struct {
		err  error
		says string
	}{{syscall.ENOSPC, "free space"}, {syscall.EROFS, "writable"}, {syscall.EPERM, "immutable"}, {syscall.EIO, "input/output error"}, {syscall.EDQUOT, "quota"}} {
		for _, op := range []safefile.Op{safefile.OpCreate, safefile.OpWrite, safefile.OpSync, safefile.OpChmod, safefile.OpRename, safefile.OpSyncDir} {
			t.Run(string(op)+" "+c.err.Error(), func(t *testing.T) {
				b := newBench(t, "u")
				b.apply()
				write(t, b.hookFile("u"), `{"foreign":true}`, 0o644)
				write(t, b.envFile("u"), "MINE=1\n", 0o600)
				undo := safefile.Inject(failing{op, b.home("u"), c.err})
				done, err := Apply(context.Background(), b.host, b.d)
				undo()
				must(t, err)
				if done.OK() || !strings.Contains(show(done), c.says) {
					t.Errorf("not reported with %q:\n%s", c.says, show(done))
				}
				for path, old := range map[string]string{b.hookFile("u"): `{"foreign":true}`, b.envFile("u"): "MINE=1\n"} {
					if now := read(t, path); now != old && op != safefile.OpSyncDir {
						t.Errorf("%s changed to %q", path, clip(now))
					}
				}
				if m, _ := filepath.Glob(b.home("u", ".copilot", ".*.tmp")); len(m) > 0 {
					t.Errorf("left behind %q", m)
				}
				b.apply()
				b.settled()
			})
		}
	}
}

// failing lets one kind of step fail below a folder.
type failing struct {
	op   safefile.Op
	path string
	err  error
}

func (f failing) Before(op safefile.Op, path string, data []byte) (int, error) {
	if op == f.op && strings.HasPrefix(path, f.path) {
		return min(3, len(data)), f.err
	}
	return len(data), nil
}

// swaps are what a user (or what runs as one) may put in place at any moment.
var swaps = []struct {
	name string
	do   func(path, victim string)
}{
	{"link to a folder outside", func(p, v string) { os.Rename(p, p+".was"); os.Symlink(v, p) }},
	{"link to a file outside", func(p, v string) {
		os.Rename(p, p+".was")
		os.Symlink(filepath.Join(v, hookFileName), p)
	}},
	{"hard link to a file outside", func(p, v string) { os.Rename(p, p+".was"); os.Link(filepath.Join(v, hookFileName), p) }},
	{"other directory", func(p, _ string) { os.Rename(p, p+".was"); os.Mkdir(p, 0o755) }},
	{"FIFO", func(p, _ string) { os.Rename(p, p+".was"); _ = mkfifo(p) }},
	{"nothing", func(p, _ string) { os.Rename(p, p+".was") }},
	{"read-only", func(p, _ string) { os.Chmod(p, 0o500) }},
}

// swapAt makes one swap just before a step in the home.
type swapAt struct {
	n, at int
	home  string
	do    func()
}

func (s *swapAt) Before(_ safefile.Op, path string, data []byte) (int, error) {
	if strings.HasPrefix(path, s.home) {
		if s.n++; s.n == s.at+1 {
			s.do()
		}
	}
	return len(data), nil
}

// TestSwapAtEveryStep: whatever is swapped for whatever before whichever step,
// nothing outside of the home is touched, and the run ends.
func TestSwapAtEveryStep(t *testing.T) {
	for _, swap := range swaps {
		t.Run(swap.name, func(t *testing.T) {
			for _, part := range [][]string{{".copilot"}, {".copilot", "hooks"}, {".copilot", "hooks", hookFileName}, {".copilot", envFileName}} {
				for step := 0; ; step++ {
					b := newBench(t, "u")
					b.apply()
					write(t, b.hookFile("u"), "{}", 0o644)
					write(t, b.envFile("u"), "MINE=1\n", 0o600)
					victim := filepath.Join(b.root, "victim")
					write(t, filepath.Join(victim, hookFileName), "precious", 0o600)
					write(t, filepath.Join(victim, envFileName), "precious", 0o600)
					before := tree(t, victim)
					s := &swapAt{at: step, home: b.home("u"), do: func() { swap.do(b.home("u", part...), victim) }}
					undo := safefile.Inject(s)
					Apply(context.Background(), b.host, b.d)
					undo()
					sameTree(t, tree(t, victim), before)
					if t.Failed() {
						t.Fatalf("%v swapped before step %d", part, step)
					}
					if s.n <= step {
						break
					}
				}
			}
		})
	}
}

// TestSkippedHomesBlockNobody: homes that can't be worked in are skipped with
// a reason; the others get their hooks.
func TestSkippedHomesBlockNobody(t *testing.T) {
	b := newBench(t, "fine", "file", "hung")
	write(t, b.home("file", ".copilot"), "a file", 0o644)
	b.host.Homes = hung{b.host.Homes, "hung"}
	done, err := Apply(context.Background(), b.host, b.d)
	must(t, err)
	if done.OK() {
		t.Error("nothing is reported")
	}
	if _, err := os.Stat(b.hookFile("fine")); err != nil {
		t.Error(err)
	}
	text := show(done)
	for _, want := range []string{"not a directory", "is the home away?"} {
		if !strings.Contains(text, want) {
			t.Errorf("no reason %q in\n%s", want, text)
		}
	}
	b.d.Users = nil
	c, err := Plan(context.Background(), b.host, b.d)
	must(t, err)
	if f := c.Findings(); len(f) != 1 || f[0].ID != "users.none" || f[0].Severity != Error {
		t.Errorf("hooks for nobody: %+v", f)
	}
}

// hung is homes of which one never answers.
type hung struct {
	Homes
	name string
}

func (h hung) Do(ctx context.Context, a users.Account, r HomeRequest) (HomeAnswer, error) {
	if a.Name != h.name {
		return h.Homes.Do(ctx, a, r)
	}
	return RealHomes{Spawner: users.Spawner{Limit: 50 * time.Millisecond}}.bounded(ctx, func() (HomeAnswer, error) {
		<-ctx.Done()
		return HomeAnswer{}, ctx.Err()
	})
}
