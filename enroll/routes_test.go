package enroll

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pinta-ai/pinta-agent/enroll/enrolltest"
	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// place is a machine's folders for delivery.
func place(t *testing.T) settings.Layout {
	dir := t.TempDir()
	return settings.Layout{Root: dir, System: true, ConfigFile: filepath.Join(dir, "agent.yaml"), TokenFile: filepath.Join(dir, "enrollment-token"), StateDir: filepath.Join(dir, "state")}
}

func put(t *testing.T, path, text string, perm fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), perm); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, perm); err != nil {
		t.Fatal(err)
	}
}

func TestFirstRouteWins(t *testing.T) {
	m := enrolltest.Offline(t, "https://manager.example.com")
	tok := map[string]token.Token{}
	for _, n := range []string{"argument", "stdin", "file", "env", "yaml", "default"} {
		tok[n] = m.Token(t, 1)
	}
	l := place(t)
	file := filepath.Join(l.Root, "given")
	put(t, file, tok["file"].Reveal(), 0o600)
	put(t, l.ConfigFile, "enrollmentToken: "+tok["yaml"].Reveal()+"\n", 0o600)
	put(t, l.TokenFile, tok["default"].Reveal()+"\r\n", 0o600)
	r := Routes{Argument: settings.Secret(tok["argument"].Reveal()), Stdin: strings.NewReader(tok["stdin"].Reveal() + "\n"), File: file, Env: settings.Secret(tok["env"].Reveal()), Layout: l}
	for _, step := range []struct {
		want string
		next func()
	}{
		{"argument", func() { r.Argument = "-" }},
		{"stdin", func() { r.Argument = "" }},
		{"file", func() { r.File = "" }},
		{"env", func() { r.Env = "" }},
		{"yaml", func() { put(t, l.ConfigFile, "logLevel: debug\n", 0o600) }},
		{"default", func() { os.Remove(l.TokenFile) }},
	} {
		d, err := r.Read()
		if err != nil || d.Token.ID != tok[step.want].ID {
			t.Errorf("%s: got %s from %s, %v", step.want, d.Token, d.Source, err)
		}
		step.next()
	}
	if _, err := r.Read(); !errors.Is(err, ErrNoToken) || Code(err) != CodeUsage {
		t.Errorf("%v", err)
	}
}

// What is damaged where the administrator put it is told, even where another
// source holds a good token.
func TestDamagedSourceIsNotPassedOver(t *testing.T) {
	m := enrolltest.Offline(t, "https://manager.example.com")
	l := place(t)
	put(t, l.TokenFile, m.Token(t, 1).Reveal(), 0o600)
	for _, c := range []struct {
		name string
		r    Routes
		code int
	}{
		{"placeholder in the argument", Routes{Argument: "%TOKEN%", Layout: l}, CodeUsage},
		{"empty standard input", Routes{Argument: "-", Stdin: strings.NewReader(""), Layout: l}, CodeUsage},
		{"no standard input", Routes{Argument: "-", Layout: l}, CodeUsage},
		{"endless standard input", Routes{Argument: "-", Stdin: strings.NewReader(strings.Repeat("x", 1<<20)), Layout: l}, CodeUsage},
		{"file that is not there", Routes{File: filepath.Join(l.Root, "none"), Layout: l}, CodeUsage},
		{"two lines in the environment", Routes{Env: settings.Secret(m.Token(t, 1).Reveal() + "\n" + m.Token(t, 1).Reveal()), Layout: l}, CodeUsage},
		{"typo in the environment", Routes{Env: settings.Secret(m.Token(t, 1).Reveal() + "x"), Layout: l}, CodeRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := c.r.Read(); Code(err) != c.code {
				t.Errorf("code %d, %v; want %d", Code(err), err, c.code)
			}
		})
	}
}

// Each field-report file as --token-file, with a real token in the place of the
// invented one.
func TestTokenFilesAsDeployed(t *testing.T) {
	tok := enrolltest.Offline(t, "https://manager.example.com").Token(t, 1)
	files, err := filepath.Glob("token/testdata/delivered/R127.*.txt")
	if err != nil || len(files) != 8 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			real := tok.Reveal()
			for _, v := range []struct{ from, to string }{
				{"FAKE-\u200bTOKEN-0001", real[:30] + "\u200b" + real[30:]}, {"FAKE-TOKEN-0001", real}, {wide("FAKE-TOKEN-0001"), wide(real)},
			} {
				raw = bytes.ReplaceAll(raw, []byte(v.from), []byte(v.to))
			}
			path := filepath.Join(t.TempDir(), "token")
			put(t, path, string(raw), 0o600)
			d, err := Routes{File: path}.Read()
			if strings.Contains(f, "two") {
				if !errors.Is(err, token.ErrTwoLines) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || d.Token.ID != tok.ID {
				t.Errorf("%v", err)
			}
		})
	}
}

func wide(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteByte(c)
		b.WriteByte(0)
	}
	return b.String()
}

func TestFilesThatOthersCouldHaveWrittenAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no mode bits: the folder's ACL decides there")
	}
	tok := enrolltest.Offline(t, "https://manager.example.com").Token(t, 1).Reveal()
	l := place(t)
	good := filepath.Join(l.Root, "good")
	put(t, good, tok, 0o600)
	for _, c := range []struct {
		name string
		make func(path string)
		ok   bool
	}{
		{"private", func(p string) { put(t, p, tok, 0o600) }, true},
		{"readable by all", func(p string) { put(t, p, tok, 0o644) }, true},
		{"writable by the group", func(p string) { put(t, p, tok, 0o660) }, false},
		{"writable by all", func(p string) { put(t, p, tok, 0o606) }, false},
		{"a link", func(p string) {
			if err := os.Symlink(good, p); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"a directory", func(p string) {
			if err := os.Mkdir(p, 0o700); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"somebody else's", func(p string) {
			put(t, p, tok, 0o600)
			if os.Geteuid() != 0 || os.Chown(p, 12345, 12345) != nil {
				put(t, p, tok, 0o606) // can't give a file away: refused for its mode then
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []Routes{{File: filepath.Join(t.TempDir(), "token")}, {Layout: place(t)}} {
				path := r.File
				if path == "" {
					path = r.Layout.TokenFile
				}
				c.make(path)
				_, err := r.Read()
				if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), path) {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

func TestScrubbing(t *testing.T) {
	m := enrolltest.Offline(t, "https://manager.example.com")
	tok, other := m.Token(t, 1), m.Token(t, 1)
	s, o := tok.Reveal(), other.Reveal()
	for _, c := range []struct {
		name, before, after string
		warns               bool
	}{
		{"alone", "enrollmentToken: " + s + "\n", "", false},
		{"between others", "# ours\nlogLevel: debug   # loud\nenrollmentToken: \"" + s + "\"  # once\r\nproxy: http://p:1\n", "# ours\nlogLevel: debug   # loud\nproxy: http://p:1\n", false},
		{"last, no newline", "logLevel: debug\nenrollmentToken: '" + s + "'", "logLevel: debug\n", false},
		{"block text", "enrollmentToken: |\n  " + s + "\nlogLevel: debug\n", "logLevel: debug\n", false},
		{"folded text", "enrollmentToken: >-\n  " + s + "\nlogLevel: debug\n", "logLevel: debug\n", false},
		{"on the next line", "enrollmentToken:\n  " + s + "\nlogLevel: debug\n", "logLevel: debug\n", false},
		{"another case", "enrollmenttoken: " + s + "\nlogLevel: debug\n", "logLevel: debug\n", false},
		{"in one line", "{enrollmentToken: " + s + ", logLevel: debug}\n", "{enrollmentToken: " + s + ", logLevel: debug}\n", true},
		{"another token", "enrollmentToken: " + o + "\n", "enrollmentToken: " + o + "\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := place(t)
			put(t, l.ConfigFile, c.before, 0o640)
			put(t, l.TokenFile, s+"\n", 0o600)
			file := filepath.Join(l.Root, "given")
			put(t, file, s, 0o600)
			d, err := Routes{File: file, Layout: l}.Read()
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			d.scrub(slog.New(slog.NewTextHandler(&log, nil)))
			raw, err := os.ReadFile(l.ConfigFile)
			if err != nil || string(raw) != c.after {
				t.Errorf("left %q, want %q", raw, c.after)
			}
			if fi, err := os.Stat(l.ConfigFile); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o640 {
				t.Errorf("mode %v", fi.Mode())
			}
			for _, gone := range []string{file, l.TokenFile} {
				if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is still there", gone)
				}
			}
			if warned := strings.Contains(log.String(), "remove it"); warned != c.warns || strings.Contains(log.String(), s) {
				t.Errorf("log %q", log.String())
			}
		})
	}
}

func TestTakeEnv(t *testing.T) {
	t.Setenv(envToken, "pinta_x")
	if v := TakeEnv(); v.Reveal() != "pinta_x" {
		t.Errorf("%q", v.Reveal())
	}
	if v, there := os.LookupEnv(envToken); there {
		t.Errorf("children would inherit %q", v)
	}
}

func FuzzWithoutToken(f *testing.F) {
	tok := enrolltest.Offline(f, "https://manager.example.com").Token(f, 1)
	for _, s := range []string{"enrollmentToken: T\n", "a: 1\nenrollmentToken: |\n  T\nb: 2\n", "enrollmentToken: [T]\n", "---\nenrollmentToken: T\n...\n", "enrollmentToken: &x T\nproxy: *x\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := strings.ReplaceAll(s, "T", tok.Reveal())
		out, err := withoutToken([]byte(raw), tok)
		if err != nil || out == nil {
			return
		}
		if _, value, err := findToken(out); err != nil || value != nil && holds([]byte(value.Value), tok) {
			t.Errorf("%q became %q", raw, out)
		}
	})
}
