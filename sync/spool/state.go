package spool

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// state is the file of that name: everything that the segments don't say.
type state struct {
	Schema  int              `json:"schema"`
	ID      string           `json:"id"`   // of this spool, part of each batch id
	Next    uint64           `json:"next"` // no segment number below is given again
	Cursors map[uint64]int64 `json:"cursors"`
	Flight  *flight          `json:"flight,omitempty"`

	DroppedBytes uint64 `json:"droppedBytes"`
	DroppedAge   uint64 `json:"droppedAge"`
	Lost         uint64 `json:"lost"`
}

// saveState replaces the state file. Only the holder of consumer calls it.
func (s *Spool) saveState() error {
	s.mu.Lock()
	st := state{
		Schema: 1, ID: s.id, Next: s.next, Cursors: map[uint64]int64{}, Flight: s.flight,
		DroppedBytes: s.stats.DroppedBytes, DroppedAge: s.stats.DroppedAge, Lost: s.stats.Lost,
	}
	for _, g := range s.segs {
		if g.cursor > g.start {
			st.Cursors[g.n] = g.cursor
		}
	}
	s.mu.Unlock()
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	err = s.disk.Replace("state", b)
	if err != nil && s.reserve {
		// A disk that our own segments filled can only be emptied by delivery.
		s.reserve = false
		if s.disk.Remove("reserve") == nil {
			err = s.disk.Replace("state", b)
		}
	}
	if err != nil {
		s.lockedFault("write the state", err)
		return err
	}
	s.mu.Lock()
	s.recorded = st.Flight
	s.mu.Unlock()
	return nil
}

// keepReserve has some blocks at hand for the state file on a full disk.
func (s *Spool) keepReserve() {
	if !s.reserve {
		s.reserve = s.disk.Replace("reserve", make([]byte, 256<<10)) == nil
	}
}

// recover reads the folder.
func (s *Spool) recover() error {
	st := state{ID: newID()}
	b, err := s.disk.ReadAll("state")
	switch {
	case errors.Is(err, fs.ErrNotExist):
	default:
		if err == nil {
			err = json.Unmarshal(b, &st)
		}
		if err != nil || st.Schema != 1 {
			// Better delivered twice, under a new id, than not at all.
			s.o.Log.Warn("spool: state is unreadable, starting from the segments", "err", err, "schema", st.Schema)
			st = state{ID: newID()}
		}
	}
	s.id, s.next, s.flight, s.recorded = st.ID, max(st.Next, 1), st.Flight, st.Flight
	s.stats.DroppedBytes, s.stats.DroppedAge, s.stats.Lost = st.DroppedBytes, st.DroppedAge, st.Lost
	if err := s.recoverSeen(); err != nil {
		s.seenTorn = true
		s.fault("recover", err)
	}
	names, err := s.disk.Names()
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	for _, name := range names {
		if n, ok := segmentNumber(name); ok {
			s.segs = append(s.segs, &segment{n: n, sealed: true})
			s.next = max(s.next, n+1)
		}
		s.reserve = s.reserve || name == "reserve"
	}
	slices.SortFunc(s.segs, func(a, b *segment) int { return int(a.n) - int(b.n) })
	now := s.o.Clock()
	s.segs = slices.DeleteFunc(s.segs, func(g *segment) bool {
		g.cursor = st.Cursors[g.n]
		err := s.scan(g, func(key uint64, at time.Time, end int64) {
			s.seen.add(key)
			g.records++
			if end <= g.cursor {
				g.done++
			}
			if at.After(now) { // the clock was set back: it is as old as this start
				at = now
			}
			// The clock of a machine that starts may be far ahead until it is set.
			if oldest := now.Add(min(grace, s.o.MaxAge) - s.o.MaxAge); at.Before(oldest) {
				at = oldest
			}
			if g.first.IsZero() {
				g.first = at
			}
			g.last = at
		})
		if err != nil {
			// No record of it was ever answered for: the head is written before the first.
			s.o.Log.Warn("spool: segment is unusable", "segment", g.name(), "err", err)
			if errors.Is(err, errNoSegment) {
				_ = s.disk.Remove(g.name())
			}
			return true
		}
		g.cursor = min(max(g.cursor, g.start), g.end)
		g.synced = g.end
		return false
	})
	s.pin(s.flight, 1)
	// If this fails, as on a full disk, the guard in this process works all the
	// same, and no batch leaves before the id is on record.
	_ = s.saveState()
	s.keepReserve()
	poke(s.wake)
	return nil
}

// recoverSeen reads the keys of delivered records and drops the oldest, and the
// torn last one, from the file.
func (s *Spool) recoverSeen() error {
	b, err := s.disk.ReadAll("seen")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Join(fmt.Errorf("read the keys seen: %w", err), s.disk.Remove("seen"))
	}
	whole := b[:len(b)/8*8]
	whole = whole[max(0, len(whole)-8*s.o.Window):]
	for i := 0; i < len(whole); i += 8 {
		s.seen.add(binary.LittleEndian.Uint64(whole[i:]))
	}
	s.seenKeys = len(whole) / 8
	if len(whole) != len(b) {
		if err := s.disk.Replace("seen", whole); err != nil {
			return fmt.Errorf("write the keys seen: %w", err)
		}
	}
	return nil
}

// remember adds the keys of a segment that is about to go.
func (s *Spool) remember(g *segment) error {
	var keys []byte
	scratch := *g
	if err := s.scan(&scratch, func(key uint64, _ time.Time, _ int64) {
		keys = binary.LittleEndian.AppendUint64(keys, key)
	}); err != nil {
		return err
	}
	if s.seenTorn || s.seenKeys > 4*s.o.Window {
		if err := s.recoverSeen(); err != nil {
			return err
		}
		s.seenTorn = false
	}
	if err := s.disk.AppendTo("seen", keys); err != nil {
		s.seenTorn = true
		return err
	}
	s.seenKeys += len(keys) / 8
	return nil
}
