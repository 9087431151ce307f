package guard

import (
	"hash/maphash"
	"sync"
	"time"
)

// twins pairs the two runs that one call has when a user and a machine
// registration both ask (hook.md 12): they are judged alike and counted once.
// Two equal calls of one source are two calls.
type twins struct {
	mu   sync.Mutex
	seed maphash.Seed
	open map[uint64][]twin
}

type twin struct {
	source string
	at     time.Time
}

const (
	twinWindow = 15 * time.Second // the host's limit for one hook
	maxTwins   = 4096
)

// seen records a run and says whether it is the other half of an earlier one.
func (t *twins) seen(ev *Event, now time.Time) bool {
	if ev.Source != "user" && ev.Source != "machine" {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open, t.seed = map[uint64][]twin{}, maphash.MakeSeed()
	}
	if len(t.open) >= maxTwins {
		for k, list := range t.open {
			if now.Sub(list[len(list)-1].at) > twinWindow {
				delete(t.open, k)
			}
		}
		if len(t.open) >= maxTwins {
			clear(t.open)
		}
	}
	var h maphash.Hash
	h.SetSeed(t.seed)
	for _, s := range []string{ev.Session, ev.Kind, ev.HostTool, ev.Text, ev.Output} {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	key := h.Sum64()
	list := t.open[key]
	for i, other := range list {
		if other.source != ev.Source && now.Sub(other.at) <= twinWindow {
			if list = append(list[:i], list[i+1:]...); len(list) == 0 {
				delete(t.open, key)
			} else {
				t.open[key] = list
			}
			return true
		}
	}
	if len(list) >= 16 {
		list = list[1:]
	}
	t.open[key] = append(list, twin{ev.Source, now})
	return false
}
