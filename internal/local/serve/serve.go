// Package serve is the service's end of the local socket or pipe: it listens
// where only the service can, and says who called as the kernel knows it.
// It neither speaks HTTP nor dials; the hook's end is internal/local, which
// must not link what is imported here.
package serve

import (
	"context"
	"errors"
	"net"
	"sync"
)

// ErrInUse says that another live process listens at the address.
var ErrInUse = errors.New("another process is listening there: stop it, or choose another address")

// Options are how an endpoint is made.
type Options struct {
	// Everyone lets each local user connect (the system service). Without it
	// only the user who runs this process can.
	Everyone bool
	// Owner and Group are given to the socket's folder when this process may do
	// so, that is when root listens for an unprivileged child; 0 leaves both
	// alone. Unix only.
	Owner, Group int
}

// Peer is the process at the other end, from the kernel and never from what it
// sent. UID and GID are -1 on Windows; SID and User are set there only, since
// on Unix the name of a user is the business of who knows the account database
// (or the folders below --root).
type Peer struct {
	UID, GID, PID int
	SID, User     string
}

// Listen opens the endpoint: on Unix a socket path of any length, on Windows a
// pipe name such as `\\.\pipe\pinta-agent`. The listener of a dead process is
// replaced, that of a live one is ErrInUse. Closing it removes the socket.
func Listen(address string, o Options) (net.Listener, error) { return listen(address, o) }

type peerKey struct{}

// lazyPeer asks once, and not before somebody wants to know: Windows can tell
// only after the first bytes were read.
type lazyPeer struct {
	once sync.Once
	conn net.Conn
	peer Peer
	err  error
}

// ConnContext is for http.Server.ConnContext: PeerFrom then works on the
// context of every request of the connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, &lazyPeer{conn: c})
}

// WithPeer puts a caller into the context who was told by other means, as the
// token of the loopback listener is, or the account a worker runs as.
func WithPeer(ctx context.Context, p Peer) context.Context {
	l := &lazyPeer{peer: p}
	l.once.Do(func() {})
	return context.WithValue(ctx, peerKey{}, l)
}

// PeerFrom returns who is at the other end; false if the connection can't tell.
func PeerFrom(ctx context.Context) (Peer, bool) {
	l, ok := ctx.Value(peerKey{}).(*lazyPeer)
	if !ok {
		return Peer{}, false
	}
	l.once.Do(func() { l.peer, l.err = peerOf(l.conn) })
	return l.peer, l.err == nil
}
