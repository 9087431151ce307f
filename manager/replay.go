package manager

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

// replay remembers the jti of calls for as long as their JWTs could be good. Two sets take turns, each for one longest
// life, so that forgetting costs nothing. What was seen before a restart is forgotten with the process; calls from before
// the start are refused as clock_skew instead (deviceSurface.authenticate).
type replay struct {
	now func() time.Time

	mu         sync.Mutex
	turn       time.Time
	young, old map[[16]byte]struct{}
	limit      int
}

// replayLife is the longest time between a JWT's first use and its end: it may be made CallAhead before its iat.
const replayLife = api.CallLife + api.CallAhead

func newReplay(now func() time.Time) *replay {
	return &replay{now: now, turn: now(), young: map[[16]byte]struct{}{}, limit: 4 << 20}
}

// first tells whether this device hasn't used this jti before; busy that the memory is full, so that nobody can tell.
func (r *replay) first(device, jti string) (ok, busy bool) {
	sum := sha256.Sum256([]byte(device + "\x00" + jti))
	id := [16]byte(sum[:16])
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.now(); n.Sub(r.turn) >= replayLife || n.Before(r.turn) {
		r.old, r.young, r.turn = r.young, map[[16]byte]struct{}{}, n
	}
	if _, seen := r.young[id]; seen {
		return false, false
	}
	if _, seen := r.old[id]; seen {
		return false, false
	}
	if len(r.young) >= r.limit {
		return false, true
	}
	r.young[id] = struct{}{}
	return true, false
}
