package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is one life of a folder, seen from outside: what was answered for, and
// what a Manager took that knows batches by their id.
type world struct {
	t     *rapid.T
	dir   string
	rnd   *rand.Rand
	now   time.Time
	power bool // crashes are power cuts

	s    *Spool
	m    *mortal
	key  uint64
	told map[uint64]bool   // answered, so it must arrive
	owed map[uint64]string // not answered: the client comes again
	ids  map[string][]byte
	took map[uint64]int
}

func (w *world) open(steps int) {
	w.m = &mortal{folder: folder(w.dir), rnd: w.rnd, left: steps, files: map[string]*mortalFile{}}
	s, err := Open(w.dir, Options{Segment: 600, SyncEvery: time.Second, Clock: func() time.Time { return w.now }, disk: w.m, still: true})
	if err != nil {
		if !w.m.dead && !errors.Is(err, errFull) {
			w.t.Fatalf("open: %v", err)
		}
		w.open(-1)
		return
	}
	w.s = s
}

func (w *world) crash(steps int) {
	w.s.kill()
	if w.power {
		synced := map[string]int64{}
		for name, f := range w.m.files {
			if f.named {
				synced[name] = f.synced
			}
		}
		// What isn't safe from a power cut is not held against the spool.
		for _, g := range w.s.segs {
			mf := w.m.files[g.name()]
			if mf == nil {
				continue
			}
			b, _ := os.ReadFile(w.m.path(g.name()))
			lost := b[min(int64(len(b)), max(synced[g.name()], g.start)):]
			_, keys := wholeRecords(lost)
			for _, k := range keys {
				delete(w.told, k)
			}
		}
		if err := w.m.powerCut(); err != nil {
			w.t.Fatal(err)
		}
	}
	w.open(steps)
}

// append sends records as a hook does; heard is whether it is still there when
// the answer comes.
func (w *world) append(stream string, heard bool, keys []uint64) {
	recs := make([]Record, len(keys))
	for i, k := range keys {
		recs[i] = Record{Key: k, Data: fmt.Appendf(nil, "%d %s", k, bytes.Repeat([]byte{'x'}, int(k%3*50)))}
	}
	err := w.s.Append(stream, recs)
	for _, k := range keys {
		if err == nil && heard {
			w.told[k] = true
			delete(w.owed, k)
		} else {
			w.owed[k] = stream
		}
	}
}

func (w *world) take(b *Batch) {
	content := bytes.Join(b.Records, []byte{0})
	if old, ok := w.ids[b.ID]; ok {
		if !bytes.Equal(old, content) {
			w.t.Fatalf("batch %s has another content", b.ID)
		}
		return
	}
	w.ids[b.ID] = content
	for _, r := range b.Records {
		var k uint64
		fmt.Sscan(string(r), &k)
		if w.took[k]++; w.took[k] > 1 {
			w.t.Fatalf("record %d was delivered twice", k)
		}
	}
}

func (w *world) deliver(kind int) {
	b, err := w.s.Next(500)
	if err != nil {
		if !w.m.dead && !errors.Is(err, errFull) {
			w.t.Fatalf("next: %v", err)
		}
		return
	}
	if b == nil {
		return
	}
	switch kind {
	case 0: // refused: stays under way
	case 1: // taken, and the answer is lost
		w.take(b)
	case 2: // too large
		if _, taken := w.ids[b.ID]; taken {
			return // a server that took it once doesn't call it too large later
		}
		half, err := w.s.Halve(b)
		if err != nil && !w.m.dead && !errors.Is(err, errFull) {
			w.t.Fatalf("halve: %v", err)
		}
		if half == nil {
			return
		}
		b = half
		fallthrough
	default:
		w.take(b)
		if err := w.s.Done(b); err != nil && !w.m.dead && !errors.Is(err, errFull) {
			w.t.Fatalf("done: %v", err)
		}
	}
}

func testCrashes(t *testing.T, power bool) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		w := &world{
			t: rt, dir: dir, power: power, now: time.Unix(1_800_000_000, 0),
			rnd:  rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1)),
			told: map[uint64]bool{}, owed: map[uint64]string{}, ids: map[string][]byte{}, took: map[uint64]int{},
		}
		steps := rapid.IntRange(-1, 40)
		w.open(steps.Draw(rt, "life"))
		rt.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {
				if w.m.dead {
					w.crash(steps.Draw(rt, "life"))
				}
			},
			"append": func(rt *rapid.T) {
				keys := make([]uint64, rapid.IntRange(1, 4).Draw(rt, "n"))
				for i := range keys {
					w.key++
					keys[i] = w.key
				}
				w.append(rapid.SampledFrom([]string{"ann", "bob", "cy"}).Draw(rt, "stream"), rapid.Bool().Draw(rt, "heard"), keys)
			},
			"again": func(*rapid.T) {
				for k, stream := range w.owed {
					w.append(stream, true, []uint64{k})
					break
				}
			},
			"deliver": func(rt *rapid.T) { w.deliver(rapid.IntRange(0, 4).Draw(rt, "answer")) },
			"sync":    func(*rapid.T) { w.s.sync() },
			"tidy":    func(*rapid.T) { w.s.tidy() },
			"later": func(rt *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(-600, 1800).Draw(rt, "s")) * time.Second)
			},
			"full": func(*rapid.T) {
				w.m.fail = func(step, _ string) error {
					if step == "write" || step == "create" || step == "replace" || step == "append" {
						return errFull
					}
					return nil
				}
			},
			"space": func(*rapid.T) { w.m.fail = nil },
			"crash": func(rt *rapid.T) { w.crash(steps.Draw(rt, "life")) },
		})
		w.crash(-1)
		for k, stream := range w.owed {
			w.append(stream, true, []uint64{k})
		}
		for b := w.mustNext(); b != nil; b = w.mustNext() {
			w.take(b)
			if err := w.s.Done(b); err != nil {
				rt.Fatal(err)
			}
		}
		for k := range w.told {
			if w.took[k] != 1 {
				rt.Fatalf("record %d was answered for and delivered %d times", k, w.took[k])
			}
		}
		if st := w.s.Stats(); st.Dropped() != 0 || st.Records != 0 {
			rt.Fatalf("dropped or left: %+v", st)
		}
		w.s.kill()
	})
}

func (w *world) mustNext() *Batch {
	b, err := w.s.Next(500)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// security.md S14: a kill at any step loses nothing that was answered for, and
// delivers nothing twice.
func TestKillAtAnyStep(t *testing.T) { testCrashes(t, false) }

// A power cut costs at most what was not synced yet, and repeats nothing.
func TestPowerCutAtAnyStep(t *testing.T) { testCrashes(t, true) }

func FuzzScan(f *testing.F) {
	good := segmentHead("ann")
	good = appendRecord(good, Record{Key: 1, Data: []byte("one")}, time.Unix(1, 0))
	good = appendRecord(good, Record{Key: 2, Data: []byte("two")}, time.Unix(2, 0))
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(binary.LittleEndian.AppendUint32(good, 1<<31))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := t.TempDir()
		if err := os.WriteFile(d+"/7.seg", b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(d, Options{still: true, disk: &mortal{folder: folder(d), left: -1, files: map[string]*mortalFile{}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.kill()
		n := int64(0)
		for {
			b, err := s.Next(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			if b == nil {
				break
			}
			n += int64(len(b.Records))
			if err := s.Done(b); err != nil {
				t.Fatal(err)
			}
		}
		if s.stats.Lost != 0 || int64(s.stats.Delivered) != n {
			t.Fatalf("%+v", s.stats)
		}
	})
}
