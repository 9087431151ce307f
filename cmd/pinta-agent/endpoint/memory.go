package endpoint

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Sizes in bytes, and times.
const (
	releaseEvery = 5 * time.Second
	releaseOver  = 3 << 20
)

// KeepSmall gives memory back that a burst of work has left, once it is over:
// without it an idle process keeps the most that it ever needed, since nothing
// makes it collect. It returns when ctx ends.
func KeepSmall(ctx context.Context) {
	tick := time.NewTicker(releaseEvery)
	defer tick.Stop()
	var last, released uint64 // what was allocated by then
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := allocated()
		if now-last < releaseOver && now-released > releaseOver {
			debug.FreeOSMemory()
			now = allocated()
			released = now
		}
		last = now
	}
}

// allocated is how much was ever allocated, in bytes.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
