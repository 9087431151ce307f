package manager

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxHeld bounds the polls that are held at once.
	maxHeld = 50_000
	// wakeRate is how many held polls are answered in a second after a publication, so that the answers, and the reports
	// that follow, don't come all at once.
	wakeRate = 3_000
	wakeStep = 20 * time.Millisecond
)

// hub holds the signed config of each group and knows who waits for a newer one.
type hub struct {
	mu      sync.Mutex
	groups  map[string]configRecord
	waiters map[string]*waiter // by device
	held    atomic.Int64       // polls that are held or are being answered
	crowd   int64              // held when the end began
	ends    chan struct{}
}

// waiter is one held poll. wake may be called more than once, from anywhere, and never blocks.
type waiter struct {
	group string
	wake  func()
}

func newHub() *hub {
	return &hub{groups: map[string]configRecord{}, waiters: map[string]*waiter{}, ends: make(chan struct{})}
}

// config returns a group's config.
func (h *hub) config(group string) (configRecord, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.groups[group]
	return c, ok
}

// load replaces the configs that differ and wakes who waits for them, by and by.
func (h *hub) load(list []configRecord) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := map[string]bool{}
	for _, c := range list {
		if old, ok := h.groups[c.Group]; ok && old.ETag == c.ETag && old.Override == c.Override {
			continue
		}
		h.groups[c.Group] = c
		changed[c.Group] = true
	}
	var wake []*waiter
	for _, w := range h.waiters { // in no order, which is what is wanted
		if changed[w.group] {
			wake = append(wake, w)
		}
	}
	if len(wake) > 0 {
		go h.wakeAll(wake)
	}
}

func (h *hub) wakeAll(list []*waiter) {
	const step = int(wakeRate * wakeStep / time.Second)
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	t := time.NewTicker(wakeStep)
	defer t.Stop()
	for len(list) > 0 {
		n := min(step, len(list))
		for _, w := range list[:n] {
			w.wake()
		}
		if list = list[n:]; len(list) == 0 {
			return
		}
		select {
		case <-t.C:
		case <-h.ends: // release wakes the rest
			return
		}
	}
}

// add registers a waiter. It is woken at once if the config is no longer the one that it waits to see replaced, or if the
// Manager ends. A second poll of one device ends the first.
func (h *hub) add(device, etag string, w *waiter) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.waiters[device]; old != nil {
		old.wake()
	}
	h.waiters[device] = w
	if h.groups[w.group].ETag != etag || h.released() {
		w.wake()
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.waiters[device] == w {
			delete(h.waiters, device)
		}
	}
}

// poke ends the held poll of a device, which then sees what is new about itself.
func (h *hub) poke(device string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.waiters[device]; w != nil {
		w.wake()
	}
}

// release ends all held polls and refuses new ones.
func (h *hub) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released() {
		return
	}
	h.crowd = h.held.Load()
	close(h.ends)
	for _, w := range h.waiters {
		w.wake()
	}
}

func (h *hub) released() bool {
	select {
	case <-h.ends:
		return true
	default:
		return false
	}
}
