package guard

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
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
		text, _ := json.Marshal(answer) // strings and a finite number
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text)
		_ = http.NewResponseController(w).Flush()
		e.record(verdict)
	})
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
