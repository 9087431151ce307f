package enroll

import (
	"math/rand/v2"
	"time"
)

// Backoff is exponential with full jitter, so that machines that failed
// together don't come back together. The zero value is no backoff.
type Backoff struct {
	Base, Max time.Duration
}

// Delay is how long to wait after the n-th failure in a row (from 1): anything
// between 0 and Base·2^(n-1), at most Max. A server that asked for a pause gets
// it in full, and the jitter on top of it.
func (b Backoff) Delay(n int, asked time.Duration) time.Duration {
	window := b.Base
	for ; n > 1 && window < b.Max; n-- {
		window *= 2
	}
	window = min(window, b.Max)
	if window <= 0 {
		return asked
	}
	return asked + rand.N(window)
}
