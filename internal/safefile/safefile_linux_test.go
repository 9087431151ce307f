package safefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	. "github.com/pinta-ai/pinta-agent/internal/safefile"
)

// unprivileged runs f with the file rights of an ordinary account, on this thread alone.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(65534); err != nil {
		t.Fatal(err)
	}
	defer unix.SetfsuidRetUid(0)
	f()
}

// An unwritable directory: every way of writing fails with a permission error and leaves nothing, reading goes on.
func TestUnwritableDirectory(t *testing.T) {
	top := t.TempDir()
	must(t, os.Chmod(filepath.Dir(top), 0o755))
	dir := filepath.Join(top, "d")
	must(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "f")
	must(t, os.WriteFile(path, []byte("old"), 0o644))
	must(t, os.Chmod(dir, 0o555))
	must(t, os.Chmod(path, 0o444))
	unprivileged(t, func() {
		for what, err := range map[string]error{
			"write": WriteFile(path, nil, Private), "new file": WriteFile(path+"2", nil, Private), "append": Append(path, []byte("x"), 0o644),
			"mkdir": MkdirAll(filepath.Join(dir, "sub"), 0o700), "remove": Remove(path),
		} {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := Lock(filepath.Join(dir, "l"), 0); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("lock: %v", err)
		}
		if got, err := ReadFile(path, 10); err != nil || string(got) != "old" {
			t.Errorf("read: %q, %v", got, err)
		}
	})
	if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
		t.Fatalf("left over: %v", got)
	}
	must(t, os.Chmod(dir, 0o755))
}

// A file size limit makes real short writes, as a full disk does: what was there stays as it was.
func TestRealShortWrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	old := string(make([]byte, 900)) + "\n"
	put(t, dir, "f", old)
	c := child(path, "append")
	c.Env = append(c.Env, "SAFEFILE_TEST_FSIZE=905")
	c.Stderr = nil
	if c.Run() == nil {
		t.Fatal("the append succeeded")
	}
	expect(t, path, old)
	c = child(path, "write")
	c.Env = append(c.Env, "SAFEFILE_TEST_FSIZE=905")
	c.Stderr = nil
	if c.Run() == nil {
		t.Fatal("the write succeeded")
	}
	expect(t, path, old)
	if got := names(t, dir); !slices.Equal(got, []string{"f", "f.lock"}) {
		t.Fatalf("left over: %v", got)
	}
}

func init() {
	if s := os.Getenv("SAFEFILE_TEST_FSIZE"); s == "905" {
		syscall.Setrlimit(unix.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 905, Max: 905})
	}
}
