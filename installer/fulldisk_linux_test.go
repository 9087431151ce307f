package installer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
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

// setFlag sets or clears an inode flag on the real file system.
func setFlag(t *testing.T, path string, bits int) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	must(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, bits))
}

const (
	flagImmutable  = 0x10
	flagAppendOnly = 0x20
)

// TestDoctorSaysWhatRepairCanFix: a finding that repair can't mend says so
// before, names the cause, and repair, which finds the same, leaves nothing
// behind.
func TestDoctorSaysWhatRepairCanFix(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can set the flags and mount file systems")
	}
	for _, c := range []struct {
		name string
		id   string
		// hinder breaks something, keeps it from being repaired, and returns how
		// to end that and what the remedy has to name.
		hinder func(t *testing.T, b *bench) (undo func(), remedy string)
	}{
		{"immutable hook file of somebody else", "hook-file.foreign", func(t *testing.T, b *bench) (func(), string) {
			write(t, b.hookFile("u"), `{"version":1,"hooks":{"Stop":[]}}`, 0o644)
			setFlag(t, b.hookFile("u"), flagImmutable)
			return func() { setFlag(t, b.hookFile("u"), 0) }, "chattr -i " + b.hookFile("u")
		}},
		{"immutable hook file of the wrong mode", "hook-file.wrong-mode", func(t *testing.T, b *bench) (func(), string) {
			must(t, os.Chmod(b.hookFile("u"), 0o666))
			setFlag(t, b.hookFile("u"), flagImmutable)
			return func() { setFlag(t, b.hookFile("u"), 0) }, "chattr -i " + b.hookFile("u")
		}},
		{"append-only env file", "env-file.altered", func(t *testing.T, b *bench) (func(), string) {
			write(t, b.envFile("u"), "MINE=1\n", 0o600)
			setFlag(t, b.envFile("u"), flagAppendOnly)
			return func() { setFlag(t, b.envFile("u"), 0) }, "chattr -a " + b.envFile("u")
		}},
		{"immutable hooks folder", "hook-file.absent", func(t *testing.T, b *bench) (func(), string) {
			must(t, os.Remove(b.hookFile("u")))
			dir := filepath.Dir(b.hookFile("u"))
			setFlag(t, dir, flagImmutable)
			return func() { setFlag(t, dir, 0) }, "chattr -i " + dir
		}},
		{"immutable folder above a missing one", "hook-file.absent", func(t *testing.T, b *bench) (func(), string) {
			must(t, os.RemoveAll(filepath.Dir(b.hookFile("u"))))
			setFlag(t, b.home("u", ".copilot"), flagImmutable)
			return func() { setFlag(t, b.home("u", ".copilot"), 0) }, "chattr -i " + b.home("u", ".copilot")
		}},
		{"immutable hook binary", "hook-binary.altered", func(t *testing.T, b *bench) (func(), string) {
			write(t, b.d.Layout.HookBinary, "#!/bin/sh\n", 0o755)
			setFlag(t, b.d.Layout.HookBinary, flagImmutable)
			return func() { setFlag(t, b.d.Layout.HookBinary, 0) }, "chattr -i " + b.d.Layout.HookBinary
		}},
		{"immutable journal", "journal.altered", func(t *testing.T, b *bench) (func(), string) {
			file := filepath.Join(b.d.Layout.StateDir, journalName)
			write(t, file, "{", 0o600)
			setFlag(t, file, flagImmutable)
			return func() { setFlag(t, file, 0) }, "chattr -i " + file
		}},
		{"immutable policy file", "policy-file.foreign", func(t *testing.T, b *bench) (func(), string) {
			write(t, b.d.Layout.PolicyFile(), "{}", 0o644)
			setFlag(t, b.d.Layout.PolicyFile(), flagImmutable)
			return func() { setFlag(t, b.d.Layout.PolicyFile(), 0) }, "chattr -i " + b.d.Layout.PolicyFile()
		}},
		{"hook file of somebody else that a container mounts", "hook-file.foreign", func(t *testing.T, b *bench) (func(), string) {
			write(t, b.hookFile("u"), `{"version":1,"hooks":{"Stop":[]}}`, 0o644)
			must(t, syscall.Mount(b.hookFile("u"), b.hookFile("u"), "", syscall.MS_BIND, ""))
			return func() { must(t, syscall.Unmount(b.hookFile("u"), syscall.MNT_DETACH)) }, "umount " + b.hookFile("u")
		}},
		{"hook file of the wrong mode, mounted read-only", "hook-file.wrong-mode", func(t *testing.T, b *bench) (func(), string) {
			must(t, os.Chmod(b.hookFile("u"), 0o666))
			must(t, syscall.Mount(b.hookFile("u"), b.hookFile("u"), "", syscall.MS_BIND, ""))
			must(t, syscall.Mount("", b.hookFile("u"), "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			return func() { must(t, syscall.Unmount(b.hookFile("u"), syscall.MNT_DETACH)) }, "make the file system writable"
		}},
		{"immutable folder behind a link, with a blank in its name", "hook-file.altered", func(t *testing.T, b *bench) (func(), string) {
			dir := b.home("u", "my dots")
			must(t, os.Rename(filepath.Dir(b.hookFile("u")), dir))
			must(t, os.Symlink("../my dots", filepath.Dir(b.hookFile("u"))))
			write(t, b.hookFile("u"), "", 0o644)
			setFlag(t, dir, flagImmutable)
			return func() { setFlag(t, dir, 0) }, "chattr -i '" + dir + "'"
		}},
		{"directory where the new image is tried", "hook-binary.altered", func(t *testing.T, b *bench) (func(), string) {
			write(t, b.d.Layout.HookBinary, "#!/bin/sh\n", 0o755)
			must(t, os.Mkdir(b.d.Layout.HookBinary+".new", 0o755))
			return func() { must(t, os.Remove(b.d.Layout.HookBinary+".new")) }, ""
		}},
		{"home on a read-only file system", "hook-file.altered", func(t *testing.T, b *bench) (func(), string) {
			write(t, b.hookFile("u"), "", 0o644)
			must(t, syscall.Mount(b.home("u"), b.home("u"), "", syscall.MS_BIND, ""))
			must(t, syscall.Mount("", b.home("u"), "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			return func() { must(t, syscall.Unmount(b.home("u"), syscall.MNT_DETACH)) }, "make the file system writable"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, "u", "v")
			b.apply()
			undo, remedy := c.hinder(t, b)
			free := sync.OnceFunc(undo)
			defer free()
			before := tree(t, b.root)
			find := func() *Finding {
				found, err := Verify(context.Background(), b.host, b.d)
				must(t, err)
				if i := slices.IndexFunc(found, func(f Finding) bool { return f.ID == c.id }); i >= 0 {
					return &found[i]
				}
				t.Fatalf("no %s in %+v", c.id, found)
				return nil
			}
			hindered := find()
			if hindered.Fixable || !strings.Contains(hindered.Remedy, remedy) {
				t.Errorf("%+v", hindered)
			}
			done, err := Apply(context.Background(), b.host, b.d)
			must(t, err)
			if done.OK() || !strings.Contains(show(done), remedy) {
				t.Errorf("repair:\n%s", show(done))
			}
			sameTree(t, tree(t, b.root), before)
			free()
			f := find()
			if !f.Fixable {
				t.Errorf("nothing is in the way any more: %+v", f)
			}
			if f.Severity == Notice {
				f.Severity = Warning // that it can't be repaired is worse
			}
			if hindered.Severity != f.Severity {
				t.Errorf("%s instead of %s: %+v", hindered.Severity, f.Severity, hindered)
			}
			b.apply()
			b.settled()
		})
	}
}

// TestAppendOnlyFolderTakesFolders: what such a folder allows isn't called
// impossible.
func TestAppendOnlyFolderTakesFolders(t *testing.T) {
	b := newBench(t, "u")
	b.apply()
	must(t, os.RemoveAll(filepath.Dir(b.hookFile("u"))))
	f, err := os.Open(b.home("u", ".copilot"))
	must(t, err)
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flagAppendOnly); err != nil {
		t.Skipf("no such flag here: %v", err)
	}
	defer unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
	plan, err := Plan(context.Background(), b.host, b.d)
	must(t, err)
	if !plan.OK() {
		t.Errorf("plan:\n%s", show(plan))
	}
	b.apply()
	b.settled()
}

// TestCorrectedFolderIsAskedToo: that a folder's mode will be put right says
// nothing about what else is in the way in it.
func TestCorrectedFolderIsAskedToo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can set the flags")
	}
	b := newBench(t, "u")
	b.apply()
	images := filepath.Join(b.d.Layout.StateDir, "images")
	must(t, os.RemoveAll(images))
	must(t, os.Mkdir(images, 0o700))
	must(t, os.Chmod(b.d.Layout.StateDir, 0o755))
	setFlag(t, images, flagImmutable)
	defer setFlag(t, images, 0)
	plan, err := Plan(context.Background(), b.host, b.d)
	must(t, err)
	done, err := Apply(context.Background(), b.host, b.d)
	must(t, err)
	if got, want := show(plan), show(done); got != want || done.OK() {
		t.Errorf("plan:\n%s\napply:\n%s", got, want)
	}
}

// TestDoctorInAHomeThatCannotBeWritten: the same as the user himself, for whom
// the mode of a folder counts.
func TestDoctorInAHomeThatCannotBeWritten(t *testing.T) {
	dir, err := os.MkdirTemp("", "installer-") // t.TempDir is closed to others
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	sub := filepath.Join(dir, "hooks")
	must(t, os.Mkdir(sub, 0o555))
	if os.Geteuid() == 0 {
		runtime.LockOSThread() // and never unlocked: the thread ends with the test
		must(t, os.Chown(dir, 65534, 65534))
		must(t, os.Chown(sub, 65534, 65534))
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, ^uintptr(0)); e != 0 {
			t.Fatal(e)
		}
		defer syscall.RawSyscall(syscall.SYS_SETRESUID, 0, 0, ^uintptr(0))
	}
	home := Home(dir, -1)
	if err := home.May("write", filepath.Join(sub, hookFileName)); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a folder that can't be written: %v", err)
	}
	must(t, os.Chmod(sub, 0))
	if _, err := home.Lstat(filepath.Join(sub, "deeper", hookFileName)); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), sub) {
		t.Errorf("a folder that can't be entered: %v", err)
	}
	if err := home.May("write", filepath.Join(dir, hookFileName)); err != nil {
		t.Errorf("a folder that can: %v", err)
	}
}
