package safefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/safefile/faults"
)

// both runs a test on the path functions and on Dir: one suite for both ways.
func both(t *testing.T, test func(t *testing.T, dir string, s suite)) {
	t.Run("path", func(t *testing.T) {
		dir := t.TempDir()
		join := func(name string) string { return filepath.Join(dir, name) }
		test(t, dir, suite{
			read:  func(name string, max int64) ([]byte, error) { return ReadFile(join(name), max) },
			write: func(name string, data []byte, a Attr) error { return WriteFile(join(name), data, a) },
			check: func(name string, c Check) error { _, _, err := Read(join(name), 1<<20, c); return err },
		})
	})
	t.Run("dir", func(t *testing.T) {
		dir := t.TempDir()
		d, err := OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		test(t, dir, suite{
			read:  d.ReadFile,
			write: d.WriteFile,
			check: func(name string, c Check) error { _, _, err := d.Read(name, 1<<20, c); return err },
		})
	})
}

type suite struct {
	read  func(name string, max int64) ([]byte, error)
	write func(name string, data []byte, a Attr) error
	check func(name string, c Check) error
}

func TestReadLimits(t *testing.T) {
	both(t, func(t *testing.T, dir string, s suite) {
		put(t, dir, "f", "12345")
		if got, err := s.read("f", 5); err != nil || string(got) != "12345" {
			t.Fatalf("at the limit: %q, %v", got, err)
		}
		if _, err := s.read("f", 4); !errors.Is(err, ErrTooLarge) {
			t.Fatalf("over the limit: %v", err)
		}
		if _, err := s.read("none", 4); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("missing: %v", err)
		}
	})
}

func TestWriteReplaces(t *testing.T) {
	both(t, func(t *testing.T, dir string, s suite) {
		for _, text := range []string{"one", "", "three"} {
			if err := s.write("f.json", []byte(text), Private); err != nil {
				t.Fatal(err)
			}
			if got, err := s.read("f.json", 100); err != nil || string(got) != text {
				t.Fatalf("%q, %v", got, err)
			}
		}
		if got := names(t, dir); !slices.Equal(got, []string{"f.json"}) {
			t.Fatalf("left over: %v", got)
		}
	})
}

// A write that fails at any step leaves the old file and nothing else.
func TestWriteFaults(t *testing.T) {
	full := errors.New("no space left on device")
	for _, r := range []faults.Rule{
		{Op: OpCreate}, {Op: OpChmod}, {Op: OpWrite}, {Op: OpWrite, Short: 2}, {Op: OpSync}, {Op: OpRename},
	} {
		t.Run(string(r.Op), func(t *testing.T) {
			both(t, func(t *testing.T, dir string, s suite) {
				put(t, dir, "f", "old")
				r.Err = full
				faults.Use(t, r)
				if err := s.write("f", []byte("new"), Private); !errors.Is(err, full) {
					t.Fatalf("error %v", err)
				}
				if got, _ := os.ReadFile(filepath.Join(dir, "f")); string(got) != "old" {
					t.Fatalf("content %q", got)
				}
				if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
					t.Fatalf("left over: %v", got)
				}
			})
		})
	}
}

// A volatile write takes no sync, a durable one syncs before the rename and the directory after it.
func TestWriteOrder(t *testing.T) {
	dir := t.TempDir()
	s := faults.Use(t)
	if err := WriteFile(filepath.Join(dir, "f"), []byte("x"), Private); err != nil {
		t.Fatal(err)
	}
	want := []string{"create f", "chmod", "write", "sync", "rename f", "sync directory f"}
	for i, w := range want {
		if i >= len(s.Steps) || !strings.HasPrefix(s.Steps[i], w) {
			t.Fatalf("steps %q, want %q", s.Steps, want)
		}
	}
	s.Steps = nil
	volatile := Private
	volatile.Volatile = true
	if err := WriteFile(filepath.Join(dir, "f"), []byte("y"), volatile); err != nil {
		t.Fatal(err)
	}
	for _, op := range s.Steps {
		if strings.HasPrefix(op, "sync") {
			t.Fatalf("volatile write synced: %q", s.Steps)
		}
	}
}

func TestDirTakesPlainNamesOnly(t *testing.T) {
	d, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"", ".", "..", "a/b", "../x", "/etc/passwd", "a\x00b"} {
		_, lstat := d.Lstat(name)
		_, read := d.ReadFile(name, 10)
		_, link := d.Readlink(name)
		_, open := d.OpenDir(name)
		for what, err := range map[string]error{
			"lstat": lstat, "read": read, "readlink": link, "open": open, "write": d.WriteFile(name, nil, Private),
			"remove": d.Remove(name), "mkdir": d.Mkdir(name, Private), "rename": d.Rename(name, "x"), "rename to": d.Rename("x", name),
			"attr": d.SetAttr(name, Private),
		} {
			if !errors.Is(err, ErrName) {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
}

func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q")
	for _, line := range []string{"a", "", "b"} {
		if err := Append(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, path, "a\n\nb\n")
	put(t, filepath.Dir(path), "q", "a\ntorn")
	if err := Append(path, []byte("next"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, path, "a\ntorn\nnext\n")
}

func TestAppendTakesBackHalfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q")
	put(t, filepath.Dir(path), "q", "kept\n")
	full := errors.New("no space left on device")
	faults.Use(t, faults.Rule{Op: OpWrite, Short: 3, Err: full, Once: true})
	if err := Append(path, []byte("lost"), 0o600); !errors.Is(err, full) {
		t.Fatal(err)
	}
	expect(t, path, "kept\n")
	if err := Append(path, []byte("next"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, path, "kept\nnext\n")
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	unlock, err := Lock(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := Lock(path, 20*time.Millisecond); !errors.Is(err, ErrLocked) {
		t.Fatalf("second lock: %v", err)
	}
	if d := time.Since(start); d < 20*time.Millisecond || d > 2*time.Second {
		t.Fatalf("waited %v", d)
	}
	time.AfterFunc(10*time.Millisecond, unlock)
	unlock2, err := Lock(path, 5*time.Second)
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	unlock2()
}

func TestMkdirAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b")
	for range 2 {
		if err := MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put(t, dir, "file", "")
	if err := MkdirAll(filepath.Join(dir, "file"), 0o700); !errors.Is(err, ErrNotDir) {
		t.Fatalf("file in place: %v", err)
	}
	denied := errors.New("permission denied")
	faults.Use(t, faults.Rule{Op: OpMkdir, Err: denied})
	if err := MkdirAll(filepath.Join(dir, "c"), 0o700); !errors.Is(err, denied) {
		t.Fatal(err)
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		out = append(out, e.Name())
	}
	return out
}
