package installer

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// TestMain lets the test binary be its own worker.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "worker" {
		syscall.Exit(RunWorker(os.Stdin, os.Stdout)) // os.Exit waits a second for the race detector's last report
	}
	// Hundreds of synced writes: in memory where programs may run there.
	if _, err := os.Stat("/dev/shm"); err == nil && os.Getenv("TMPDIR") == "" && !noexec("/dev/shm") {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	os.Exit(m.Run())
}

// fakeHook is an image that behaves like the hook as far as the installer can
// tell: it exits 0 and says nothing on stdout.
const fakeHook = "#!/bin/sh\nexit 0\n"

// bench is a machine below --root with homes.
type bench struct {
	t    testing.TB
	root string
	host Host
	d    Desired
}

func newBench(t testing.TB, names ...string) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Chmod(root, 0o755))
	l, err := settings.NewLayout(root)
	must(t, err)
	for _, n := range names {
		must(t, os.MkdirAll(filepath.Join(l.Homes, n), 0o755))
	}
	image := filepath.Join(root, "dist", "pinta-hook")
	write(t, image, fakeHook, 0o755)
	b := &bench{t: t, root: root, host: Real(l)}
	b.host.Hosts = func() []Process { return nil }
	b.host.Sleep = func(context.Context, time.Duration) {}
	b.d = Desired{
		Layout: l, Version: "1.2.3", Hooks: Hooks{User: true, Machine: true}, Managed: true, GuardTimeoutMs: 400,
		Endpoints: Endpoints{Guard: l.GuardURL(), Traces: l.TracesURL()}, Image: Image{Beside: image},
	}
	b.users()
	return b
}

// users lists the homes anew.
func (b *bench) users() {
	b.t.Helper()
	var err error
	b.d.Users, err = Accounts(context.Background(), b.d.Layout)
	must(b.t, err)
}

func (b *bench) home(name string, more ...string) string {
	return filepath.Join(append([]string{b.d.Layout.Homes, name}, more...)...)
}

func (b *bench) hookFile(name string) string {
	return b.home(name, ".copilot", "hooks", hookFileName)
}

func (b *bench) envFile(name string) string { return b.home(name, ".copilot", envFileName) }

// apply makes the desired state hold and fails the test if that doesn't.
func (b *bench) apply() Changes {
	b.t.Helper()
	c, err := Apply(context.Background(), b.host, b.d)
	must(b.t, err)
	if !c.OK() || len(c.Skipped) > 0 {
		b.t.Fatalf("apply left something wrong:\n%s", show(c))
	}
	return c
}

// settled fails the test unless there is nothing left to do.
func (b *bench) settled() {
	b.t.Helper()
	c, err := Plan(context.Background(), b.host, b.d)
	must(b.t, err)
	if len(c.Steps)+len(c.Skipped) > 0 {
		b.t.Fatalf("not settled:\n%s", show(c))
	}
}

func show(c Changes) string {
	var s strings.Builder
	for _, st := range c.Steps {
		s.WriteString(string(st.Object) + " " + st.Path + " " + string(st.Kind) + " " + st.Detail + " " + st.Error + "\n")
		for _, o := range st.Ops {
			s.WriteString("    " + o.String() + "\n")
		}
	}
	for _, k := range c.Skipped {
		s.WriteString("skipped " + k.User + " " + k.Home + ": " + k.Reason + "\n")
	}
	return s.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, content string, perm fs.FileMode) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), perm))
	must(t, os.Chmod(path, perm))
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

// tree lists a folder with types, modes and contents, so that two of them can
// be compared.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := e.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		v := i.Mode().String()
		switch {
		case i.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			v += " " + string(b)
		case i.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			v += " " + to
		}
		out[rel] = v
		return nil
	}))
	return out
}

func sameTree(t testing.TB, got, want map[string]string) {
	t.Helper()
	for p, w := range want {
		if got[p] != w {
			t.Errorf("%s: got %q, want %q", p, clip(got[p]), clip(w))
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%s is left over: %q", p, clip(got[p]))
		}
	}
}

func clip(s string) string { return s[:min(len(s), 200)] }
