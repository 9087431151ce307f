package spool

// window remembers the last keys that were taken, in a bounded amount of memory.
type window struct {
	size int
	ring []uint64
	at   int // the oldest, once the ring is full
	set  map[uint64]struct{}
}

func newWindow(size int) *window { return &window{size: size, set: map[uint64]struct{}{}} }

func (w *window) has(k uint64) bool { _, ok := w.set[k]; return ok }

func (w *window) add(k uint64) {
	if w.has(k) {
		return
	}
	w.set[k] = struct{}{}
	if len(w.ring) < w.size {
		w.ring = append(w.ring, k)
		return
	}
	delete(w.set, w.ring[w.at])
	w.ring[w.at] = k
	w.at = (w.at + 1) % w.size
}
