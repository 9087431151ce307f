package guard

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// A question may be 8 MiB, and its bytes may come slowly on purpose: a user could
// have the process ended for everybody. So large ones share a room in memory, of
// which no user gets all; only callers by TCP, not known before the body, may.
// Small ones need no room: their number is bounded by that of connections.
const (
	smallQuestion = 64 << 10
	roomBytes     = 32 << 20
	userRoomBytes = roomBytes / 2
)

// room is the memory for the bodies of questions that are being read or judged.
type room struct {
	all *semaphore.Weighted

	mu    sync.Mutex
	users map[string]*userRoom
}

type userRoom struct {
	*semaphore.Weighted
	holders int // requests that have room in it or wait for some
}

func newRoom() *room {
	return &room{all: semaphore.NewWeighted(roomBytes), users: map[string]*userRoom{}}
}

// take waits for room for a body of n bytes; false means that there was none
// until ctx ended.
func (r *room) take(ctx context.Context, user string, n int64) (give func(), ok bool) {
	r.mu.Lock()
	mine := r.users[user]
	if mine == nil {
		mine = &userRoom{Weighted: semaphore.NewWeighted(userRoomBytes)}
		if user == "" {
			mine.Weighted = semaphore.NewWeighted(roomBytes)
		}
		r.users[user] = mine
	}
	mine.holders++
	r.mu.Unlock()
	leave := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if mine.holders--; mine.holders == 0 {
			delete(r.users, user)
		}
	}
	if mine.Acquire(ctx, n) != nil {
		leave()
		return nil, false
	}
	if r.all.Acquire(ctx, n) != nil {
		mine.Release(n)
		leave()
		return nil, false
	}
	return func() { r.all.Release(n); mine.Release(n); leave() }, true
}
