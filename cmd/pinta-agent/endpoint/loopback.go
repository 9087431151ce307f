package endpoint

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// The loopback listener is for other adapters of the protocol, which can't
// reach a socket. It exists only when configured. A browser or another user's
// program may connect to it, so a request needs a user's own token, a Host that
// means this listener (against DNS rebinding) and nothing that a browser adds
// (security.md S6).

// listenLoopback opens the listener; address must be a loopback one.
func listenLoopback(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !settings.IsLoopback(host) {
		return nil, fmt.Errorf("setting %s is %q: it must be a loopback address with a port, such as 127.0.0.1:4319", settings.KeyLoopbackListen, address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for other adapters (setting %s): %w", settings.KeyLoopbackListen, err)
	}
	return l, nil
}

// loopbackRetry is how long a listener that can't be opened waits.
const loopbackRetry = 15 * time.Second

// answerLoopback serves other adapters. Hooks are worth more: a port that is
// taken ends nothing, it is reported and tried again.
func (s *server) answerLoopback(ctx context.Context, all *errgroup.Group, h http.Handler) {
	for {
		l, err := listenLoopback(s.setup.Loopback)
		if err == nil {
			s.loopback.Store(new(string))
			s.answer(ctx, all, l, s.callers.guard(l.Addr(), h))
			return
		}
		why := err.Error()
		if before := s.loopback.Swap(&why); before == nil || *before != why {
			s.log.Error("other adapters are not answered", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(loopbackRetry):
		}
	}
}

// callers are the users who may call over TCP, by the hashes of their tokens,
// so that the time of a look-up tells nothing about a token. The zero value
// admits nobody.
type callers struct {
	byToken atomic.Pointer[map[[sha256.Size]byte]string]
}

// admit replaces who may call: users by their tokens.
func (c *callers) admit(tokens map[string]string) {
	hashed := map[[sha256.Size]byte]string{}
	for token, user := range tokens {
		hashed[sha256.Sum256([]byte(token))] = user
	}
	c.byToken.Store(&hashed)
}

func (c *callers) of(token string) (user string, ok bool) {
	if all := c.byToken.Load(); all != nil {
		user, ok = (*all)[sha256.Sum256([]byte(token))]
	}
	return user, ok
}

// browserHeaders are sent by browsers and by no adapter.
var browserHeaders = []string{"Origin", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"}

// guard lets a request to the listener at address through to next with its
// caller known, or refuses it without a word about why.
func (c *callers) guard(address net.Addr, next http.Handler) http.Handler {
	_, port, _ := net.SplitHostPort(address.String())
	hosts := []string{"localhost:" + port, "127.0.0.1:" + port, "[::1]:" + port}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range browserHeaders {
			if r.Header.Get(name) != "" {
				http.Error(w, "refused", http.StatusForbidden)
				return
			}
		}
		if !slices.Contains(hosts, strings.ToLower(r.Host)) || r.Method != http.MethodPost {
			http.Error(w, "refused", http.StatusForbidden)
			return
		}
		user, ok := c.of(r.Header.Get("X-Pinta-Relay-Token"))
		if !ok {
			http.Error(w, "refused", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(serve.WithPeer(r.Context(), serve.Peer{UID: -1, GID: -1, User: user})))
	})
}
