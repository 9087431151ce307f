// Package trace gives each turn of a session one trace id and remembers it between hook runs (hook.md 8). It knows
// nothing of spans; a store that can't be read or written costs the memory, never the id.
package trace

import (
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

const (
	maxSessions = 200
	maxSession  = 1 << 10 // bytes of a session id that is remembered; longer ones get fresh ids
	maxStore    = 2 << 20 // bytes of a store that is read: maxSessions ids, each byte of them escaped
	lockWait    = 80 * time.Millisecond
)

// turn is a session's current trace, as the store holds it.
type turn struct {
	session string
	id      ulid
}

// ID returns the trace id of a session's turn: a new one if newTurn, else the one in the store in dir, else a new one.
// The id is always good; err tells that it could not be remembered.
func ID(dir, session string, newTurn bool, now time.Time) (id [16]byte, err error) {
	if session == "" || len(session) > maxSession || dir == "" {
		return fresh(now), nil
	}
	file := filepath.Join(dir, "trace.json")
	var found *turn
	if !newTurn {
		// A replaced store is never seen half-written, so the common case, one session at work, needs no lock.
		turns := load(file)
		if i := find(turns, session); i >= 0 {
			if i == len(turns)-1 {
				return turns[i].id, nil
			}
			found = &turns[i]
		}
	}
	id = fresh(now)
	if found != nil {
		id = found.id
	}
	if err := safefile.MkdirAll(dir, 0o700); err != nil {
		return id, err
	}
	unlock, err := safefile.Lock(filepath.Join(dir, "trace.lock"), lockWait)
	if err != nil {
		return id, err
	}
	err = remember(file, session, &id, newTurn)
	unlock()
	if newTurn {
		safefile.CleanTemps(file) // seldom enough, and outside the lock
	}
	return id, err
}

// remember makes session the most recently used one, with id, or with the id that it has meanwhile got.
func remember(file, session string, id *[16]byte, newTurn bool) error {
	turns := load(file)
	if i := find(turns, session); i >= 0 {
		if !newTurn {
			*id = turns[i].id
		}
		turns = append(turns[:i], turns[i+1:]...)
	}
	turns = append(turns, turn{session, *id})
	turns = turns[max(len(turns)-maxSessions, 0):]
	// Losing the store in a power cut costs a split trace: not worth an fsync in every run.
	return safefile.WriteFile(file, store(turns), safefile.Attr{Perm: 0o600, UID: -1, GID: -1, Volatile: true})
}

// load reads the store, least recently used first. What is damaged is not there.
func load(file string) []turn {
	data, err := safefile.ReadFile(file, maxStore)
	if err != nil {
		return nil
	}
	return parse(data)
}

func parse(data []byte) []turn {
	members, err := rawjson.Members(data)
	if err != nil {
		return nil
	}
	turns := make([]turn, 0, len(members)+1)
	for _, m := range members[max(len(members)-maxSessions, 0):] {
		s, ok := rawjson.Unquote(m.Value)
		if !ok || m.Key == "" {
			continue
		}
		id, ok := parseULID(s)
		if !ok || id == (ulid{}) { // OTLP has no all-zero trace id
			continue
		}
		if i := find(turns, m.Key); i >= 0 {
			turns = append(turns[:i], turns[i+1:]...)
		}
		turns = append(turns, turn{m.Key, id})
	}
	return turns
}

func store(turns []turn) []byte {
	out := append(make([]byte, 0, 80*len(turns)+3), '{')
	for i, t := range turns {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(rawjson.AppendQuote(out, t.session), ':')
		out = rawjson.AppendQuote(out, t.id.String())
	}
	return append(out, '}', '\n')
}

func find(turns []turn, session string) int {
	for i := range turns {
		if turns[i].session == session {
			return i
		}
	}
	return -1
}

// fresh makes a ULID: 48 bits of the clock, held to what they can say, and 80 random bits.
func fresh(now time.Time) ulid {
	var id ulid
	ms := uint64(min(max(now.UnixMilli(), 0), 1<<48-1))
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	a, b := rand.Uint64(), rand.Uint64()
	for i := range 8 {
		id[6+i] = byte(a >> (8 * i))
	}
	id[14], id[15] = byte(b), byte(b>>8)
	return id
}
