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
	// that follow, don't come all at once. wakeMost bounds the time that the last one waits.
	wakeRate = 2_500
	wakeMost = 4 * time.Second
)

// hub holds the signed config of each group and those who wait for a newer one. A waiter costs its connection and one
// entry in a map, nothing else.
type hub struct {
	mu      sync.Mutex
	groups  map[string]*groupConfig
	waiters map[string]chan struct{} // by device, to poke one alone
	held    atomic.Int64
	ends    chan struct{}
	once    sync.Once
}

type groupConfig struct {
	configRecord
	replaced chan struct{} // closed when a newer one is there
}

func newHub() *hub {
	return &hub{groups: map[string]*groupConfig{}, waiters: map[string]chan struct{}{}, ends: make(chan struct{})}
}

// config returns a group's config and the channel that is closed when it is replaced; nil if the group has none.
func (h *hub) config(group string) *groupConfig {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.groups[group]
}

// load replaces the configs that differ and wakes who waits for them.
func (h *hub) load(list []configRecord) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range list {
		old := h.groups[c.Group]
		if old != nil && old.ETag == c.ETag && old.Override == c.Override {
			continue
		}
		h.groups[c.Group] = &groupConfig{c, make(chan struct{})}
		if old != nil {
			close(old.replaced)
		}
	}
}

// wait returns when the config is replaced, the device is poked, the time is up, the request is gone or the Manager ends,
// which it tells. A second poll of one device ends the first.
func (h *hub) wait(device string, c *groupConfig, d time.Duration, gone <-chan struct{}) (ending bool) {
	poke := make(chan struct{})
	h.mu.Lock()
	if old := h.waiters[device]; old != nil {
		close(old)
	}
	h.waiters[device] = poke
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.waiters[device] == poke {
			delete(h.waiters, device)
		}
	}()
	held := h.held.Add(1)
	defer h.held.Add(-1)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.replaced:
		most := min(wakeMost, time.Duration(held)*time.Second/wakeRate)
		t.Reset(time.Duration(rand.Int64N(int64(most) + 1)))
		select {
		case <-t.C:
		case <-gone:
		case <-h.ends:
			return true
		}
	case <-poke:
	case <-t.C:
	case <-gone:
	case <-h.ends:
		return true
	}
	return false
}

// poke ends the held poll of a device, which then sees what is new about itself.
func (h *hub) poke(device string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.waiters[device]; c != nil {
		close(c)
		delete(h.waiters, device)
	}
}

// release ends all held polls and refuses new ones.
func (h *hub) release() { h.once.Do(func() { close(h.ends) }) }

func (h *hub) released() bool {
	select {
	case <-h.ends:
		return true
	default:
		return false
	}
}
