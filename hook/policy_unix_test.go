//go:build unix

package hook

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// client starts a client and a process of its own that leads a hook's group.
func client(t *testing.T) (group int) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "sleep 60 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(out, &group); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(group, unix.SIGKILL)
		_ = cmd.Wait()
	})
	return group
}

// grain is longer than the units in which systems stamp files and processes.
const grain = 30 * time.Millisecond

// TestClientStart: a client's start lies between what was written before it and
// what was written after it.
func TestClientStart(t *testing.T) {
	stamp := func() int64 {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ctim.Nano()
	}
	before := stamp()
	time.Sleep(grain)
	group := client(t)
	time.Sleep(grain)
	after := stamp()
	start, err := clientStart(group)
	if err != nil || start.Nano() <= before || start.Nano() >= after {
		t.Errorf("started %v after the file before it and %v before the file after it, %v", time.Duration(start.Nano()-before), time.Duration(after-start.Nano()), err)
	}
	if _, err := clientStart(1 << 30); err == nil {
		t.Error("a group that is not there has a client")
	}
}

// TestPolicyOlderThanClient: a client that began before the machine's hook
// file was as it is has not read it, and so the user's run doesn't yield.
func TestPolicyOlderThanClient(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a policy file is the machine's")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "policy.d")
	file := filepath.Join(dir, policyName)
	must(os.Mkdir(dir, 0o755))
	for _, c := range []struct {
		name   string
		before func()
		change func()
	}{
		{"file written", func() {}, func() { must(os.WriteFile(file, nil, 0o644)) }},
		{"file replaced", func() {}, func() {
			must(os.WriteFile(file+".new", nil, 0o644))
			must(os.Chtimes(file+".new", time.Time{}, time.Now().Add(-time.Hour)))
			must(os.Rename(file+".new", file))
		}},
		{"file's rights put right", func() { must(os.Chmod(file, 0o666)) }, func() { must(os.Chmod(file, 0o644)) }},
		{"file's owner put right", func() { must(os.Chown(file, 1, 0)) }, func() { must(os.Chown(file, 0, 0)) }},
		{"folder's rights put right", func() { must(os.Chmod(dir, 0o777)) }, func() { must(os.Chmod(dir, 0o755)) }},
		{"file moved in from elsewhere", func() { must(os.Rename(file, dir+".away")) }, func() { must(os.Rename(dir+".away", file)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.before()
			time.Sleep(grain)
			older := client(t)
			time.Sleep(grain)
			c.change()
			if f, err := policyIn(dir, older); err == nil {
				_ = f.Close()
				t.Error("in force for a client that began before")
			}
			time.Sleep(grain)
			f, err := policyIn(dir, client(t))
			if err != nil {
				t.Fatal("not in force for a client that began after:", err)
			}
			_ = f.Close()
		})
	}
}
