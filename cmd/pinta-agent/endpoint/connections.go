package endpoint

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

// How many connections there may be at once: 60 hooks of a user's agents take
// 120. Where the kernel names nobody yet (TCP, a pipe) all callers share.
const (
	userConnections    = 512
	unknownConnections = 4096
)

// connections bounds those of one user, who could fill the memory with nothing
// but opening them. The zero value is ready.
type connections struct {
	mu    sync.Mutex
	count map[string]int
	of    map[net.Conn]string
}

// note is a http.Server's ConnState: it closes what is too much.
func (l *connections) note(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if !l.open(c, caller(c)) {
			c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		l.gone(c)
	}
}

// caller is who the kernel says opened c; empty if it doesn't say.
func caller(c net.Conn) string {
	peer, ok := serve.PeerFrom(serve.ConnContext(context.Background(), c))
	if !ok {
		return ""
	}
	return strconv.Itoa(peer.UID) + peer.SID
}

func (l *connections) open(c net.Conn, user string) bool {
	most := userConnections
	if user == "" {
		most = unknownConnections
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of, l.count = map[net.Conn]string{}, map[string]int{}
	}
	if l.count[user] >= most {
		return false
	}
	l.of[c] = user
	l.count[user]++
	return true
}

func (l *connections) gone(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	user, ok := l.of[c]
	if !ok {
		return
	}
	delete(l.of, c)
	if l.count[user]--; l.count[user] == 0 {
		delete(l.count, user)
	}
}
