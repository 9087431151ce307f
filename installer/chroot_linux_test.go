package installer

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// inThrowAway runs this very test once more as root in a copy of the machine:
// an overlay over / in a private mount namespace, so that it may make accounts
// and use the real paths. It returns true inside.
func inThrowAway(t *testing.T) bool {
	t.Helper()
	const mark = "PINTA_TEST_THROW_AWAY"
	if root := os.Getenv(mark); root != "" {
		must(t, enter(root))
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a throw-away copy of the machine")
	}
	root := t.TempDir()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), mark+"="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "can't mount") {
		t.Skipf("no throw-away copy can be made here:\n%s", out)
	}
	if err != nil || strings.Contains(string(out), "--- FAIL") {
		t.Errorf("inside: %v\n%s", err, out)
	}
	return false
}

func enter(root string) error {
	runtime.LockOSThread()
	at := func(p string) string { return filepath.Join(root, p) }
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE, ""},
		{"tmpfs", root, "tmpfs", 0, "mode=0755"},
		{"overlay", at("all"), "overlay", 0, "lowerdir=/,upperdir=" + at("upper") + ",workdir=" + at("work")},
		{"proc", at("all/proc"), "proc", 0, ""},
		{"/dev", at("all/dev"), "", syscall.MS_BIND | syscall.MS_REC, ""},
		{"tmpfs", at("all/home"), "tmpfs", 0, "mode=0755"},
	} {
		if m.kind == "overlay" {
			for _, d := range []string{"all", "upper", "work"} {
				if err := os.MkdirAll(at(d), 0o755); err != nil {
					return err
				}
			}
		}
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("can't mount %s: %w", m.target, err)
		}
	}
	if err := syscall.Chroot(at("all")); err != nil {
		return fmt.Errorf("can't mount (chroot): %w", err)
	}
	return os.Chdir("/")
}

// TestUsersOwnHomes: with real accounts of a real machine everything in a home
// belongs to its user, with the right modes; what can't be done is skipped with
// a reason; an uninstall leaves each home as it was.
func TestUsersOwnHomes(t *testing.T) {
	if !inThrowAway(t) {
		return
	}
	must(t, os.Unsetenv("TMPDIR"))
	const passwd = `root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
alice:x:2001:2001:Alice:/home/alice:/bin/bash
bob:x:2002:100:Bob:/home/bob:/bin/zsh
carol:x:2003:2003:no home:/home/carol:/bin/bash
dave:x:2004:2004:somebody else's home:/home/alice:/bin/bash
erin:x:2005:2005:no shell:/home/erin:/usr/sbin/nologin
frank:x:2006:2006:read-only home:/home/frank:/bin/bash
grace:x:2007:2007:was once used with sudo:/home/grace:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`
	must(t, os.WriteFile("/etc/passwd", []byte(passwd), 0o644))
	must(t, os.WriteFile("/etc/group", []byte("root:x:0:\nusers:x:100:\nshared:x:3000:bob,alice\n"), 0o644))
	home := func(name string, uid, gid int, perm fs.FileMode) {
		must(t, os.MkdirAll("/home/"+name, 0o755))
		must(t, os.Chown("/home/"+name, uid, gid))
		must(t, os.Chmod("/home/"+name, perm))
	}
	home("alice", 2001, 2001, 0o700)
	home("bob", 2002, 100, 0o755)
	home("erin", 2005, 2005, 0o700)
	home("frank", 2006, 2006, 0o500)
	home("grace", 2007, 2007, 0o700)
	must(t, os.MkdirAll("/home/grace/.copilot", 0o755)) // root's
	must(t, os.RemoveAll("/root/.copilot"))
	before := map[string]map[string]string{}
	for _, u := range []string{"alice", "bob", "frank", "grace", "erin"} {
		before[u] = tree(t, "/home/"+u)
	}

	l, err := settings.NewLayout("")
	must(t, err)
	ctx := context.Background()
	write(t, "/opt/image/pinta-hook", fakeHook, 0o755)
	d := Desired{Layout: l, Version: "1.2.3", Hooks: Hooks{User: true, Machine: true}, Managed: true,
		Endpoints: Endpoints{l.GuardURL(), l.TracesURL()}, Image: Image{Beside: "/opt/image/pinta-hook"}}
	d.Users, err = Accounts(ctx, l)
	must(t, err)
	names := ""
	for _, a := range d.Users {
		names += a.Name + " "
	}
	if names != "alice bob carol dave frank grace root " && names != "alice bob carol frank grace root " {
		t.Errorf("accounts: %s", names)
	}
	host := Real(l)
	done, err := Apply(ctx, host, d)
	must(t, err)
	reasons := map[string]string{}
	for _, s := range done.Skipped {
		reasons[s.User] = s.Reason
	}
	for _, s := range done.Steps {
		if s.Error != "" {
			reasons[s.User] = s.Error
		}
	}
	for user, part := range map[string]string{"carol": "no such file", "dave": "permission denied", "frank": "permission denied", "grace": "another account"} {
		if !strings.Contains(reasons[user], part) {
			t.Errorf("%s: reason %q, want %q", user, reasons[user], part)
		}
	}
	for _, user := range []string{"alice", "bob", "root"} {
		if reasons[user] != "" {
			t.Errorf("%s: %s", user, reasons[user])
		}
	}
	check := func(path string, uid, gid int, perm fs.FileMode) {
		t.Helper()
		i, err := os.Lstat(path)
		if err != nil {
			t.Error(err)
			return
		}
		st := i.Sys().(*syscall.Stat_t)
		if int(st.Uid) != uid || int(st.Gid) != gid || i.Mode().Perm() != perm {
			t.Errorf("%s: %d:%d %s, want %d:%d %s", path, st.Uid, st.Gid, i.Mode().Perm(), uid, gid, perm)
		}
	}
	for _, u := range []struct {
		home     string
		uid, gid int
	}{{"/home/alice", 2001, 2001}, {"/home/bob", 2002, 100}, {"/root", 0, 0}} {
		check(u.home+"/.copilot", u.uid, u.gid, 0o700)
		check(u.home+"/.copilot/hooks", u.uid, u.gid, 0o700)
		check(u.home+"/.copilot/hooks/"+hookFileName, u.uid, u.gid, 0o644)
		check(u.home+"/.copilot/"+envFileName, u.uid, u.gid, 0o600)
	}
	check(l.HookBinary, 0, 0, 0o755)
	check(l.PolicyFile(), 0, 0, 0o644)
	check(l.StateDir, 0, 0, 0o700)
	filepath.WalkDir("/home", func(path string, _ fs.DirEntry, err error) error {
		i, _ := os.Lstat(path)
		if path != "/home" && path != "/home/grace/.copilot" && i.Sys().(*syscall.Stat_t).Uid == 0 {
			t.Errorf("%s belongs to root", path)
		}
		return err
	})

	// A file that its user can't read any more.
	must(t, os.Chmod("/home/alice/.copilot/hooks/"+hookFileName, 0))
	plan, err := Plan(ctx, host, d)
	must(t, err)
	if s := show(plan); !strings.Contains(s, string(Unreadable)) {
		t.Errorf("plan:\n%s", s)
	}
	_, err = Apply(ctx, host, d)
	must(t, err)
	check("/home/alice/.copilot/hooks/"+hookFileName, 2001, 2001, 0o644)

	// Doctor runs the registered command as the user.
	diagnosis, err := Doctor(ctx, host, d)
	must(t, err)
	for _, f := range diagnosis.Findings {
		if strings.HasPrefix(f.ID, "canary.") {
			t.Errorf("%+v", f)
		}
	}
	if diagnosis.Facts["alice"].CanaryMs <= 0 {
		t.Error("no canary ran for alice")
	}

	d.Uninstall = &Removal{}
	_, err = Apply(ctx, host, d)
	must(t, err)
	for u, want := range before {
		got := tree(t, "/home/"+u)
		for p := range got {
			if strings.Contains(p, ".orig-") { // what the unreadable file was
				delete(got, p)
			}
		}
		if u == "alice" { // the kept one keeps its folders
			delete(got, ".copilot")
			delete(got, ".copilot/hooks")
		}
		sameTree(t, got, want)
	}
	if _, err := os.Lstat("/root/.copilot"); err == nil {
		t.Error("/root/.copilot is left over")
	}
}

// TestWorkerRights: a worker has its user's rights and no more.
func TestWorkerRights(t *testing.T) {
	if !inThrowAway(t) {
		return
	}
	// A home that leads out by a link: the worker refuses; and were it to
	// follow, it couldn't write there.
	must(t, os.MkdirAll("/home/u", 0o755))
	must(t, os.Chown("/home/u", 2001, 2001))
	must(t, os.Symlink("/etc", "/home/u/.copilot"))
	l, err := settings.NewLayout("")
	must(t, err)
	write(t, "/opt/image/pinta-hook", fakeHook, 0o755)
	d := Desired{Layout: l, Version: "1", Hooks: Hooks{User: true}, Endpoints: Endpoints{l.GuardURL(), l.TracesURL()}, Image: Image{Beside: "/opt/image/pinta-hook"}}
	must(t, os.WriteFile("/etc/passwd", []byte("u:x:2001:2001::/home/u:/bin/sh\n"), 0o644))
	must(t, os.WriteFile("/etc/group", nil, 0o644))
	d.Users, err = Accounts(context.Background(), l)
	must(t, err)
	done, err := Apply(context.Background(), Real(l), d)
	must(t, err)
	if done.OK() || !strings.Contains(show(done), errOutside.Error()) {
		t.Errorf("not refused:\n%s", show(done))
	}
	if _, err := os.Lstat("/etc/hooks"); err == nil {
		t.Error("wrote into /etc")
	}
}
