package installer

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFullDisk is the same on a real file system without room (field report
// R112).
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	b := newBench(t, "u")
	if err := syscall.Mount("tmpfs", b.home("u"), "tmpfs", 0, "size=256k,mode=0755"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	defer syscall.Unmount(b.home("u"), syscall.MNT_DETACH)
	b.apply()
	hook := read(t, b.hookFile("u"))
	write(t, b.envFile("u"), "", 0o600)
	fill, err := os.Create(b.home("u", "fill"))
	must(t, err)
	for _, n := range []int{4096, 1} {
		for {
			if _, err := fill.Write(make([]byte, n)); err != nil {
				break
			}
		}
	}
	fill.Close()
	b.d.Version = "2.0.0" // wants another hook file
	done, err := Apply(context.Background(), b.host, b.d)
	must(t, err)
	if done.OK() || !strings.Contains(show(done), "free space") {
		t.Errorf("not reported:\n%s", show(done))
	}
	if read(t, b.hookFile("u")) != hook {
		t.Error("the old hook file isn't whole")
	}
	must(t, os.Remove(b.home("u", "fill")))
	b.apply()
	b.settled()
}

// TestNoexecIsFound: a hook on a real file system that starts no program.
func TestNoexecIsFound(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	b, dir := newBench(t, "u"), t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOEXEC, "size=64k"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	b.d.Layout.HookBinary = filepath.Join(dir, "pinta-hook")
	write(t, b.d.Layout.HookBinary, "#!/bin/sh\n", 0o755)
	if f := machineFindings(b.host, b.d); !slices.ContainsFunc(f, func(f Finding) bool { return f.ID == "hook-binary.noexec" }) {
		t.Errorf("%+v", f)
	}
}

// TestDriftImmutable: a file that can't be replaced is reported with what to
// do, and everything else is put right.
func TestDriftImmutable(t *testing.T) {
	b := newBench(t, "u", "v")
	b.apply()
	write(t, b.hookFile("u"), "{}", 0o644)
	f, err := os.Open(b.hookFile("u"))
	must(t, err)
	defer f.Close()
	const fsImmutable = 0x10
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, fsImmutable); err != nil {
		t.Skipf("no immutable flag here: %v", err)
	}
	defer unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
	must(t, os.Remove(b.hookFile("v")))
	c, err := Apply(context.Background(), b.host, b.d)
	must(t, err)
	if c.OK() || !strings.Contains(show(c), "immutable") {
		t.Errorf("not reported:\n%s", show(c))
	}
	if read(t, b.hookFile("u")) != "{}" {
		t.Error("the immutable file changed")
	}
	if _, err := os.Stat(b.hookFile("v")); err != nil {
		t.Error(err)
	}
	if m, _ := filepath.Glob(b.home("u", ".copilot", "hooks", ".*.tmp")); len(m) > 0 {
		t.Errorf("left behind %q", m)
	}
}
