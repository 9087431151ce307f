package main

import (
	"slices"
	"sync"
	"time"
)

// rate counts requests by the second.
type rate struct {
	mu      sync.Mutex
	started time.Time
	counts  []int
}

func newRate() *rate { return &rate{started: time.Now()} }

func (r *rate) hit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := int(time.Since(r.started) / time.Second)
	for len(r.counts) <= s {
		r.counts = append(r.counts, 0)
	}
	r.counts[s]++
}

// over returns mean and most of the last n whole seconds.
func (r *rate) over(n int) (mean, most float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	whole := int(time.Since(r.started) / time.Second)
	for len(r.counts) < whole {
		r.counts = append(r.counts, 0)
	}
	last := r.counts[max(0, whole-n):whole]
	if len(last) == 0 {
		return 0, 0
	}
	sum := 0
	for _, c := range last {
		sum += c
		most = max(most, float64(c))
	}
	return float64(sum) / float64(len(last)), most
}

// quantile of durations in seconds; they are sorted.
func quantile(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))].Seconds()
}
