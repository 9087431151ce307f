package guard

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/guard/detect"
	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

// MaxQuestion is the largest body of a guard question, in bytes.
const MaxQuestion = 8 << 20

// Handler serves POST /guard/evaluate: the question of hook.md 4.1 in, the
// answer of 4.3 out. Who asks is known by serve.PeerFrom, never by what the span
// claims; a question over TCP is redacted. Host, Origin and token checks of a
// TCP listener stand in front of it.
func (e *Engine) Handler() http.Handler {
	go detect.Standard() // it takes a tenth of a second to make, which the first question has not
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := e.opt.Clock()
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			problem(w, http.StatusMethodNotAllowed, "method_not_allowed", "ask by POST")
			return
		}
		if r.ContentLength > MaxQuestion {
			problem(w, http.StatusRequestEntityTooLarge, "too_large", "a question has at most 8 MiB")
			return
		}
		if r.ContentLength < 0 || r.ContentLength > smallQuestion {
			give, ok := e.makeRoom(r, start)
			if !ok {
				e.unread(w, start)
				return
			}
			defer give()
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTime)) // httptest has none
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxQuestion))
		if err != nil {
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				problem(w, http.StatusRequestEntityTooLarge, "too_large", "a question has at most 8 MiB")
				return
			}
			problem(w, http.StatusBadRequest, "unreadable", "the body could not be read")
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		ev, err := EventFromSpan(body)
		switch {
		case errors.Is(err, ErrOldForm):
			problem(w, http.StatusGone, "old_form", err.Error())
			return
		case err != nil:
			problem(w, http.StatusBadRequest, "no_span", err.Error())
			return
		}
		if peer, ok := serve.PeerFrom(r.Context()); ok {
			ev.User = peer.User
			if e.opt.UserName != nil {
				ev.User = e.opt.UserName(peer)
			}
		}
		if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			ev.Redacted = strings.HasPrefix(at.Network(), "tcp")
		}
		answer, verdict := e.evaluate(r.Context(), ev, budget(r), start, body)
		reply(w, answer)
		e.record(verdict)
	})
}

func reply(w http.ResponseWriter, answer Answer) {
	text, _ := json.Marshal(answer) // strings and a finite number
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text)
	_ = http.NewResponseController(w).Flush()
}

// readTime is what the body of a question may take to arrive: the longest budget.
const readTime = maxTimeoutMs * time.Millisecond

// makeRoom waits for memory for a large body as long as an answer is of use.
func (e *Engine) makeRoom(r *http.Request, start time.Time) (give func(), ok bool) {
	n := r.ContentLength
	if n < 0 {
		n = MaxQuestion
	}
	user := ""
	if runtime.GOOS != "windows" { // which knows no caller before the body, and isn't asked again
		if peer, ok := serve.PeerFrom(r.Context()); ok {
			user = strconv.Itoa(peer.UID) + peer.User
		}
	}
	left := budget(r)
	if left == 0 {
		left = time.Duration(e.current.Load().TimeoutMs) * time.Millisecond
	}
	ctx, cancel := context.WithDeadline(r.Context(), start.Add(time.Duration(float64(left)*share)))
	defer cancel()
	return e.room.take(ctx, user, n)
}

// unread answers a question for whose body there was no room in time: that is an
// overrun, of an event of which nothing is known.
func (e *Engine) unread(w http.ResponseWriter, start time.Time) {
	st := e.current.Load()
	if st.Mode == "off" {
		reply(w, Answer{Decision: "ALLOW"})
		return
	}
	answer, verdict := e.answer(context.Background(), st, &Event{}, outcome{overrun: true}, start, nil)
	reply(w, answer)
	e.record(verdict)
}

// budget reads the hook's declared budget; 0 if there is none.
func budget(r *http.Request) time.Duration {
	ms, err := strconv.ParseFloat(r.Header.Get("X-Pinta-Guard-Budget-Ms"), 64)
	if err != nil || !(ms > 0) {
		return 0
	}
	return time.Duration(min(ms, maxTimeoutMs) * float64(time.Millisecond))
}

// problem is an RFC 9457 document.
func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "code": code, "detail": detail})
}
