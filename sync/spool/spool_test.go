package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, dir string, o Options) *Spool {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var lastKey uint64

func put(t testing.TB, s *Spool, stream string, n, size int) {
	t.Helper()
	for range n {
		lastKey++
		data := make([]byte, max(size, 8))
		binary.BigEndian.PutUint64(data, lastKey)
		if err := s.Append(stream, []Record{{Key: lastKey, Data: data}}); err != nil {
			t.Fatal(err)
		}
	}
}

// takeAll delivers what waits and returns how many records there were.
func takeAll(t testing.TB, s *Spool) (n int) {
	t.Helper()
	for {
		b, err := s.Next(64 << 10)
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			return n
		}
		n += len(b.Records)
		if err := s.Done(b); err != nil {
			t.Fatal(err)
		}
	}
}

func segments(t testing.TB, dir string) int {
	t.Helper()
	m, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	return len(m)
}

// One user who floods drops his own oldest spans, not another's.
func TestBytesAreBoundedAndFair(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{MaxBytes: 256 << 10, still: true})
	put(t, s, "quiet", 10, 1000)
	for range 40 {
		put(t, s, "flood", 100, 1000)
		s.tidy()
		s.tidy()
		if st := s.Stats(); st.Disk > 256<<10+2*s.o.Segment {
			t.Fatalf("%d bytes on disk", st.Disk)
		}
	}
	st := s.Stats()
	got := takeAll(t, s)
	if st.DroppedBytes == 0 || int(st.DroppedBytes)+got != 4010 {
		t.Errorf("dropped %d, delivered %d", st.DroppedBytes, got)
	}
	s.Close()
	s = open(t, dir, Options{still: true})
	if again := s.Stats(); again.DroppedBytes != st.DroppedBytes {
		t.Errorf("the count of drops did not survive: %d", again.DroppedBytes)
	}
}

func TestQuietUsersSpansSurviveAFlood(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxBytes: 128 << 10, still: true})
	put(t, s, "quiet", 10, 1000)
	first := lastKey - 9
	for range 30 {
		put(t, s, "flood", 20, 1000)
		s.tidy()
	}
	found := 0
	for b, _ := s.Next(1 << 20); b != nil; b, _ = s.Next(1 << 20) {
		for _, r := range b.Records {
			if k := binary.BigEndian.Uint64(r); k >= first && k < first+10 {
				found++
			}
		}
		if err := s.Done(b); err != nil {
			t.Fatal(err)
		}
	}
	if found != 10 {
		t.Errorf("%d of the quiet user's 10 spans were left", found)
	}
}

// A flood does not delay the others' delivery: each batch has a share of all.
func TestStreamsTakeTurns(t *testing.T) {
	s := open(t, t.TempDir(), Options{still: true})
	put(t, s, "a", 1000, 1000)
	put(t, s, "b", 5, 1000)
	put(t, s, "c", 5, 1000)
	b, err := s.Next(30 << 10)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, p := range b.flight.Parts {
		counts[s.segment(p.Segment).stream] += p.N
	}
	if counts["b"] != 5 || counts["c"] != 5 || counts["a"] < 10 || b.Bytes > 30<<10 {
		t.Errorf("%v in %d bytes", counts, b.Bytes)
	}
}

func TestAge(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		name    string
		steps   []time.Duration
		dropped uint64
	}{
		{"young", []time.Duration{30 * time.Minute}, 0},
		{"old", steps(30*time.Minute, 8*24*2), 10},
		{"clock set forward by ten years", []time.Duration{10 * 365 * 24 * time.Hour, time.Minute}, 0},
		{"clock set back by ten years", []time.Duration{-10 * 365 * 24 * time.Hour, time.Minute}, 0},
		{"set back, then old", append([]time.Duration{-365 * 24 * time.Hour}, steps(30*time.Minute, 8*24*2)...), 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := start
			s := open(t, t.TempDir(), Options{Clock: func() time.Time { return now }, still: true})
			put(t, s, "a", 10, 100)
			for _, d := range c.steps {
				now = now.Add(d)
				s.tidy()
				s.tidy()
			}
			if n := takeAll(t, s); n != 10-int(c.dropped) || s.Stats().DroppedAge != c.dropped {
				t.Errorf("%d delivered, %+v", n, s.Stats())
			}
		})
	}
}

func TestBatchUnderWayAges(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := open(t, t.TempDir(), Options{Clock: func() time.Time { return now }, still: true})
	put(t, s, "a", 10, 100)
	b, err := s.Next(500)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 * 48 {
		now = now.Add(30 * time.Minute)
		s.tidy()
	}
	if st := s.Stats(); st.Records != 0 || st.DroppedAge != 10 {
		t.Errorf("%+v", st)
	}
	if err := s.Done(b); err == nil {
		t.Error("a batch that was given up is done")
	}
}

func steps(d time.Duration, n int) (all []time.Duration) {
	for range n {
		all = append(all, d)
	}
	return all
}

func TestClockSetBackOverARestart(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(2_800_000_000, 0)
	s := open(t, dir, Options{Clock: func() time.Time { return now }, still: true})
	put(t, s, "a", 10, 100)
	s.Close()
	now = time.Unix(1_800_000_000, 0)
	s = open(t, dir, Options{Clock: func() time.Time { return now }, still: true})
	put(t, s, "a", 10, 100)
	for range 6 * 24 * 2 {
		now = now.Add(30 * time.Minute)
		s.tidy()
	}
	if n := takeAll(t, s); n != 20 {
		t.Errorf("%d delivered after six days", n)
	}
}

// A machine that starts with a clock far ahead drops nothing before somebody has
// set it, and one that was off for long delivers what it still has.
func TestClockAheadOverARestart(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(1_800_000_000, 0)
	o := Options{Clock: func() time.Time { return now }, still: true}
	s := open(t, dir, o)
	put(t, s, "a", 10, 100)
	s.Close()
	pass := func(d time.Duration) int64 {
		now = now.Add(d)
		s.tidy()
		return s.Stats().Records
	}
	now = now.Add(10 * 365 * 24 * time.Hour)
	s = open(t, dir, o)
	if pass(10*time.Second) != 10 || pass(-10*365*24*time.Hour) != 10 || pass(30*time.Minute) != 10 {
		t.Errorf("%+v", s.Stats())
	}
	if pass(40*time.Minute) != 0 || s.Stats().DroppedAge != 10 {
		t.Errorf("too old for longer than the grace: %+v", s.Stats())
	}
}

// Delivered records leave the disk, and are known all the same, also by the
// next process.
func TestDeliveredSegmentsGo(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(1_800_000_000, 0)
	o := Options{Segment: 10 << 10, Clock: func() time.Time { return now }, still: true}
	s := open(t, dir, o)
	put(t, s, "a", 100, 1000)
	keys := []uint64{lastKey - 99, lastKey}
	takeAll(t, s)
	now = now.Add(2 * time.Minute)
	s.tidy()
	s.tidy()
	if n := segments(t, dir); n != 0 {
		t.Errorf("%d segments stayed", n)
	}
	for range 2 {
		for _, k := range keys {
			if err := s.Append("a", []Record{{Key: k, Data: []byte("again")}}); err != nil {
				t.Fatal(err)
			}
		}
		if n := takeAll(t, s); n != 0 {
			t.Errorf("%d records came twice", n)
		}
		s.Close()
		s = open(t, dir, o)
	}
}

// A number is never given twice, or two batches might share an id.
func TestNumbersAreNotReused(t *testing.T) {
	dir := t.TempDir()
	o := Options{still: true}
	ids := map[string]bool{}
	for i := range 5 {
		s := open(t, dir, o)
		if err := s.Append("a", []Record{{Key: uint64(1000 + i), Data: []byte("same size")}}); err != nil {
			t.Fatal(err)
		}
		b, err := s.Next(1 << 20)
		if err != nil || b == nil {
			t.Fatal(b, err)
		}
		if ids[b.ID] {
			t.Fatalf("batch id %s came again", b.ID)
		}
		ids[b.ID] = true
		if err := s.Done(b); err != nil {
			t.Fatal(err)
		}
		s.seal(s.segs[0])
		s.tidy()
		if n := segments(t, dir); n != 0 {
			t.Fatalf("%d segments", n)
		}
		s.kill()
	}
}

func TestFullDisk(t *testing.T) {
	m := &mortal{left: -1, files: map[string]*mortalFile{}, rnd: rand.New(rand.NewPCG(1, 2))}
	dir := t.TempDir()
	m.folder = folder(dir)
	s := open(t, dir, Options{disk: m, still: true})
	put(t, s, "a", 10, 1000)
	full := true
	m.fail = func(step, name string) error {
		// The disk takes nothing, until what was kept for the state is given up.
		if full && !strings.HasPrefix(step, "sync") && step != "remove" && (step != "replace" || m.has("reserve")) {
			return errFull
		}
		return nil
	}
	recs := []Record{{Key: 1 << 40, Data: make([]byte, 500)}}
	for range 20 {
		if err := s.Append("a", recs); !errors.Is(err, errFull) {
			t.Fatalf("append: %v", err)
		}
	}
	if st := s.Stats(); st.WriteErrors < 20 || !strings.Contains(st.LastError, "no space") {
		t.Errorf("%+v", st)
	}
	if n := takeAll(t, s); n < 10 {
		t.Errorf("%d records delivered while the disk is full", n)
	}
	full = false
	if err := s.Append("a", recs); err != nil {
		t.Fatal(err)
	}
	takeAll(t, s)
	s.tidy()
	if !m.has("reserve") {
		t.Error("no reserve was made again")
	}
	if st := s.Stats(); st.Delivered != 11 || st.Records != 0 {
		t.Errorf("%+v", st)
	}
}

// A disk that takes nothing keeps no spool from opening: the guard lives in the
// same process. What was kept for the state helps a spool that has one.
func TestOpenOnAFullDisk(t *testing.T) {
	for _, reserve := range []bool{false, true} {
		m := &mortal{left: -1, files: map[string]*mortalFile{}, rnd: rand.New(rand.NewPCG(1, 2))}
		dir := t.TempDir()
		m.folder = folder(dir)
		s := open(t, dir, Options{disk: m, still: true})
		put(t, s, "a", 10, 100)
		s.kill()
		if !reserve {
			os.Remove(m.path("reserve"))
		}
		full := true
		m.fail = func(step, _ string) error {
			if full && step != "remove" && (step != "replace" || m.has("reserve") || !reserve) {
				return errFull
			}
			return nil
		}
		s = open(t, dir, Options{disk: m, still: true})
		if st := s.Stats(); st.Records != 10 || !reserve && st.WriteErrors == 0 {
			t.Errorf("%+v", st)
		}
		if b, err := s.Next(1 << 20); reserve != (err == nil && len(b.Records) == 10) {
			t.Errorf("reserve %t: %v", reserve, err)
		}
		full = false
		if n := takeAll(t, s); n != 10 {
			t.Errorf("reserve %t: %d records", reserve, n)
		}
	}
}

// What stands where the state or the keys belong, and can't be read, is as good
// as gone.
func TestStrangeState(t *testing.T) {
	for _, name := range []string{"state", "seen"} {
		dir := t.TempDir()
		s := open(t, dir, Options{still: true})
		put(t, s, "a", 10, 100)
		s.kill()
		os.Remove(filepath.Join(dir, name))
		if err := os.Symlink("/dev/zero", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, Options{still: true})
		if n := takeAll(t, s); n != 10 {
			t.Errorf("%s: %d records", name, n)
		}
	}
}

func (m *mortal) has(name string) bool {
	_, err := os.Lstat(m.path(name))
	return err == nil
}

func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name string
		hurt func(dir string) error
		want int
	}{
		{"nothing", func(string) error { return nil }, 20},
		{"state is garbage", func(d string) error { return os.WriteFile(d+"/state", []byte("{"), 0o600) }, 20},
		{"state is gone", func(d string) error { return os.Remove(d + "/state") }, 20},
		{"keys are gone", func(d string) error { os.Remove(d + "/seen"); return nil }, 20},
		{"a strange file", func(d string) error { return os.WriteFile(d+"/x.seg", []byte("x"), 0o600) }, 20},
		{"an empty segment", func(d string) error { return os.WriteFile(d+"/9.seg", nil, 0o600) }, 20},
		{"the tail is torn", func(d string) error { return os.Truncate(d+"/1.seg", 1000) }, 9 + 10},
		{"a bit flipped", func(d string) error {
			b, _ := os.ReadFile(d + "/1.seg")
			b[500] ^= 1
			return os.WriteFile(d+"/1.seg", b, 0o600)
		}, 4 + 10},
		{"a bit flipped in the batch under way", func(d string) error {
			b, _ := os.ReadFile(d + "/1.seg")
			b[150] ^= 1
			return os.WriteFile(d+"/1.seg", b, 0o600)
		}, 2 + 10}, // the one before it, and the one behind it that the batch knows of
		{"a segment is gone", func(d string) error { return os.Remove(d + "/1.seg") }, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Options{still: true})
			put(t, s, "a", 10, 76)
			put(t, s, "b", 10, 76)
			if b, err := s.Next(500); err != nil || b == nil { // one is under way
				t.Fatal(err)
			}
			s.kill()
			if err := c.hurt(dir); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, Options{still: true})
			if n := takeAll(t, s); n != c.want {
				t.Errorf("%d records, want %d; %+v", n, c.want, s.Stats())
			}
		})
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{still: true})
	if _, err := Open(dir, Options{still: true}); !errors.Is(err, safefile.ErrLocked) {
		t.Errorf("%v", err)
	}
	s.Close()
	open(t, dir, Options{})
}

func TestSyncedWithin200Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		m := &mortal{folder: folder(dir), left: -1, files: map[string]*mortalFile{}}
		s := open(t, dir, Options{disk: m})
		for i := range 20 {
			put(t, s, fmt.Sprint("user", i%3), 5, 100)
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			s.mu.Lock()
			for name, f := range m.files {
				if f.synced != f.written || !f.named {
					t.Errorf("round %d: %s synced to %d of %d", i, name, f.synced, f.written)
				}
			}
			s.mu.Unlock()
		}
	})
}

func TestManyStreams(t *testing.T) {
	s := open(t, t.TempDir(), Options{still: true})
	for i := range maxStreams * 2 {
		put(t, s, fmt.Sprint("user ", i), 1, 50)
	}
	if n := len(s.active); n > maxStreams+1 {
		t.Errorf("%d open segments", n)
	}
	if n := takeAll(t, s); n != maxStreams*2 {
		t.Errorf("%d delivered", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	s := open(b, b.TempDir(), Options{})
	data := make([]byte, 3000)
	b.SetBytes(int64(len(data)))
	for i := range b.N {
		if err := s.Append("a", []Record{{Key: uint64(i) + 1, Data: data}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "spans/s")
}
