package spool

import (
	"slices"
	"time"
)

// tidy removes what was delivered and drops what is too much or too old.
func (s *Spool) tidy() {
	s.sync()
	s.consumer.Lock()
	defer s.consumer.Unlock()
	s.mu.Lock()
	now := s.o.Clock()
	s.age(now)
	for _, g := range s.active {
		if idle := now.Sub(g.last); g.done == g.records && idle > time.Minute || now.Sub(g.first) > time.Hour {
			s.seal(g)
		}
	}
	changed := s.recall(now)
	changed = s.bound(now) || changed
	var gone []*segment
	for _, g := range s.segs {
		if g.sealed && g.file == nil && !s.held(g) && g.done == g.records {
			gone = append(gone, g)
		}
	}
	s.mu.Unlock()
	for _, g := range gone {
		// First the keys, so that at no moment both they and the segment are away.
		err := s.remember(g)
		if err == nil {
			err = s.disk.Remove(g.name())
		}
		if err != nil {
			s.lockedFault("remove a delivered segment", err)
			continue
		}
		s.mu.Lock()
		s.forget(g)
		s.mu.Unlock()
		changed = true
	}
	s.keepReserve()
	if changed {
		_ = s.saveState() // a failure is in the stats, and the next one says it all again
	}
}

// recall gives up a batch under way that is too old for another try: MaxAge
// holds for it too, and a Manager knows its id no longer than that.
func (s *Spool) recall(now time.Time) bool {
	if s.flight == nil {
		return false
	}
	n := 0
	for _, p := range s.flight.Parts {
		if g := s.segment(p.Segment); g != nil && now.Sub(g.last) <= s.o.MaxAge {
			return false
		}
		n += p.N
	}
	s.o.Log.Warn("spool: batch under way dropped for its age", "batch", s.flight.ID, "spans", n)
	s.stats.DroppedAge += uint64(n)
	s.advance(s.flight)
	s.flight = nil
	return true
}

// age moves the times of all segments along when the clock jumped since the
// last round: neither a clock that is set nor a sleeping machine makes records
// older, and a clock set back doesn't make them younger.
func (s *Spool) age(now time.Time) {
	d := now.Sub(s.lastTidy)
	s.lastTidy = now
	if d >= 0 && d < jump {
		return
	}
	for _, g := range s.segs {
		g.first, g.last = g.first.Add(d), g.last.Add(d)
	}
}

// bound drops the oldest segment of whichever stream takes most, until the rest
// fits, and what is too old. One that is open is sealed, and falls in the round
// after the sync that closes it. It reports whether anything was dropped.
func (s *Spool) bound(now time.Time) (changed bool) {
	for _, g := range slices.Clone(s.segs) {
		if now.Sub(g.last) > s.o.MaxAge {
			changed = s.drop(g, &s.stats.DroppedAge) || changed
		}
	}
	for over := s.usage() - s.o.MaxBytes; over > 0; over = s.usage() - s.o.MaxBytes {
		use := map[string]int64{}
		for _, g := range s.segs {
			use[g.stream] += g.end
		}
		var most string
		for stream, n := range use {
			if n > use[most] || n == use[most] && stream < most {
				most = stream
			}
		}
		i := slices.IndexFunc(s.segs, func(g *segment) bool {
			return g.stream == most && !s.held(g)
		})
		if i < 0 || !s.drop(s.segs[i], &s.stats.DroppedBytes) {
			return changed
		}
		changed = true
	}
	return changed
}

// drop removes a segment and counts what it held for nobody yet.
func (s *Spool) drop(g *segment, counter *uint64) bool {
	if !g.sealed {
		s.seal(g)
	}
	if s.held(g) || g.file != nil {
		return false
	}
	if err := s.disk.Remove(g.name()); err != nil {
		s.fault("drop a segment", err)
		return false
	}
	if n := g.records - g.done; n > 0 {
		*counter += uint64(n)
		s.o.Log.Warn("spool: spans dropped", "stream", g.stream, "spans", n)
	}
	s.forget(g)
	return true
}

// held says that a segment is being read, or part of a batch under way, also one
// that is only on record still: while the state can't be written, a kill brings
// it back, with the same content.
func (s *Spool) held(g *segment) bool {
	return g.pinned > 0 || s.recorded != nil && slices.ContainsFunc(s.recorded.Parts, func(p part) bool { return p.Segment == g.n })
}

func (s *Spool) forget(g *segment) {
	s.segs = slices.DeleteFunc(s.segs, func(x *segment) bool { return x == g })
}
