package installer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pinta-ai/pinta-agent/installer/users"
)

// watching runs Watch over the bench until the test ends.
func (b *bench) watching(o WatchOptions) *watched {
	b.t.Helper()
	w := &watched{repairs: make(chan Repair, 4096), ready: make(chan struct{})}
	if o.Desired == nil {
		o.Desired = func(context.Context) (Desired, error) { return b.d, nil }
	}
	var once sync.Once
	o.Repaired = func(r Repair) {
		LogRepair(b.d.Layout, r)
		w.repairs <- r
	}
	o.Audited = func(Changes, error) { once.Do(func() { close(w.ready) }) }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Watch(ctx, b.host, o)
	}()
	b.t.Cleanup(func() {
		cancel()
		<-done
		goleak.VerifyNone(b.t, goleak.IgnoreCurrent())
	})
	<-w.ready
	time.Sleep(100 * time.Millisecond) // the watches are armed by other goroutines
	return w
}

type watched struct {
	repairs chan Repair
	ready   chan struct{}
}

// repairWithin waits for a repair of the object.
func (w *watched) repairWithin(t testing.TB, d time.Duration, o Object) Repair {
	t.Helper()
	end := time.After(d)
	for {
		select {
		case r := <-w.repairs:
			if r.Object == o {
				return r
			}
		case <-end:
			t.Fatalf("no repair of %s within %s", o, d)
		}
	}
}

func TestWatchRepairsWithinTwoSeconds(t *testing.T) {
	b := newBench(t, "alice")
	b.apply()
	w := b.watching(WatchOptions{AuditEvery: time.Hour})
	for _, c := range []struct {
		name string
		do   func() error
		o    Object
		want Kind
	}{
		{"hook file removed", func() error { return os.Remove(b.hookFile("alice")) }, HookFile, Absent},
		{"hook file altered", func() error { return os.WriteFile(b.hookFile("alice"), []byte(`{"version":1}`), 0o644) }, HookFile, NotOurs},
		{"hooks folder removed", func() error { return os.RemoveAll(b.home("alice", ".copilot", "hooks")) }, HookFile, Absent},
		{"whole Copilot home removed", func() error { return os.RemoveAll(b.home("alice", ".copilot")) }, HookFile, Absent},
		{"env file emptied", func() error { return os.Truncate(b.envFile("alice"), 0) }, EnvFile, Altered},
		{"binary removed", func() error { return os.Remove(b.d.Layout.HookBinary) }, HookBinary, Absent},
		{"binary truncated", func() error { return os.Truncate(b.d.Layout.HookBinary, 5) }, HookBinary, Altered},
		{"binary not executable", func() error { return os.Chmod(b.d.Layout.HookBinary, 0o644) }, HookBinary, NotExecutable},
		{"plugin root removed", func() error { return os.RemoveAll(b.d.Layout.HookDir()) }, HookBinary, Absent},
		{"policy file removed", func() error { return os.Remove(b.d.Layout.PolicyFile()) }, PolicyFile, Absent},
		{"policy folder removed", func() error { return os.RemoveAll(b.d.Layout.PolicyDir) }, PolicyFile, Absent},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, c.do())
			r := w.repairWithin(t, 2*time.Second, c.o)
			if r.Reason != c.want || r.Error != "" {
				t.Errorf("repair %+v, want reason %s", r, c.want)
			}
			time.Sleep(2 * debounce)
			b.settled()
		})
	}
	if got := Repairs(b.d.Layout); len(got) < 11 {
		t.Errorf("repair log holds %d entries", len(got))
	}
}

func TestAuditRepairsWithoutWatch(t *testing.T) {
	b := newBench(t, "alice")
	b.apply()
	b.host.Homes = blind{b.host.Homes}
	w := b.watching(WatchOptions{AuditEvery: 300 * time.Millisecond})
	must(t, os.Remove(b.hookFile("alice")))
	w.repairWithin(t, 2*time.Second, HookFile)
	b.settled()
}

// blind is homes in which nothing can be watched, as on a network file system.
type blind struct{ Homes }

func (blind) Watch(ctx context.Context, _ users.Account, _ HomeRequest, _ func()) error {
	return os.ErrInvalid
}

func TestWatchFindsNewAccounts(t *testing.T) {
	b := newBench(t, "alice")
	b.apply()
	w := b.watching(WatchOptions{AuditEvery: 200 * time.Millisecond, Desired: func(ctx context.Context) (Desired, error) {
		d := b.d
		var err error
		d.Users, err = Accounts(ctx, d.Layout)
		return d, err
	}})
	must(t, os.MkdirAll(b.home("carol"), 0o755))
	if r := w.repairWithin(t, 2*time.Second, HookFile); r.User != "carol" {
		t.Errorf("repair for %q", r.User)
	}
}

func TestRivalIsLeftAloneAfterTwentyRepairs(t *testing.T) {
	b := newBench(t, "alice")
	b.apply()
	var looks atomic.Int32
	w := b.watching(WatchOptions{AuditEvery: time.Hour, Desired: func(context.Context) (Desired, error) {
		looks.Add(1)
		return b.d, nil
	}})
	stop := time.After(12 * time.Second)
	var last Repair
	for n := 0; last.Until.IsZero(); n++ {
		must(t, os.WriteFile(b.hookFile("alice"), []byte(fmt.Sprintf(`{"version":1,"rival":%d}`, n%3)), 0o644))
		select {
		case r := <-w.repairs:
			if r.Object == HookFile {
				last = r
			}
		case <-stop:
			t.Fatalf("no back-off; last repair %+v", last)
		}
	}
	if last.Count != fightLimit+1 {
		t.Errorf("backed off after %d repairs", last.Count)
	}
	must(t, os.WriteFile(b.hookFile("alice"), []byte(`{"version":1,"rival":99}`), 0o644))
	must(t, os.Remove(b.d.Layout.PolicyFile())) // others go on being repaired
	w.repairWithin(t, 2*time.Second, PolicyFile)
	select {
	case r := <-w.repairs:
		t.Errorf("repaired in spite of back-off: %+v", r)
	case <-time.After(time.Second):
	}
	before := looks.Load()
	for n := range 30 { // nor does he keep us busy looking
		must(t, os.WriteFile(b.hookFile("alice"), fmt.Appendf(nil, `{"version":1,"rival":%d}`, n), 0o644))
		time.Sleep(100 * time.Millisecond)
	}
	if n := looks.Load() - before; n > 1 {
		t.Errorf("%d looks at what is left alone", n)
	}
}

func TestThousandChangesAreNoStorm(t *testing.T) {
	b := newBench(t, "alice")
	b.apply()
	w := b.watching(WatchOptions{AuditEvery: time.Hour})
	for n := range 1000 {
		must(t, os.WriteFile(b.hookFile("alice"), []byte(fmt.Sprintf(`{"n":%d}`, n)), 0o644))
		time.Sleep(time.Millisecond)
	}
	time.Sleep(4 * debounce)
	if n := len(w.repairs); n == 0 || n > fightLimit+1 {
		t.Errorf("%d repairs for 1000 changes", n)
	}
	b.settled()
	names, err := os.ReadDir(b.home("alice", ".copilot", "hooks"))
	must(t, err)
	if len(names) > maxKept+1 {
		t.Errorf("%d files left in the hooks folder", len(names))
	}
}

// TestWatchAnotherUsersHome: a privileged service watches and repairs by
// workers of the home's user.
func TestWatchAnotherUsersHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has workers of other users")
	}
	b := newBench(t, "alice")
	must(t, os.Chown(b.home("alice"), 4711, 4711))
	for dir := b.root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) { // the user must reach the home
		i, err := os.Stat(dir)
		must(t, err)
		must(t, os.Chmod(dir, i.Mode()|0o111))
	}
	b.users()
	b.apply()
	w := b.watching(WatchOptions{AuditEvery: time.Hour})
	must(t, os.Remove(b.hookFile("alice")))
	w.repairWithin(t, 2*time.Second, HookFile)
	if i, err := os.Stat(b.hookFile("alice")); err != nil || infoOf(i).UID != 4711 {
		t.Errorf("%v", err)
	}
	must(t, os.RemoveAll(b.home("alice", ".copilot")))
	w.repairWithin(t, 2*time.Second, HookFile)
}

// TestEndOfWatchIsNoFault: what a run that is cut short says isn't told.
func TestEndOfWatchIsNoFault(t *testing.T) {
	b := newBench(t, "u")
	ctx, cancel := context.WithCancel(context.Background())
	err := Watch(ctx, b.host, WatchOptions{
		Desired: func(ctx context.Context) (Desired, error) {
			cancel()
			return b.d, nil
		},
		Audited: func(_ Changes, err error) { t.Errorf("told: %v", err) },
	})
	if err != context.Canceled { //nolint:errorlint // Watch returns it plain
		t.Error(err)
	}
}

// TestFailureIsToldOnce: what can't be repaired isn't reported with each look,
// and so pushes no repair out of the log; a new failure is.
func TestFailureIsToldOnce(t *testing.T) {
	b := newBench(t, "u")
	b.apply()
	hooks := filepath.Dir(b.hookFile("u"))
	block := func() {
		write(t, hooks+".tmp", "", 0o644)
		for must(t, os.RemoveAll(hooks)); os.Rename(hooks+".tmp", hooks) != nil; must(t, os.RemoveAll(hooks)) { // an audit came between
		}
	}
	block()
	w := b.watching(WatchOptions{AuditEvery: 150 * time.Millisecond})
	if r := w.repairWithin(t, 2*time.Second, HookFile); r.Error == "" {
		t.Errorf("repaired: %+v", r)
	}
	time.Sleep(time.Second)
	for len(w.repairs) > 0 {
		if r := <-w.repairs; r.Error != "" {
			t.Errorf("told again: %+v", r)
		}
	}
	must(t, os.Remove(hooks))
	if r := w.repairWithin(t, 2*time.Second, HookFile); r.Error != "" {
		t.Errorf("not repaired: %+v", r)
	}
	block()
	if r := w.repairWithin(t, 2*time.Second, HookFile); r.Error == "" {
		t.Errorf("the same failure, come again, isn't told: %+v", r)
	}
}
