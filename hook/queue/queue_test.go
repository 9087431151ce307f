package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/safefile/faults"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// payload is an OTLP body with one span of that id, padded by n bytes.
func payload(id string, n int) []byte {
	return []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"spanId":"` + id + `","name":"` + strings.Repeat("x", n) + `"}]}]}]}`)
}

func saved(at time.Time, id string, n int) string {
	return savedAt + at.UTC().Format(stamp) + `","payload":` + string(payload(id, n)) + "}\n"
}

// collector is a Send that checks each body and remembers the ids, in order.
type collector struct {
	mu     sync.Mutex
	t      testing.TB
	ids    []string
	bodies []int
	answer func(ids []string) (Outcome, error)
}

func (c *collector) send(body []byte) (Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies = append(c.bodies, len(body))
	if len(body) > maxBody {
		c.t.Errorf("a body of %d bytes", len(body))
	}
	var b struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct{ SpanID string }
			}
		}
	}
	if err := json.Unmarshal(body, &b); err != nil {
		c.t.Errorf("body is no JSON: %v", err)
	}
	var ids []string
	for _, r := range b.ResourceSpans {
		for _, s := range r.ScopeSpans {
			for _, p := range s.Spans {
				ids = append(ids, p.SpanID)
			}
		}
	}
	out, err := Delivered, error(nil)
	if c.answer != nil {
		out, err = c.answer(ids)
	}
	if out == Delivered {
		c.ids = append(c.ids, ids...)
	}
	return out, err
}

func (c *collector) delivered() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ids)
}

func (c *collector) flush(dir string) Stats {
	c.t.Helper()
	s, err := Flush(dir, now, time.Now().Add(time.Minute), c.send)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func write(t testing.TB, dir string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(queue{dir}.file(), []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// waiting lists the ids that the file holds, as a reader of the Node adapter's format sees them.
func waiting(t testing.TB, dir string) (ids []string) {
	t.Helper()
	data, err := os.ReadFile(queue{dir}.file())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	c := &collector{t: t}
	for _, line := range bytes.Split(data, []byte("\n")) {
		var e struct {
			SavedAt time.Time
			Payload json.RawMessage
		}
		if json.Unmarshal(line, &e) == nil && e.Payload != nil {
			c.send(e.Payload)
		}
	}
	return c.ids
}

func add(t testing.TB, dir string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if dropped, err := Append(dir, payload(id, 0), now); err != nil || dropped != 0 {
			t.Fatalf("dropped %d, %v", dropped, err)
		}
	}
}

func TestFormat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home", "data")
	if _, err := Append(dir, []byte("{\n\"resourceSpans\" : []}"), now); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(filepath.Join(dir, "failed-spans.jsonl"))
	if want := `{"savedAt":"2026-01-02T03:04:05.678Z","payload":{"resourceSpans":[]}}` + "\n"; string(got) != want {
		t.Fatalf("%s", got)
	}
	if fi, _ := os.Stat(dir); fi.Mode().Perm() != 0o700 {
		t.Errorf("directory %v", fi.Mode())
	}
	es, _ := os.ReadDir(dir)
	for _, e := range es {
		if fi, _ := e.Info(); fi.Mode().Perm() != 0o600 {
			t.Errorf("%s %v", e.Name(), fi.Mode())
		}
	}
}

func TestDeliveredOnceInOrder(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, "a", "b", "c")
	c := &collector{t: t}
	if s := c.flush(dir); s != (Stats{Delivered: 3}) {
		t.Fatalf("%+v", s)
	}
	c.flush(dir)
	if !slices.Equal(c.ids, []string{"a", "b", "c"}) || len(c.bodies) != 1 {
		t.Fatalf("%v in %d bodies", c.ids, len(c.bodies))
	}
	if _, err := os.Stat(queue{dir}.file()); !os.IsNotExist(err) {
		t.Fatalf("an empty queue is left: %v", err)
	}
}

func TestEmptyQueueTouchesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	s := faults.Use(t)
	if st := (&collector{t: t}).flush(dir); st != (Stats{}) || len(s.Steps) != 0 {
		t.Fatalf("%+v, steps %v", st, s.Steps)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		Append(dir, payload(fmt.Sprint(i), 400_000), now)
	}
	c := &collector{t: t}
	c.flush(dir)
	if !slices.Equal(c.ids, []string{"0", "1", "2", "3", "4"}) || len(c.bodies) != 3 {
		t.Fatalf("%v in bodies of %v", c.ids, c.bodies)
	}
}

func TestBodyLimitToTheByte(t *testing.T) {
	for over := range 2 {
		dir := t.TempDir()
		frame := len(payload("", 0))
		write(t, dir, saved(now, "", maxBody-frame+over), saved(now, "b", 0))
		c := &collector{t: t}
		s := c.flush(dir)
		if s.Dropped != over || s.Delivered != 2-over || over == 0 && c.bodies[0] != maxBody {
			t.Fatalf("%+v, bodies %v", s, c.bodies)
		}
	}
}

// The collector is down, comes up, goes down in the middle: what was taken is gone, the rest waits in order.
func TestStopsAtTheFirstFailure(t *testing.T) {
	dir := t.TempDir()
	for i := range 6 {
		Append(dir, payload(fmt.Sprint(i), 500_000), now) // a body each
	}
	down := errors.New("status 503")
	c := &collector{t: t}
	c.answer = func([]string) (Outcome, error) {
		if len(c.bodies) == 3 {
			return Keep, down
		}
		return Delivered, nil
	}
	s, err := Flush(dir, now, time.Now().Add(time.Minute), c.send)
	if !errors.Is(err, down) || !s.Down || s.Delivered != 2 || len(c.bodies) != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	if got := waiting(t, dir); !slices.Equal(got, []string{"2", "3", "4", "5"}) {
		t.Fatalf("waiting %v", got)
	}
	add(t, dir, "new")
	c.flush(dir)
	if !slices.Equal(c.ids, []string{"0", "1", "2", "3", "4", "5", "new"}) {
		t.Fatalf("delivered %v", c.ids)
	}
}

// A large rest is not rewritten for a small gain; the lines that are done with are blank all the same.
func TestLargeRestKeepsItsPlace(t *testing.T) {
	dir := t.TempDir()
	for i := range 8 {
		Append(dir, payload(fmt.Sprint(i), 500_000), now)
	}
	c := &collector{t: t}
	c.answer = func([]string) (Outcome, error) {
		if len(c.bodies) > 1 {
			return Keep, nil
		}
		return Delivered, nil
	}
	steps := faults.Use(t)
	if _, err := Flush(dir, now, time.Now().Add(time.Minute), c.send); err == nil {
		t.Fatal("no error")
	}
	for _, s := range steps.Steps {
		if strings.HasPrefix(s, "rename") {
			t.Fatalf("rewritten: %v", steps.Steps)
		}
	}
	if got := waiting(t, dir); len(got) != 7 || got[0] != "1" {
		t.Fatalf("waiting %v", got)
	}
}

func TestDeadline(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, "a")
	s, err := Flush(dir, now, time.Now().Add(-time.Second), (&collector{t: t}).send)
	if !errors.Is(err, ErrTime) || !s.Down || len(waiting(t, dir)) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
}

func TestDamagedLines(t *testing.T) {
	good := func(id string) string { return strings.TrimSuffix(saved(now, id, 0), "\n") }
	for name, c := range map[string]struct {
		text    string
		want    []string
		damaged int
	}{
		"torn":              {good("a")[:40] + "\n" + good("b") + "\n", []string{"b"}, 1},
		"torn at the end":   {good("a") + "\n" + good("b")[:50], []string{"a"}, 1},
		"no final line end": {good("a") + "\n" + good("b"), []string{"a", "b"}, 0},
		"welded":            {good("a") + good("b") + "\n", []string{"a", "b"}, 0},
		"welded and torn":   {good("a") + good("b")[:30] + "\n" + good("c") + "\n", []string{"a", "c"}, 1},
		"blank lines":       {"\n  \n\t\n" + good("a") + "\r\n\r\n", []string{"a"}, 0},
		"garbage":           {"garbage{\n\xff\xfe{\"i\":6}\n\x00\x00\n" + good("a") + "\n", []string{"a"}, 3},
		"foreign JSON":      {`{"payload":7}` + "\n" + `[1]` + "\n" + `{"i":1}` + "\n" + good("a") + "\n", []string{"a"}, 3},
		"spans of no kind":  {`{"payload":{"resourceSpans":[7]}}` + "\n" + `{"payload":{"resourceSpans":{}}}` + "\n" + `{"payload":{"resourceSpans":[]}}` + "\n", nil, 3},
		"no time":           {`{"payload":` + string(payload("a", 0)) + "}\n", []string{"a"}, 0},
		"odd times":         {strings.Replace(good("a"), "2026", "x", 1) + "\n" + strings.Replace(good("b"), "2026", "9999", 1) + "\n", []string{"a", "b"}, 0},
		"last key wins":     {`{"payload":1,"savedAt":2,"payload":` + string(payload("a", 0)) + "}\n", []string{"a"}, 0},
		"several spans":     {`{"payload":{"resourceSpans":[` + `{"scopeSpans":[{"spans":[{"spanId":"a"}]}]},{"scopeSpans":[{"spans":[{"spanId":"b"}]}]}` + "]}}\n", []string{"a", "b"}, 0},
		"deep":              {strings.Repeat(`{"a":`, 200_000) + "\n" + good("a") + "\n", []string{"a"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, c.text)
			col := &collector{t: t}
			s := col.flush(dir)
			if !slices.Equal(col.ids, c.want) || s.Damaged != c.damaged {
				t.Fatalf("delivered %q, %+v", col.ids, s)
			}
			if _, err := os.Stat(queue{dir}.file()); !os.IsNotExist(err) {
				t.Fatal("the queue is not empty")
			}
		})
	}
}

// R32: a line that no POST can carry doesn't stop the others.
func TestHugeLines(t *testing.T) {
	for _, n := range []int{950_000, 2_000_000, 5_000_000} {
		dir := t.TempDir()
		write(t, dir, saved(now, "a", 10), saved(now, "big", n), saved(now, "c", 10))
		c := &collector{t: t}
		if s := c.flush(dir); !slices.Equal(c.ids, []string{"a", "c"}) || s.Dropped != 1 {
			t.Fatalf("%d bytes: %v, %+v", n, c.ids, s)
		}
	}
}

// One entry that the collector refuses costs itself only (R101).
func TestRefusals(t *testing.T) {
	refuse := func(bad ...string) func(ids []string) (Outcome, error) {
		return func(ids []string) (Outcome, error) {
			for _, id := range ids {
				if slices.Contains(bad, id) {
					return Refused, nil
				}
			}
			return Delivered, nil
		}
	}
	ids := strings.Split("abcdefghij", "")
	for _, bad := range [][]string{{"a"}, {"e"}, {"j"}, {"a", "j"}, {"c", "d", "e"}, ids} {
		dir := t.TempDir()
		add(t, dir, ids...)
		c := &collector{t: t, answer: refuse(bad...)}
		s := c.flush(dir)
		if s.Delivered != 10-len(bad) || s.Refused != len(bad) || len(waiting(t, dir)) != 0 || !slices.IsSorted(c.ids) {
			t.Errorf("refusing %v: %+v, delivered %v", bad, s, c.ids)
		}
	}
	dir := t.TempDir()
	for i := range 1000 {
		write1(t, dir, saved(now, fmt.Sprint(i), 0))
	}
	c := &collector{t: t, answer: func([]string) (Outcome, error) { return Refused, nil }}
	s, err := Flush(dir, now, time.Now().Add(time.Minute), c.send)
	if !errors.Is(err, ErrRefusing) || len(c.bodies) > 2*maxRefusals || s.Refused == 0 {
		t.Fatalf("%d bodies, %+v, %v", len(c.bodies), s, err)
	}
	if n := len(waiting(t, dir)); n != 1000-s.Refused {
		t.Fatalf("%d wait, %d refused", n, s.Refused)
	}
}

func write1(t testing.TB, dir, line string) {
	t.Helper()
	f, err := os.OpenFile(queue{dir}.file(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString(line)
}

func TestBounds(t *testing.T) {
	week := now.Add(-maxAge)
	many := func(n int, at time.Time, pad int) (lines []string) {
		for i := range n {
			lines = append(lines, saved(at, fmt.Sprint(i), pad))
		}
		return lines
	}
	for name, c := range map[string]struct {
		lines   []string
		dropped int
		left    int
		first   string
	}{
		"one below":           {many(999, now, 0), 0, 1000, "0"},
		"one too many":        {many(1000, now, 0), 1, 1000, "1"},
		"far too many":        {many(3000, now, 0), 2001, 1000, "2001"},
		"a week old":          {many(3, week, 0), 0, 4, "0"},
		"older than a week":   {many(3, week.Add(-time.Second), 0), 3, 1, "new"},
		"some older":          {append(many(3, week.Add(-time.Hour), 0), saved(now, "x", 0)), 3, 2, "x"},
		"too large":           {many(40, now, 900_000), 3, 38, "3"},
		"blank and too many":  {append([]string{strings.Repeat(" ", 3000) + "\n"}, many(1000, now, 0)...), 1, 1000, "1"},
		"clock set back":      {many(3, now.Add(1000*time.Hour), 0), 0, 4, "0"},
		"blank and not full":  {append([]string{strings.Repeat(" ", 300) + "\n"}, many(5, now, 0)...), 0, 6, "0"},
		"one line, too large": {[]string{strings.Repeat("y", maxBytes+5) + "\n"}, 1, 1, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, c.lines...)
			dropped, err := Append(dir, payload("new", 0), now)
			if err != nil || dropped != c.dropped {
				t.Fatalf("dropped %d, want %d, %v", dropped, c.dropped, err)
			}
			ids := waiting(t, dir)
			if len(ids) != c.left || ids[0] != c.first || ids[len(ids)-1] != "new" {
				t.Fatalf("%d wait, first %s", len(ids), ids[0])
			}
			if fi, _ := os.Stat(queue{dir}.file()); fi.Size() > maxBytes {
				t.Fatalf("%d bytes", fi.Size())
			}
		})
	}
}

func TestFlushDropsTheOld(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, saved(now, "a", 0), saved(now.Add(-maxAge-time.Second), "old", 0), saved(now, "c", 0))
	c := &collector{t: t}
	if s := c.flush(dir); !slices.Equal(c.ids, []string{"a", "c"}) || s.Dropped != 1 {
		t.Fatalf("%v, %+v", c.ids, s)
	}
}

func TestFlushKeepsBoundsBeforeItReads(t *testing.T) {
	dir := t.TempDir()
	for i := range 2500 {
		write1(t, dir, saved(now, fmt.Sprint(i), 0))
	}
	c := &collector{t: t}
	if s := c.flush(dir); s.Delivered != 1000 || s.Dropped != 1500 || c.ids[0] != "1500" {
		t.Fatalf("%+v from %s", s, c.ids[0])
	}
}

func TestAppendDuringFlush(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, "a", "b")
	c := &collector{t: t}
	c.answer = func(ids []string) (Outcome, error) {
		if len(c.bodies) == 1 {
			add(t, dir, "late")
			if s, err := Flush(dir, now, time.Now().Add(time.Minute), c.send); err != nil || !s.Busy {
				t.Errorf("a second flush at the same time: %+v, %v", s, err)
			}
		}
		return Delivered, nil
	}
	c.flush(dir)
	if got := waiting(t, dir); !slices.Equal(got, []string{"late"}) {
		t.Fatalf("waiting %v", got)
	}
	c.flush(dir)
	if !slices.Equal(c.ids, []string{"a", "b", "late"}) {
		t.Fatalf("delivered %v", c.ids)
	}
}

func TestAppendFaults(t *testing.T) {
	full := errors.New("no space left on device")
	for name, rule := range map[string]faults.Rule{
		"disk full":        {Op: safefile.OpWrite, Err: full},
		"full half-way":    {Op: safefile.OpWrite, Short: 20, Err: full},
		"denied":           {Op: safefile.OpOpen, Path: "failed-spans", Err: full},
		"no directory":     {Op: safefile.OpMkdir, Err: full},
		"can't be undone":  {Op: safefile.OpWrite, Short: 20, Err: full},
		"lock not granted": {Op: safefile.OpLock, Err: full},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if rule.Op != safefile.OpMkdir {
				add(t, dir, "a")
			}
			rules := []faults.Rule{rule}
			if name == "can't be undone" {
				rules = append(rules, faults.Rule{Op: safefile.OpTruncate, Err: full})
			}
			before, _ := os.ReadFile(queue{dir}.file())
			undo := faults.Use(t, rules...)
			_, err := Append(dir, payload("b", 0), now)
			undo.Rules = nil
			if name == "lock not granted" {
				if err != nil || len(waiting(t, dir)) != 2 {
					t.Fatalf("without locks the span is saved all the same: %v", err)
				}
				return
			}
			if !errors.Is(err, full) {
				t.Fatal(err)
			}
			if after, _ := os.ReadFile(queue{dir}.file()); name != "can't be undone" && !bytes.Equal(after, before) {
				t.Errorf("a failed write left %q", after[min(len(before), len(after)):])
			}
			add(t, dir, "c")
			want := []string{"a", "c"}
			if rule.Op == safefile.OpMkdir {
				want = want[1:]
			}
			if got := waiting(t, dir); !slices.Equal(got, want) {
				t.Fatalf("waiting %v", got)
			}
		})
	}
}

// What fails on this machine says nothing about the collector: never Down, nothing lost.
func TestFlushFaults(t *testing.T) {
	broken := errors.New("input/output error")
	for name, rule := range map[string]faults.Rule{
		"no lock":        {Op: safefile.OpLock, Err: broken},
		"denied":         {Op: safefile.OpOpen, Path: "failed-spans", Err: broken},
		"blank fails":    {Op: safefile.OpWrite, Err: broken},
		"remove refused": {Op: safefile.OpRemove, Err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			add(t, dir, "a", "b")
			script := faults.Use(t, rule)
			c := &collector{t: t}
			s, err := Flush(dir, now, time.Now().Add(time.Minute), c.send)
			if !errors.Is(err, broken) || s.Down {
				t.Fatalf("%+v, %v", s, err)
			}
			script.Rules = nil
			c.flush(dir)
			slices.Sort(c.ids)
			if got := slices.Compact(c.ids); !slices.Equal(got, []string{"a", "b"}) {
				t.Fatalf("delivered %v", got)
			}
		})
	}
}

func TestOddThingsInPlace(t *testing.T) {
	for name, put := range map[string]func(dir string) error{
		"queue is a directory": func(dir string) error { return os.Mkdir(queue{dir}.file(), 0o700) },
		"lock is a directory":  func(dir string) error { return os.Mkdir(filepath.Join(dir, "flush.lock"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := put(dir); err != nil {
				t.Fatal(err)
			}
			_, err := Append(dir, payload("a", 0), now)
			c := &collector{t: t}
			s, ferr := Flush(dir, now, time.Now().Add(time.Minute), c.send)
			if ferr == nil || s.Down || len(c.ids) > 0 || (err == nil) != (name == "lock is a directory") {
				t.Fatalf("append: %v; flush: %+v, %v", err, s, ferr)
			}
		})
	}
}

func FuzzFlush(f *testing.F) {
	data, err := os.ReadFile("testdata/mixed.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(saved(now, "a", 5) + saved(now, "b", 5)))
	f.Add([]byte("{\"payload\":{\"resourceSpans\":[{}]}}{\"payload\":{\"resourceSpans\":[{},{}]}}"))
	f.Add([]byte("\n\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		write(t, dir, string(data))
		if _, err := Append(dir, payload("own", 0), now); err != nil {
			t.Fatal(err)
		}
		found := false
		s, err := Flush(dir, now, time.Now().Add(time.Minute), func(body []byte) (Outcome, error) {
			if !json.Valid(body) || len(body) > maxBody {
				t.Fatalf("body is no JSON: %q", body)
			}
			found = found || bytes.Contains(body, []byte(`"spanId":"own"`))
			return Delivered, nil
		})
		if err != nil || s.Down || s.Busy {
			t.Fatalf("%+v, %v", s, err)
		}
		if _, err := os.Stat(queue{dir}.file()); !os.IsNotExist(err) {
			t.Fatal("the queue is not empty")
		}
		if !found {
			t.Fatal("the sound line was not delivered")
		}
	})
}
