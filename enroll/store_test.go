package enroll

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pinta-ai/pinta-agent/enroll/enrolltest"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// A write that a power cut tore: any of the data pages are there, and the page
// that makes them count is missing or half there. The state is the one before,
// whole; with all of it there, it is the one after.
func TestTornWrite(t *testing.T) {
	const page = 4096
	dir := t.TempDir()
	s := &store{dir: dir}
	path := filepath.Join(dir, stateFile)
	set := func(text string) []byte {
		if err := s.update(func(t tx) error { return t.put("x", text) }); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for i := range 5 {
		set(fmt.Sprint(i)) // so that pages are re-used
	}
	before := set("before")
	after := set("after" + strings.Repeat(".", 9000))
	rapid.Check(t, func(t *rapid.T) {
		image := append(bytes.Clone(before), make([]byte, max(0, len(after)-len(before)))...)
		meta := -1
		for p := 0; p*page < len(after); p++ {
			from, to := p*page, min((p+1)*page, len(after))
			if bytes.Equal(image[from:to], after[from:to]) {
				continue
			}
			if p < 2 {
				meta = p
			} else if rapid.Bool().Draw(t, "page written") {
				copy(image[from:to], after[from:to])
			}
		}
		if meta < 0 {
			t.Fatal("no meta page changed")
		}
		if rapid.Bool().Draw(t, "meta torn") {
			half := rapid.IntRange(1, 60).Draw(t, "bytes")
			copy(image[meta*page:meta*page+half], after[meta*page:])
		}
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := s.view(func(t tx) error { return t.get("x", &got) }); err != nil || got != "before" {
			t.Fatalf("%q %v", got, err)
		}
	})
}

func TestDamagedStateIsKeptAsideAndReplaced(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func([]byte) []byte
	}{
		{"cut to two pages", func(b []byte) []byte { return b[:2*4096] }},
		{"cut to a page", func(b []byte) []byte { return b[:4096] }},
		{"cut to a few bytes", func(b []byte) []byte { return b[:10] }},
		{"other content", func([]byte) []byte { return bytes.Repeat([]byte("text "), 5000) }},
		{"heads zeroed", func(b []byte) []byte { return append(make([]byte, 8192), b[8192:]...) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, b := enrolltest.New(t), newBench(t)
			b.mustEnrol(m.Token(t, 1))
			path := filepath.Join(b.dir, stateFile)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := c.damage(raw)
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			b.restart()
			if _, err := b.state.Identity(); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%v", err)
			}
			r := b.mustEnrol(m.Token(t, 1))
			if m.Devices[r.DeviceID].Reason != api.EnrolReasonReinstall {
				t.Errorf("reason %s", m.Devices[r.DeviceID].Reason)
			}
			aside, err := filepath.Glob(path + ".damaged-*")
			if err != nil || len(aside) != 1 {
				t.Fatal(aside, err)
			}
			if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, damaged) {
				t.Error("the damaged file was changed")
			}
		})
	}
}

func TestEmptyStateFileIsNoState(t *testing.T) {
	m, b := enrolltest.New(t), newBench(t)
	put(t, filepath.Join(b.dir, stateFile), "", 0o600)
	if _, err := b.state.Identity(); !errors.Is(err, ErrNotEnrolled) {
		t.Fatal(err)
	}
	b.mustEnrol(m.Token(t, 1))
}

// A newer agent's state is not thrown away by an older one.
func TestStateOfANewerAgentIsLeftAlone(t *testing.T) {
	b := newBench(t)
	if err := b.state.store.update(func(t tx) error { return t.put(recordName, map[string]any{"identity": "in another form"}) }); err != nil {
		t.Fatal(err)
	}
	if _, err := b.state.Identity(); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
	m := enrolltest.New(t)
	if _, err := b.enrol(m.Token(t, 1)); Code(err) != CodeLocal || len(m.Requests()) != 0 {
		t.Errorf("%v, %v", err, m.Log)
	}
}

func TestStateIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no mode bits: the folder's ACL decides there")
	}
	m, b := enrolltest.New(t), newBench(t)
	if err := os.Chmod(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b.mustEnrol(m.Token(t, 1))
	path := filepath.Join(b.dir, stateFile)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	b.restart()
	for p, want := range map[string]os.FileMode{b.dir: 0o700, path: 0o600} {
		if fi, err := os.Stat(p); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v", p, fi.Mode())
		}
	}
	other := filepath.Join(t.TempDir(), "elsewhere")
	put(t, other, "", 0o600)
	os.Remove(path)
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(b.dir); err == nil {
		t.Error("a link in the place of the state file is followed")
	}
}

// The service, a command and the relay use one file at once.
func TestManyProcessesAtOnce(t *testing.T) {
	m, b := enrolltest.New(t), newBench(t)
	b.mustEnrol(m.Token(t, 1))
	var all sync.WaitGroup
	for i := range 4 {
		s, err := Open(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for j := range 20 {
				var n map[string]int
				if err := s.Update("count", &n, func() error {
					if n == nil {
						n = map[string]int{}
					}
					n["n"]++
					return nil
				}); err != nil {
					t.Errorf("process %d, %d: %v", i, j, err)
				}
				if _, err := s.SignRequest("GET", "/x", nil); err != nil {
					t.Errorf("process %d, %d: %v", i, j, err)
				}
			}
		})
	}
	all.Wait()
	var n map[string]int
	if err := b.state.Load("count", &n); err != nil || n["n"] != 80 {
		t.Errorf("%v %v", n, err)
	}
}

func TestTwoCommandsAtOnceMakeOneDevice(t *testing.T) {
	m, b := enrolltest.New(t), newBench(t)
	tok := m.Token(t, 1)
	ids := make([]string, 4)
	var all sync.WaitGroup
	for i := range ids {
		s, err := Open(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		o := b.options(tok)
		o.State, o.Wait = s, 20*time.Second
		all.Go(func() {
			r, err := Enroll(context.Background(), o)
			if err != nil {
				t.Error(err)
			}
			ids[i] = r.DeviceID
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || len(m.Devices) != 1 {
			t.Fatalf("%v, %d devices", ids, len(m.Devices))
		}
	}
}

// The canary: whatever becomes of a token, it shows up nowhere.
func TestTokenShowsUpNowhere(t *testing.T) {
	m := enrolltest.New(t)
	for _, c := range []struct {
		name   string
		refuse api.ProblemCode
		damage func(string) string
	}{
		{"accepted", "", nil},
		{"refused", api.ProblemCodeTokenRevoked, nil},
		{"busy", api.ProblemCodeBusy, nil},
		{"damaged", "", func(s string) string { return s[:len(s)-1] + "_" }},
		{"two of them", "", func(s string) string { return s + "\n" + s[:len(s)-3] + "000" }},
		{"in the wrong place", "", func(s string) string { return "token: " + s }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			tok := m.Token(t, 1)
			m.Tokens[tok.ID].Refuse = c.refuse
			text, seed := tok.Reveal(), tok.Key().Seed()
			delivered := text
			if c.damage != nil {
				delivered = c.damage(text)
			}
			l := place(t)
			put(t, l.ConfigFile, "enrollmentToken: |\n  "+strings.ReplaceAll(delivered, "\n", "\n  ")+"\n", 0o600)
			o := b.options(tok)
			o.Log = slog.New(slog.NewJSONHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			o.Routes, o.Wait = Routes{Layout: l, Env: settings.Secret(delivered)}, time.Second
			_, err := Enroll(context.Background(), o)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			Serve(ctx, o, func(Identity) {})
			cancel()
			overview, e := b.state.Overview()
			if e != nil {
				t.Fatal(e)
			}
			status, e := json.Marshal(overview)
			if e != nil {
				t.Fatal(e)
			}
			delivery, _ := o.Routes.Read()
			state, e := os.ReadFile(filepath.Join(b.dir, stateFile))
			if e != nil && !errors.Is(e, os.ErrNotExist) {
				t.Fatal(e)
			}
			out := strings.Join([]string{fmt.Sprint(err), fmt.Sprintf("%+v %#v", o, o), fmt.Sprintf("%+v %#v", delivery, delivery), b.log.String(), string(status), string(state)}, "\n")
			for _, leak := range []string{text, text[20:40], text[len(text)-40 : len(text)-10], hex.EncodeToString(seed), base64.RawURLEncoding.EncodeToString(seed),
				base64.StdEncoding.EncodeToString(seed)[:40], string(seed)} {
				if strings.Contains(out, leak) {
					t.Errorf("%q leaks", leak)
				}
			}
		})
	}
}

func FuzzSMBIOS(f *testing.F) {
	system := append([]byte{1, 27, 1, 0, 1, 2, 0, 3}, make([]byte, 19)...)
	table := append(make([]byte, 8), 0, 4, 0, 0, 'x', 0, 0)
	table = append(append(table, system...), "Maker\x00Model\x00SERIAL-7\x00\x00"...)
	if got := smbiosSerial(table); got != "SERIAL-7" {
		f.Fatalf("%q", got)
	}
	f.Add(table)
	f.Add(table[:20])
	f.Fuzz(func(_ *testing.T, b []byte) { smbiosSerial(b) })
}

func TestPlaceholderSerialsAreNoHint(t *testing.T) {
	raw, err := os.ReadFile("testdata/R134.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"DEMO-1", "DEMO-2", "", "", "", "", "", "VMware-56 4d"}
	for i, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		var m struct{ Serial string }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if got := cleanSerial(m.Serial); got != want[i] {
			t.Errorf("%q became %q", m.Serial, got)
		}
	}
}

func TestBounded(t *testing.T) {
	for in, want := range map[string]string{"host": "host", "a\nb\x00c": "abc", "\xff\xfeok": "ok", strings.Repeat("é", 200): strings.Repeat("é", 127)} {
		if got := bounded(in, 255); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}
