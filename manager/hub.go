package manager

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxHeld bounds the polls that are held at once.
	maxHeld = 50_000
	// A publication wakes the held polls by and by: each brings a report and the next poll. While wakeWindow of the woken
	// haven't come back, no more are woken, so that a fleet is told as fast as this machine can bear, and no faster; who
	// doesn't come within wakePatience isn't waited for.
	wakeWindow   = 256
	wakeStep     = 5 * time.Millisecond
	wakePatience = 2 * time.Second
)

// hub holds the signed config of each group and knows who waits for a newer one.
type hub struct {
	mu      sync.Mutex
	groups  map[string]config
	waiters map[string]*waiter // by device
	held    atomic.Int64       // polls that are held or are being answered
	crowd   int64              // held when the end began
	ends    chan struct{}
	woken   map[string]time.Time // who hasn't come back yet
}

// config is a signed config as it is served.
type config struct {
	configRecord
	packed string // its JWS by gzip
}

// waiter is one held poll. wake may be called more than once, from anywhere, and never blocks.
type waiter struct {
	group string
	wake  func()
}

func newHub() *hub {
	return &hub{woken: map[string]time.Time{}, groups: map[string]config{}, waiters: map[string]*waiter{}, ends: make(chan struct{})}
}

// config returns a group's config.
func (h *hub) config(group string) (config, bool) {
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
		h.groups[c.Group] = config{c, pack(c.JWS)}
		changed[c.Group] = true
	}
	var wake []string
	for device, w := range h.waiters { // in no order, which is what is wanted
		if changed[w.group] {
			wake = append(wake, device)
		}
	}
	if len(wake) > 0 {
		go h.wakeAll(wake)
	}
}

// wakeAll wakes devices as the window allows.
func (h *hub) wakeAll(list []string) {
	t := time.NewTicker(wakeStep)
	defer t.Stop()
	for len(list) > 0 {
		list = list[h.wakeSome(list, time.Now()):]
		select {
		case <-t.C:
		case <-h.ends: // release wakes the rest
			return
		}
	}
}

// wakeSome tells how many it woke.
func (h *hub) wakeSome(list []string, now time.Time) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for device, at := range h.woken {
		if now.Sub(at) > wakePatience {
			delete(h.woken, device)
		}
	}
	n := max(0, min(len(list), wakeWindow-len(h.woken)))
	for _, device := range list[:n] {
		if w := h.waiters[device]; w != nil {
			h.woken[device] = now
			w.wake()
		}
	}
	return n
}

// came notes that a device has called.
func (h *hub) came(device string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.woken, device)
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
