// Package spool keeps spans on disk between their acceptance and their delivery:
// append-only segments, answered after the write, synced at most SyncEvery
// later, bounded by bytes and age, fair between the streams (users) it holds.
// It knows records of bytes with a key each; what is in them, and how they
// travel, is sync/relay's business.
//
// Layout of the folder: N.seg segments, each of one stream; state, the cursors
// and the batch that may be under way; seen, the keys of delivered records; lock.
package spool

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// Options bound a Spool; zero values take the defaults named here.
type Options struct {
	MaxBytes  int64         // on disk, 256 MiB; overshot by two segments at most
	MaxAge    time.Duration // of a record since it came, 7 days
	Segment   int64         // bytes at which a segment is closed, 4 MiB
	Window    int           // keys remembered against duplicates, 65 536
	SyncEvery time.Duration // longest time between write and fsync, 200 ms
	Clock     func() time.Time
	Log       *slog.Logger

	disk  disk // the fault seam of the tests
	still bool // no keeper: a test calls sync and tidy itself
}

// Record is one span: a key that names it for good, and its bytes.
type Record struct {
	Key  uint64
	Data []byte
	// Dup is set by Append when the key was taken before: nothing was written.
	Dup bool
}

const (
	maxRecord  = 16 << 20
	maxStreams = 256
	tidyEvery  = 10 * time.Second
	// jump is more than a tidy round can take: beyond it the clock was set or
	// the machine slept, and neither makes a record older.
	jump = time.Hour
	// grace is how long nothing is dropped for its age after Open.
	grace = time.Hour
)

// Spool is safe for concurrent use; batches are for one consumer.
type Spool struct {
	o    Options
	disk disk
	id   string
	free func() // the lock

	wake  chan struct{} // something to deliver
	dirty chan struct{} // something to sync
	stop  chan struct{}
	wg    sync.WaitGroup

	consumer sync.Mutex // one batch at a time; taken before mu
	reserve  bool       // there is one (under consumer)
	syncing  sync.Mutex // one sync pass at a time; taken before mu

	mu       sync.Mutex
	closed   bool
	next     uint64 // number of the next segment
	segs     []*segment
	active   map[string]*segment
	seen     *window
	seenKeys int  // in the file of that name
	seenTorn bool // its last append failed half-way
	flight   *flight
	turn     string // the stream that was served last
	lastTidy time.Time
	recorded *flight // the batch under way by the state file
	stats    Stats
}

// Stats are counters since the folder was made (drops) or since Open (the rest).
type Stats struct {
	Records      int64     `json:"records"`         // waiting
	Bytes        int64     `json:"bytes"`           // waiting
	Disk         int64     `json:"disk"`            // bytes of all segments
	Streams      int       `json:"streams"`         // with something waiting
	Oldest       time.Time `json:"oldest,omitzero"` // arrival of the oldest segment that waits, zero if none
	Appended     uint64    `json:"appended"`
	Duplicates   uint64    `json:"duplicates"`
	Delivered    uint64    `json:"delivered"`
	DroppedBytes uint64    `json:"droppedBytes"` // records dropped to stay within MaxBytes
	DroppedAge   uint64    `json:"droppedAge"`   // records dropped as older than MaxAge
	Lost         uint64    `json:"lost"`         // records that turned out unreadable
	WriteErrors  uint64    `json:"writeErrors"`
	LastError    string    `json:"lastError,omitempty"` // of the last write or sync that failed
}

// Dropped is the sum of what was accepted and will not be delivered.
func (s Stats) Dropped() uint64 { return s.DroppedBytes + s.DroppedAge + s.Lost }

// Open makes or takes over the folder (0700), which must be this process' own,
// and reads what a killed predecessor left: each record that Append answered is
// there, a torn one is not.
func Open(dir string, o Options) (*Spool, error) {
	o.MaxBytes = cmp.Or(o.MaxBytes, 256<<20)
	o.MaxAge = cmp.Or(o.MaxAge, 7*24*time.Hour)
	o.Segment = min(cmp.Or(o.Segment, 4<<20), max(o.MaxBytes/8, 1))
	o.Window = cmp.Or(o.Window, 1<<16)
	o.SyncEvery = cmp.Or(o.SyncEvery, 200*time.Millisecond)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := safefile.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool %s: %w", dir, err)
	}
	wait := 5 * time.Second // for a predecessor that is ending
	if o.still {
		wait = 0
	}
	free, err := safefile.Lock(filepath.Join(dir, "lock"), wait)
	if err != nil {
		return nil, fmt.Errorf("spool %s: lock: %w", dir, err)
	}
	if o.disk == nil {
		o.disk = folder(dir)
	}
	s := &Spool{
		o: o, disk: o.disk, free: free,
		wake: make(chan struct{}, 1), dirty: make(chan struct{}, 1), stop: make(chan struct{}),
		active: map[string]*segment{}, seen: newWindow(o.Window), lastTidy: o.Clock(),
	}
	if err := s.recover(); err != nil {
		free()
		return nil, fmt.Errorf("spool %s: %w", dir, err)
	}
	if !o.still {
		s.wg.Go(s.keep)
	}
	return s, nil
}

// Append writes the records whose keys are new and returns when they are
// written, which survives the end of this process; they are synced within
// SyncEvery. On an error the caller may come again with the same records: those
// that reached the disk all the same count as duplicates then.
func (s *Spool) Append(stream string, recs []Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("append to spool: closed")
	}
	var buf []byte
	now := s.o.Clock()
	fresh := make(map[uint64]struct{}, len(recs))
	for i := range recs {
		r := &recs[i]
		_, r.Dup = fresh[r.Key]
		r.Dup = r.Dup || s.seen.has(r.Key)
		switch {
		case r.Dup:
			s.stats.Duplicates++
		case len(r.Data)+recordHead > maxRecord:
			return fmt.Errorf("append to spool: a record of %d bytes: the limit is %d", len(r.Data), maxRecord)
		default:
			fresh[r.Key] = struct{}{}
			buf = appendRecord(buf, *r, now)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if s.usage() > s.o.MaxBytes+s.o.Segment { // the keeper is late
		if s.bound(now); s.usage() > s.o.MaxBytes+2*s.o.Segment {
			return errors.New("append to spool: full until a segment was dropped")
		}
	}
	g, err := s.activeFor(stream, now)
	if err == nil {
		var n int
		n, err = g.file.Write(buf)
		kept, keys := wholeRecords(buf[:n])
		for _, k := range keys {
			s.seen.add(k)
		}
		g.end, g.records, g.last = g.end+int64(kept), g.records+len(keys), now
		s.stats.Appended += uint64(len(keys))
		// What follows a torn record is never read: go on in a new segment.
		if n > kept || g.end >= s.o.Segment {
			s.seal(g)
		}
	}
	poke(s.dirty)
	if err != nil {
		s.fault("append", err)
		return fmt.Errorf("append to spool: %w: free some disk space", err)
	}
	return nil
}

// activeFor returns the open segment of a stream, a new one if there is none.
func (s *Spool) activeFor(stream string, now time.Time) (*segment, error) {
	if _, ok := s.active[stream]; !ok && len(s.active) >= maxStreams {
		stream = "other"
	}
	if g, ok := s.active[stream]; ok {
		return g, nil
	}
	g := &segment{n: s.next, stream: stream, first: now, last: now}
	f, err := s.disk.Create(g.name())
	if err != nil {
		return nil, err
	}
	s.next++
	head := segmentHead(stream)
	if n, err := f.Write(head); err != nil {
		_ = f.Close()
		_ = s.disk.Remove(g.name())
		return nil, fmt.Errorf("segment head, %d of %d bytes: %w", n, len(head), err)
	}
	g.file, g.start, g.end, g.cursor = f, int64(len(head)), int64(len(head)), int64(len(head))
	s.segs = append(s.segs, g)
	s.active[stream] = g
	return g, nil
}

// seal ends a segment; the next sync pass closes its file.
func (s *Spool) seal(g *segment) {
	g.sealed = true
	if s.active[g.stream] == g {
		delete(s.active, g.stream)
	}
	poke(s.dirty)
}

// keep syncs what was written and tidies up, until Close.
func (s *Spool) keep() {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.tidy()
		case <-s.dirty:
			select {
			case <-time.After(s.o.SyncEvery / 2):
			case <-s.stop:
				return
			}
			s.sync()
			s.mu.Lock()
			over := s.usage() > s.o.MaxBytes
			s.mu.Unlock()
			if over {
				s.tidy()
			}
		}
	}
}

// sync makes everything that is written durable and thereby deliverable. It
// holds no lock that Append needs while it waits for the disk.
func (s *Spool) sync() {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	type job struct {
		g      *segment
		end    int64
		sealed bool
	}
	var jobs []job
	names := false
	s.mu.Lock()
	for _, g := range s.segs {
		if g.file != nil && (g.synced < g.end || g.sealed) {
			jobs = append(jobs, job{g, g.end, g.sealed})
			names = names || g.synced == 0
		}
	}
	s.mu.Unlock()
	if len(jobs) == 0 {
		return
	}
	if names {
		if err := s.disk.SyncDir(); err != nil {
			s.lockedFault("sync the folder", err)
			return
		}
	}
	for _, j := range jobs {
		err := j.g.file.Sync()
		s.mu.Lock()
		if err != nil {
			s.fault("sync", err)
		} else {
			j.g.synced = max(j.g.synced, j.end)
		}
		if j.sealed { // no writer has it any more
			_ = j.g.file.Close()
			j.g.file, j.g.synced = nil, j.g.end
		}
		s.mu.Unlock()
	}
	poke(s.wake)
}

// Wake delivers a value after records became deliverable.
func (s *Spool) Wake() <-chan struct{} { return s.wake }

// Stats returns what there is now.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	streams := map[string]bool{}
	for _, g := range s.segs {
		st.Disk += g.end
		if g.records == g.done {
			continue
		}
		st.Records += int64(g.records - g.done)
		st.Bytes += g.end - g.cursor
		streams[g.stream] = true
		if st.Oldest.IsZero() || g.first.Before(st.Oldest) {
			st.Oldest = g.first
		}
	}
	st.Streams = len(streams)
	return st
}

// Close syncs and ends; a batch under way is delivered again after the next Open.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for _, g := range s.active {
		s.seal(g)
	}
	s.mu.Unlock()
	close(s.stop)
	s.wg.Wait()
	s.sync()
	s.consumer.Lock()
	defer s.consumer.Unlock()
	err := s.saveState()
	s.free()
	if err != nil {
		return fmt.Errorf("close spool: %w", err)
	}
	return nil
}

func (s *Spool) usage() (n int64) {
	for _, g := range s.segs {
		n += g.end
	}
	return n
}

func (s *Spool) fault(what string, err error) {
	s.stats.WriteErrors++
	if msg := what + ": " + err.Error(); msg != s.stats.LastError {
		s.stats.LastError = msg
		s.o.Log.Warn("spool", "failed", what, "err", err)
	}
}

func (s *Spool) lockedFault(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault(what, err)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
