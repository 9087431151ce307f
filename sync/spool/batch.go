package spool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Batch is what is delivered as one. While it is under way its id and content
// stay the same, also in another process after a kill.
type Batch struct {
	ID      string   // 32 hex digits, made of the spool's id and the place of the records
	Records [][]byte // the data of each
	Bytes   int
	flight  *flight
}

// flight is the batch under way as the state file keeps it.
type flight struct {
	ID    string `json:"id"`
	Parts []part `json:"parts"`
}

// part is a run of records within a segment.
type part struct {
	Segment uint64 `json:"segment"`
	From    int64  `json:"from"`
	To      int64  `json:"to"`
	N       int    `json:"n"`
}

// Next returns the batch under way, else forms one of about max bytes (a single
// record may be larger), taking turns between the streams; nil if nothing waits.
// The batch is on record before Next returns, so that a kill during its
// delivery repeats it with the same id and content.
func (s *Spool) Next(max int) (*Batch, error) {
	s.consumer.Lock()
	defer s.consumer.Unlock()
	s.mu.Lock()
	under, closed := s.flight, s.closed
	s.mu.Unlock()
	if closed {
		return nil, errors.New("next batch: the spool is closed")
	}
	if under != nil {
		b, err := s.load(under)
		if err != nil {
			return nil, fmt.Errorf("next batch: %w", err)
		}
		if b != nil {
			return b, nil
		}
	}
	s.sync()
	b, err := s.form(int64(max))
	if b == nil || err != nil {
		return nil, err
	}
	if err := s.depart(b); err != nil {
		return nil, fmt.Errorf("next batch: record that it is under way: %w", err)
	}
	return b, nil
}

// form collects records without moving a cursor.
func (s *Spool) form(max int64) (*Batch, error) {
	s.mu.Lock()
	queues := map[string][]*segment{}
	var streams []string
	for _, g := range s.segs { // in order of age
		if g.cursor < g.synced {
			if queues[g.stream] == nil {
				streams = append(streams, g.stream)
			}
			queues[g.stream] = append(queues[g.stream], g)
			g.pinned++ // nothing removes it while it is read
		}
	}
	at, limit, ahead := map[*segment]int64{}, map[*segment]int64{}, map[*segment]int{}
	var pinned []*segment
	for _, q := range queues {
		for _, g := range q {
			at[g], limit[g] = g.cursor, g.synced
			pinned = append(pinned, g)
		}
	}
	turn := s.turn
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		for _, g := range pinned {
			g.pinned--
		}
		s.mu.Unlock()
	}()
	slices.Sort(streams)
	i, _ := slices.BinarySearch(streams, turn+"\x00") // the one after the last served
	b := &Batch{flight: &flight{}}
	for left := max; left > 0 && len(streams) > 0; {
		i %= len(streams)
		name := streams[i]
		g := queues[name][0]
		share := cmp.Or(left/int64(len(streams)), 1)
		if b.Records != nil && left < recordHead+1 {
			break
		}
		raw, err := s.read(g, at[g], limit[g], share)
		if err != nil {
			s.giveUp(g, at[g], ahead[g], err)
			at[g] = limit[g]
		} else if int64(len(raw)) > left && b.Records != nil {
			break // the next batch's first
		} else {
			ahead[g] -= len(b.Records)
			b.add(g.n, at[g], raw)
			ahead[g] += len(b.Records)
			at[g] += int64(len(raw))
			left -= int64(len(raw))
			s.turn = name
		}
		if at[g] >= limit[g] {
			if queues[name] = queues[name][1:]; len(queues[name]) == 0 {
				streams = slices.Delete(streams, i, i+1)
				continue
			}
		}
		i++
	}
	if len(b.Records) == 0 {
		return nil, nil
	}
	return b, nil
}

// add appends a run of whole records to the batch.
func (b *Batch) add(segment uint64, from int64, raw []byte) {
	p := part{Segment: segment, From: from, To: from + int64(len(raw))}
	for len(raw) > 0 {
		_, _, data, size, _, _ := nextRecord(raw)
		b.Records = append(b.Records, data)
		b.Bytes += len(data)
		p.N++
		raw = raw[size:]
	}
	if ps := b.flight.Parts; len(ps) > 0 && ps[len(ps)-1].Segment == segment && ps[len(ps)-1].To == from {
		ps[len(ps)-1].To, ps[len(ps)-1].N = p.To, ps[len(ps)-1].N+p.N
		return
	}
	b.flight.Parts = append(b.flight.Parts, p)
}

// load reads the batch that is on record. What became unreadable of it is given
// up; nil if that is all.
func (s *Spool) load(f *flight) (*Batch, error) {
	b := &Batch{ID: f.ID, flight: &flight{ID: f.ID}}
	lost := 0
	for _, p := range f.Parts {
		s.mu.Lock()
		g := s.segment(p.Segment)
		s.mu.Unlock()
		before := len(b.Records)
		for at := p.From; at < p.To && g != nil; {
			raw, err := s.read(g, at, p.To, p.To-at)
			if err != nil {
				s.giveUp(g, at, len(b.Records)-before, err)
				break
			}
			b.add(p.Segment, at, raw)
			at += int64(len(raw))
		}
		lost += p.N - (len(b.Records) - before)
	}
	if lost == 0 {
		return b, nil
	}
	s.o.Log.Warn("spool: records of the batch under way can't be read", "batch", f.ID, "lost", lost)
	s.mu.Lock()
	s.pin(f, -1)
	s.flight = b.flight
	if len(b.Records) == 0 {
		b, s.flight = nil, nil
	}
	s.pin(s.flight, 1)
	s.mu.Unlock()
	return b, s.saveState()
}

// depart puts the batch on record, instead of one that is already.
func (s *Spool) depart(b *Batch) error {
	h := sha256.New()
	fmt.Fprintf(h, "%s", s.id)
	for _, p := range b.flight.Parts {
		fmt.Fprintf(h, " %d:%d-%d", p.Segment, p.From, p.To)
	}
	b.ID = hex.EncodeToString(h.Sum(nil)[:16])
	b.flight.ID = b.ID
	s.mu.Lock()
	before := s.flight
	s.pin(before, -1)
	s.flight = b.flight
	s.pin(s.flight, 1)
	s.mu.Unlock()
	err := s.saveState()
	if err != nil { // it did not leave
		s.mu.Lock()
		s.pin(s.flight, -1)
		s.flight = before
		s.pin(before, 1)
		s.mu.Unlock()
	}
	return err
}

// Halve makes the first half of the batch the one under way; the rest waits
// again, first in its turn. It returns nil for a batch of one record.
func (s *Spool) Halve(b *Batch) (*Batch, error) {
	s.consumer.Lock()
	defer s.consumer.Unlock()
	if len(b.Records) < 2 {
		return nil, nil
	}
	half := &Batch{flight: &flight{}}
	rest := b.Records
	for _, p := range b.flight.Parts {
		want := len(b.Records)/2 - len(half.Records)
		if want <= 0 {
			break
		}
		q := part{Segment: p.Segment, From: p.From, To: p.From}
		for q.N < min(want, p.N) {
			half.Records = append(half.Records, rest[0])
			half.Bytes += len(rest[0])
			q.To += int64(recordHead + len(rest[0]))
			q.N++
			rest = rest[1:]
		}
		half.flight.Parts = append(half.flight.Parts, q)
	}
	if err := s.depart(half); err != nil {
		return nil, fmt.Errorf("halve a batch: %w", err)
	}
	return half, nil
}

// Done says that the batch needs no delivery any more.
func (s *Spool) Done(b *Batch) error {
	s.consumer.Lock()
	defer s.consumer.Unlock()
	s.mu.Lock()
	if s.flight == nil || s.flight.ID != b.ID {
		s.mu.Unlock()
		return fmt.Errorf("batch %s is not under way", b.ID)
	}
	s.advance(s.flight)
	s.flight = nil
	s.stats.Delivered += uint64(len(b.Records))
	s.mu.Unlock()
	if err := s.saveState(); err != nil {
		// The next batch's record will tell; until then a kill repeats this one.
		return fmt.Errorf("record that batch %s is done: %w", b.ID, err)
	}
	return nil
}

// advance moves the cursors behind a batch. A batch takes from the cursor on
// and without gaps, so its parts end where the cursor belongs.
func (s *Spool) advance(f *flight) {
	s.pin(f, -1)
	for _, p := range f.Parts {
		if g := s.segment(p.Segment); g != nil && g.cursor < p.To {
			g.cursor = p.To
			g.done += p.N
			// Behind a damaged record the batch may know of sound ones.
			g.end, g.records = max(g.end, g.cursor), max(g.records, g.done)
		}
	}
}

// giveUp ends a damaged segment at an offset; ahead is how many records lie
// between its cursor and there.
func (s *Spool) giveUp(g *segment, at int64, ahead int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault("read", err)
	if g.file != nil {
		s.seal(g)
	}
	s.stats.Lost += uint64(max(g.records-g.done-ahead, 0))
	g.end, g.records = at, g.done+ahead
	g.synced = min(g.synced, at)
}

func (s *Spool) pin(f *flight, by int) {
	if f == nil {
		return
	}
	for _, p := range f.Parts {
		if g := s.segment(p.Segment); g != nil {
			g.pinned += by
		}
	}
}

func (s *Spool) segment(n uint64) *segment {
	i, ok := slices.BinarySearchFunc(s.segs, n, func(g *segment, n uint64) int { return cmp.Compare(g.n, n) })
	if !ok {
		return nil
	}
	return s.segs[i]
}
