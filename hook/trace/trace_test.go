package trace

import (
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/safefile/faults"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestMain is also one hook run of TestSixtyProcesses.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TRACE_TEST_DIR"); dir != "" {
		if _, err := ID(dir, os.Getenv("TRACE_TEST_SESSION"), true, time.Now()); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func id(t *testing.T, dir, session string, newTurn bool) [16]byte {
	t.Helper()
	got, err := ID(dir, session, newTurn, now)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestVector(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "trace.json"), []byte(`{"s":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`), 0o600)
	got := id(t, dir, "s", false)
	if h := hex.EncodeToString(got[:]); h != "01563e3ab5d3d6764c61efb99302bd5b" {
		t.Fatal(h)
	}
}

func TestTurns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home", "data")
	first := id(t, dir, "a", false)
	if id(t, dir, "a", false) != first {
		t.Fatal("an event of the same turn got another trace")
	}
	b := id(t, dir, "b", true)
	if b == first {
		t.Fatal("two sessions share a trace")
	}
	if id(t, dir, "a", false) != first || id(t, dir, "b", false) != b {
		t.Fatal("sessions at work side by side disturb each other")
	}
	second := id(t, dir, "a", true)
	if second == first || id(t, dir, "a", false) != second || id(t, dir, "b", false) != b {
		t.Fatal("a prompt starts a new trace for its session alone")
	}
	if x, y := id(t, dir, "", false), id(t, dir, "", false); x == y {
		t.Fatal("events without a session are no turn")
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "trace.json"): 0o600, filepath.Join(dir, "trace.lock"): 0o600} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
}

func TestSessionNames(t *testing.T) {
	dir := t.TempDir()
	for _, session := range []string{"../../etc/passwd", "a\nb", `q"\`, "ünï", "\x00", strings.Repeat("x", maxSession), "{", " "} {
		if id(t, dir, session, true) != id(t, dir, session, false) {
			t.Errorf("%q was forgotten", session)
		}
	}
	id(t, dir, strings.Repeat("x", maxSession+1), true)
	es, _ := os.ReadDir(dir)
	if len(es) != 2 {
		t.Fatalf("files %v", es)
	}
}

func TestLeastRecentlyUsedGoFirst(t *testing.T) {
	dir := t.TempDir()
	ids := map[int][16]byte{}
	for i := range maxSessions {
		ids[i] = id(t, dir, strconv.Itoa(i), true)
	}
	id(t, dir, "0", false) // used again: 1 is the oldest now
	id(t, dir, "new", true)
	turns := load(filepath.Join(dir, "trace.json"))
	if len(turns) != maxSessions || find(turns, "1") >= 0 || find(turns, "0") < 0 || find(turns, "2") != 0 {
		t.Fatalf("%d sessions, first %q", len(turns), turns[0].session)
	}
	if id(t, dir, "0", false) != ids[0] {
		t.Fatal("a session in use was forgotten")
	}
}

func TestDamagedStores(t *testing.T) {
	good := `"01ARZ3NDEKTSV4RRFFQ69G5FAV"`
	for name, c := range map[string]struct {
		text string
		kept bool
	}{
		"good":          {`{"s":` + good + `}`, true},
		"last wins":     {`{"s":"x","s":` + good + `}`, true},
		"beside faults": {`{"a":1,"b":null,"s":` + good + `,"c":{"d":[]}}`, true},
		"empty":         {``, false},
		"torn":          {`{"s":` + good, false},
		"garbage":       {"\x00\xff", false},
		"array":         {`[` + good + `]`, false},
		"short id":      {`{"s":"01ARZ3NDEKTSV4RRFFQ69G5FA"}`, false},
		"bad letter":    {`{"s":"01ARZ3NDEKTSV4RRFFQ69G5FAU"}`, false},
		"overflow":      {`{"s":"81ARZ3NDEKTSV4RRFFQ69G5FAV"}`, false},
		"zero":          {`{"s":"00000000000000000000000000"}`, false},
		"number":        {`{"s":7}`, false},
		"object":        {`{"s":{"id":` + good + `}}`, false},
		"deep":          {strings.Repeat("[", 1<<20), false},
		"huge":          {`{"s":` + good + strings.Repeat(" ", maxStore) + `}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			os.WriteFile(filepath.Join(dir, "trace.json"), []byte(c.text), 0o600)
			got := id(t, dir, "s", false)
			if kept := ulid(got).String() == strings.Trim(good, `"`); kept != c.kept {
				t.Fatalf("kept %v", kept)
			}
			if id(t, dir, "s", false) != got {
				t.Fatal("the store was not mended")
			}
		})
	}
}

func TestFaultsNeverCostTheID(t *testing.T) {
	for name, rule := range map[string]faults.Rule{
		"disk full":      {Op: safefile.OpWrite, Short: 5, Err: errors.New("no space left on device")},
		"read-only":      {Op: safefile.OpCreate, Err: errors.New("read-only file system")},
		"denied":         {Op: safefile.OpOpen, Err: os.ErrPermission},
		"no directory":   {Op: safefile.OpMkdir, Err: os.ErrPermission},
		"rename refused": {Op: safefile.OpRename, Err: os.ErrPermission},
		"no locks":       {Op: safefile.OpLock, Err: errors.New("no locks available")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			s := faults.Use(t)
			before := id(t, dir, "s", true)
			id(t, dir, "other", true)
			if rule.Op == safefile.OpMkdir {
				os.RemoveAll(dir)
			}
			*s = *faults.Use(t, rule)
			got, err := ID(dir, "s", true, now)
			if err == nil || got == before || got == [16]byte{} {
				t.Fatalf("id %x, error %v", got, err)
			}
			if got, _ := ID(dir, "s", false, now); got == [16]byte{} {
				t.Fatal("no id")
			}
		})
	}
}

func TestOddThingsInPlace(t *testing.T) {
	for name, put := range map[string]func(dir string) error{
		"store is a directory": func(dir string) error { return os.Mkdir(filepath.Join(dir, "trace.json"), 0o700) },
		"lock is a directory":  func(dir string) error { return os.Mkdir(filepath.Join(dir, "trace.lock"), 0o700) },
		"data is a file": func(dir string) error {
			os.Remove(dir)
			return os.WriteFile(dir, nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			os.Mkdir(dir, 0o700)
			if err := put(dir); err != nil {
				t.Fatal(err)
			}
			if got, err := ID(dir, "s", false, now); err == nil || got == [16]byte{} {
				t.Fatalf("id %x, error %v", got, err)
			}
		})
	}
}

func TestHeldLockIsWaitedForOnlyShortly(t *testing.T) {
	dir := t.TempDir()
	unlock, err := safefile.Lock(filepath.Join(dir, "trace.lock"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	start := time.Now()
	if _, err := ID(dir, "s", true, now); !errors.Is(err, safefile.ErrLocked) {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Fatalf("waited %v", d)
	}
	if _, err := os.Stat(filepath.Join(dir, "trace.json")); err == nil {
		t.Fatal("stored without the lock")
	}
}

func TestClocks(t *testing.T) {
	for name, at := range map[string]time.Time{
		"set back":     now.Add(-1000 * time.Hour),
		"before 1970":  time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC),
		"far future":   time.Date(290000, 1, 1, 0, 0, 0, 0, time.UTC),
		"zero":         {},
		"beyond int64": time.Unix(1<<62, 0),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			id(t, dir, "s", true)
			got, err := ID(dir, "s", true, at)
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := ID(dir, "s", false, at.Add(-time.Hour)); again != got {
				t.Fatal("the turn was forgotten")
			}
		})
	}
}

// Hooks of sixty sessions at once, as processes: each is remembered, or the lock's bound was reached and says so.
func TestSixtyProcesses(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	missed := 0
	for i := range 60 {
		wg.Go(func() {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), "TRACE_TEST_DIR="+dir, "TRACE_TEST_SESSION=s"+strconv.Itoa(i))
			if err := c.Run(); err != nil {
				mu.Lock()
				missed++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if turns := load(filepath.Join(dir, "trace.json")); len(turns)+missed != 60 {
		t.Fatalf("%d sessions stored, %d gave up", len(turns), missed)
	}
	if missed > 30 {
		t.Fatalf("%d of 60 gave up", missed)
	}
}

func FuzzStore(f *testing.F) {
	f.Add([]byte(`{"s":"01ARZ3NDEKTSV4RRFFQ69G5FAV","t":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`))
	f.Add([]byte(`{"s":"01ARZ3NDEKTSV4RRFFQ69G5FAV","s":1,"\ud800":"7ZZZZZZZZZZZZZZZZZZZZZZZZZ"}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		turns := parse(data)
		if len(turns) > maxSessions {
			t.Fatalf("%d sessions", len(turns))
		}
		again := parse(store(turns))
		if len(again) != len(turns) {
			t.Fatalf("%d sessions became %d", len(turns), len(again))
		}
		for i := range turns {
			if again[i].id != turns[i].id {
				t.Fatal("an id changed")
			}
		}
	})
}
