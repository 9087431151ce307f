//go:build unix

package safefile_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	. "github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/safefile/faults"
)

// TestMain is also the child of the tests that need processes: it does one job, perhaps dying at an armed step.
func TestMain(m *testing.M) {
	path := os.Getenv("SAFEFILE_TEST_PATH")
	if path == "" {
		os.Exit(m.Run())
	}
	faults.KillFromEnv()
	var err error
	switch os.Getenv("SAFEFILE_TEST_JOB") {
	case "write":
		err = WriteFile(path, bytes.Repeat([]byte("n"), 1000), Private)
	case "append":
		for i := 0; i < 20 && err == nil; i++ {
			var unlock func()
			if unlock, err = Lock(path+".lock", 1<<33); err == nil {
				err = Append(path, []byte(strconv.Itoa(os.Getpid())+" "+strconv.Itoa(i)), 0o600)
				unlock()
			}
		}
	}
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

func child(path, job string, env ...string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), append(env, "SAFEFILE_TEST_PATH="+path, "SAFEFILE_TEST_JOB="+job)...)
	c.Stderr = os.Stderr
	return c
}

// kill -9 before each step of a replacement, and in the middle of its write: the file is the old or the new one as a
// whole, and the next write tidies up.
func TestKilledWrite(t *testing.T) {
	fresh := string(bytes.Repeat([]byte("n"), 1000))
	for _, half := range []bool{false, true} {
		for n := range 20 {
			path := filepath.Join(t.TempDir(), "f")
			put(t, filepath.Dir(path), "f", "old")
			err := child(path, "write", faults.KillEnv(n, half)).Run()
			got, _ := os.ReadFile(path)
			if string(got) != "old" && string(got) != fresh {
				t.Fatalf("step %d: %d bytes", n, len(got))
			}
			if err := WriteFile(path, []byte("next"), Private); err != nil {
				t.Fatal(err)
			}
			if left := names(t, filepath.Dir(path)); !slices.Equal(left, []string{"f"}) {
				t.Fatalf("step %d: left over %v", n, left)
			}
			if err == nil {
				if n < 5 {
					t.Fatalf("only %d steps", n)
				}
				break
			}
		}
	}
}

func TestManyAppenders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := child(path, "append").Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	seen := map[string]bool{}
	for _, l := range lines {
		seen[string(l)] = true
	}
	if len(lines) != 400 || len(seen) != 400 {
		t.Fatalf("%d lines, %d different", len(lines), len(seen))
	}
}

// Two writers of one target never take each other's temporary file away.
func TestRivalWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				if err := WriteFile(path, bytes.Repeat([]byte{byte('a' + i)}, 5000), Attr{Perm: 0o600, UID: -1, GID: -1, Volatile: true}); err != nil {
					t.Error(err)
				}
				if got, err := ReadFile(path, 5000); err != nil || len(got) != 5000 || bytes.Count(got, got[:1]) != 5000 {
					t.Errorf("torn: %d bytes, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
	if got := names(t, filepath.Dir(path)); !slices.Equal(got, []string{"f"}) {
		t.Fatalf("left over: %v", got)
	}
}

func TestOddFilesInPlace(t *testing.T) {
	both(t, func(t *testing.T, dir string, s suite) {
		put(t, dir, "real", "secret")
		must(t, os.Symlink("real", filepath.Join(dir, "link")))
		must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
		must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
		for _, name := range []string{"link", "fifo", "sub"} {
			if _, err := s.read(name, 100); !errors.Is(err, ErrNotRegular) {
				t.Errorf("read %s: %v", name, err)
			}
		}
		if _, err := s.read("dangling", 100); err == nil {
			t.Error("read of a dangling link succeeded")
		}
		if err := s.write("sub", []byte("x"), Private); !errors.Is(err, ErrNotRegular) {
			t.Errorf("write over a directory: %v", err)
		}
		for _, name := range []string{"link", "dangling", "fifo"} {
			must(t, s.write(name, []byte("x"), Private))
			if fi, err := os.Lstat(filepath.Join(dir, name)); err != nil || !fi.Mode().IsRegular() {
				t.Errorf("%s was not replaced: %v, %v", name, fi.Mode(), err)
			}
		}
		expect(t, filepath.Join(dir, "real"), "secret")
		for _, path := range []string{"link2", "fifo2"} {
			path = filepath.Join(dir, path)
			if filepath.Base(path) == "link2" {
				must(t, os.Symlink("real", path))
			} else {
				must(t, syscall.Mkfifo(path, 0o600))
			}
			if err := Append(path, []byte("x"), 0o600); err == nil {
				t.Errorf("appended to %s", path)
			}
			if _, err := Lock(path, 0); err == nil {
				t.Errorf("locked %s", path)
			}
		}
		expect(t, filepath.Join(dir, "real"), "secret")
	})
}

func TestChecks(t *testing.T) {
	both(t, func(t *testing.T, dir string, s suite) {
		path := filepath.Join(dir, "f")
		put(t, dir, "f", "x")
		must(t, s.check("f", Check{Owners: []int{os.Geteuid()}, OneLink: true, Forbid: 0o022}))
		must(t, os.Chmod(path, 0o620))
		for name, c := range map[string]struct {
			check Check
			want  error
		}{
			"owner": {Check{Owners: []int{12345, 12346}}, ErrOwner},
			"mode":  {Check{Forbid: 0o022}, ErrMode},
			"links": {Check{OneLink: true}, ErrLinked},
		} {
			if name == "links" {
				must(t, os.Link(path, filepath.Join(dir, "g")))
			}
			if err := s.check("f", c.check); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
			os.Remove(filepath.Join(dir, "g"))
		}
	})
}

func TestModeAndOwner(t *testing.T) {
	both(t, func(t *testing.T, dir string, s suite) {
		old := syscall.Umask(0o077)
		defer syscall.Umask(old)
		must(t, s.write("f", nil, Attr{Perm: 0o644, UID: os.Geteuid(), GID: os.Getegid()}))
		fi, err := os.Stat(filepath.Join(dir, "f"))
		must(t, err)
		if uid, gid, _ := Owner(fi); fi.Mode().Perm() != 0o644 || uid != os.Geteuid() || gid != os.Getegid() {
			t.Fatalf("%v %d:%d", fi.Mode(), uid, gid)
		}
		if os.Geteuid() == 0 {
			must(t, s.write("f", nil, Attr{Perm: 0o4755, UID: 1234, GID: 4321}))
			fi, _ = os.Stat(filepath.Join(dir, "f"))
			if uid, gid, _ := Owner(fi); uid != 1234 || gid != 4321 || fi.Mode().Perm() != 0o755 {
				t.Fatalf("%v %d:%d", fi.Mode(), uid, gid)
			}
		}
	})
}

func TestAppendNarrowsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q")
	must(t, os.WriteFile(path, nil, 0o644))
	must(t, os.Chmod(path, 0o644))
	must(t, Append(path, []byte("x"), 0o600))
	if fi, _ := os.Stat(path); fi.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v", fi.Mode())
	}
}

// A directory swapped for a link after it was opened changes nothing; one swapped before is refused.
func TestDirSwap(t *testing.T) {
	dir, prey := t.TempDir(), t.TempDir()
	put(t, prey, "f", "prey")
	must(t, os.Mkdir(filepath.Join(dir, "hooks"), 0o700))
	d, err := OpenDir(dir)
	must(t, err)
	defer d.Close()
	h, err := d.OpenDir("hooks")
	must(t, err)
	defer h.Close()
	must(t, os.Rename(filepath.Join(dir, "hooks"), filepath.Join(dir, "away")))
	must(t, os.Symlink(prey, filepath.Join(dir, "hooks")))
	must(t, h.WriteFile("f", []byte("ours"), Private))
	expect(t, filepath.Join(prey, "f"), "prey")
	expect(t, filepath.Join(dir, "away", "f"), "ours")
	if _, err := d.OpenDir("hooks"); !errors.Is(err, ErrNotDir) {
		t.Fatalf("link to a directory: %v", err)
	}
	if _, err := OpenDir(filepath.Join(dir, "hooks")); !errors.Is(err, ErrNotDir) {
		t.Fatalf("link to a directory by path: %v", err)
	}
	if err := d.Mkdir("hooks", Private); !errors.Is(err, ErrNotDir) {
		t.Fatalf("mkdir over a link: %v", err)
	}
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	if _, err := d.OpenDir("pipe"); !errors.Is(err, ErrNotDir) {
		t.Fatalf("FIFO: %v", err)
	}
}

func TestDirSetAttrAndMkdir(t *testing.T) {
	d, err := OpenDir(t.TempDir())
	must(t, err)
	defer d.Close()
	must(t, d.Mkdir("sub", Attr{Perm: 0o750, UID: -1, GID: -1}))
	must(t, d.Mkdir("sub", Attr{Perm: 0o777, UID: -1, GID: -1}))
	if fi, err := d.Lstat("sub"); err != nil || fi.Mode().Perm() != 0o750 {
		t.Fatalf("%v, %v", fi.Mode(), err)
	}
	must(t, d.WriteFile("f", []byte("x"), Private))
	must(t, d.SetAttr("f", Attr{Perm: 0o644, UID: -1, GID: -1}))
	if fi, _ := d.Lstat("f"); fi.Mode().Perm() != 0o644 {
		t.Fatalf("mode %v", fi.Mode())
	}
	must(t, os.Link(filepath.Join(d.Path(), "f"), filepath.Join(d.Path(), "g")))
	if err := d.SetAttr("f", Private); !errors.Is(err, ErrLinked) {
		t.Fatalf("attributes of a hard-linked file: %v", err)
	}
	must(t, d.Rename("f", "h"))
	must(t, d.Remove("h"))
	if got, err := d.Names(); err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
}

func TestCheckDir(t *testing.T) {
	top := t.TempDir()
	sub := filepath.Join(top, "open", "sub")
	must(t, os.MkdirAll(sub, 0o755))
	must(t, CheckDir(sub))
	must(t, os.Chmod(filepath.Join(top, "open"), 0o777))
	if err := CheckDir(sub); !errors.Is(err, ErrMode) {
		t.Fatalf("open parent: %v", err)
	}
	must(t, CheckDirBelow(filepath.Join(top, "open"), sub))
	must(t, os.Chmod(filepath.Join(top, "open"), 0o777|os.ModeSticky))
	must(t, CheckDir(sub))
	if err := CheckDir(filepath.Join(top, "open")); err == nil {
		t.Fatal("a sticky directory is nobody's own")
	}
	must(t, os.Symlink(sub, filepath.Join(top, "link")))
	must(t, CheckDir(filepath.Join(top, "link")))
	must(t, os.Chmod(sub, 0o775))
	if os.Geteuid() == 0 { // its group isn't a private one, and an ACL may stand behind the mode
		must(t, os.Chown(sub, 0, 0))
		if err := CheckDir(sub); !errors.Is(err, ErrMode) {
			t.Fatalf("root's group: %v", err)
		}
	} else if os.Getegid() == os.Geteuid() {
		must(t, CheckDir(sub))
	}
}

func TestMkdirAllNarrowsAndReclaims(t *testing.T) {
	top := t.TempDir()
	path := filepath.Join(top, "d")
	must(t, os.Mkdir(path, 0o755))
	must(t, MkdirAll(path, 0o700))
	if fi, _ := os.Stat(path); fi.Mode().Perm() != 0o700 {
		t.Fatalf("mode %v", fi.Mode())
	}
	must(t, os.Symlink(path, filepath.Join(top, "link")))
	if err := MkdirAll(filepath.Join(top, "link"), 0o700); !errors.Is(err, ErrNotDir) {
		t.Fatalf("link: %v", err)
	}
	if os.Geteuid() != 0 {
		return // only root can be given, and can take back, a foreign directory
	}
	put(t, path, "planted", "x")
	must(t, os.Chown(path, 1234, 1234))
	must(t, MkdirAll(path, 0o700))
	if got := names(t, path); len(got) != 0 {
		t.Fatalf("planted files survive: %v", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
