package manager

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// bodyTime bounds how long a body may take to arrive.
const bodyTime = 30 * time.Second

// routes wires the surfaces. Each has a caller type of its own that only its authentication makes, so that no handler can be
// put on another surface (security.md S10).
func (m *Manager) routes() http.Handler {
	mux := http.NewServeMux()
	refuse := func(w http.ResponseWriter, _ *http.Request, err error) {
		api.NewProblem(api.ProblemCodeMalformed, err.Error()).Write(w)
	}
	public, enrol, device, admin := publicSurface{m}, enrolSurface{m}, deviceSurface{m}, adminSurface{m}
	api.HandlePublic(mux, api.Prefix, public, public.authenticate, refuse)
	api.HandleEnrol(mux, api.Prefix, enrol, enrol.authenticate, refuse)
	api.HandleDevice(mux, api.Prefix, device, device.authenticate, refuse)
	api.HandleAdmin(mux, api.Prefix, admin, admin.authenticate, refuse)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if p := r.URL.EscapedPath(); p != path.Clean(p) {
			api.NewProblem(api.ProblemCodeNotFound, "no such route").Write(w) // the mux would redirect
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			noRoute(mux, w, r)
			return
		}
		defer m.recoverPanic(w, r)
		mux.ServeHTTP(w, r)
	})
}

// recoverPanic answers a panic. What was sent isn't logged, nor is the panic's value, which may hold it.
func (m *Manager) recoverPanic(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	m.opt.Log.Error("a handler panicked", "method", r.Method, "path", r.Pattern, "kind", fmt.Sprintf("%T", v), "at", panicSite())
	api.NewProblem(api.ProblemCodeInternal, "").Write(w)
}

// noRoute turns the mux's own 404 and 405 into problems.
func noRoute(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	probe := &headerOnly{header: http.Header{}}
	mux.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", probe.header.Get("Allow"))
		api.NewProblem(api.ProblemCodeMethodNotAllowed, "").Write(w)
		return
	}
	api.NewProblem(api.ProblemCodeNotFound, "no such route").Write(w)
}

type headerOnly struct {
	header http.Header
	status int
}

func (h *headerOnly) Header() http.Header         { return h.header }
func (h *headerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (h *headerOnly) WriteHeader(status int)      { h.status = status }

// readBody reads the body that the operation takes, checks its type and puts it back into r for the handler.
func readBody(w http.ResponseWriter, r *http.Request, op api.Operation) ([]byte, *api.Problem) {
	if op.MaxBody == 0 {
		if r.ContentLength > 0 || r.ContentLength < 0 {
			return nil, api.NewProblem(api.ProblemCodeTooLarge, "the operation takes no body")
		}
		return nil, nil
	}
	if r.ContentLength > op.MaxBody {
		return nil, api.NewProblem(api.ProblemCodeTooLarge, fmt.Sprintf("at most %d bytes", op.MaxBody))
	}
	if mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.ContentLength != 0 && (err != nil || mt != op.ContentType) {
		return nil, api.NewProblem(api.ProblemCodeUnsupportedMediaType, "the content type has to be "+op.ContentType)
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && op.ContentType != "application/x-protobuf" {
		return nil, api.NewProblem(api.ProblemCodeUnsupportedMediaType, "no content encoding is taken here")
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTime)) // a writer without deadlines has a server that bounds reads
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, op.MaxBody))
	_ = conn.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, api.NewProblem(api.ProblemCodeTooLarge, fmt.Sprintf("at most %d bytes", op.MaxBody))
	case err != nil:
		return nil, api.NewProblem(api.ProblemCodeMalformed, "the body didn't arrive as a whole")
	case len(body) == 0:
		return nil, api.NewProblem(api.ProblemCodeEmptyBody, "")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// decode reads a JSON message. Unknown fields are ignored, as a newer peer may send them.
func decode[T any](r *http.Request) (T, *api.Problem) {
	var v T
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &v) != nil {
		return v, api.NewProblem(api.ProblemCodeMalformed, "the body isn't JSON of its kind")
	}
	return v, nil
}

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the status is out; a reader that is gone is no fault of ours
}

// document answers with a JWS.
func document(w http.ResponseWriter, status int, jws string) {
	h := w.Header()
	h.Set("Content-Type", "application/jose")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, jws)
}

// fail answers an error: a problem as it is, what isn't there as 404, all else as 500 and a line in the log. r may be nil.
func (m *Manager) fail(w http.ResponseWriter, r *http.Request, err error) {
	var p *api.Problem
	switch {
	case errors.As(err, &p):
	case errors.Is(err, store.ErrNotFound):
		p = api.NewProblem(api.ProblemCodeNotFound, "")
	case errors.Is(err, errNoRoot):
		p = api.NewProblem(api.ProblemCodeConflict, err.Error())
	case errors.Is(err, store.ErrClosed), errors.Is(err, context.Canceled):
		p = m.ending()
	case errors.Is(err, syscall.ENOSPC):
		m.opt.Log.Error("the disk of the data directory is full: nothing is lost, but nothing is written either; make room", "err", err)
		p = api.NewProblem(api.ProblemCodeUnavailable, "the Manager's disk is full").After(time.Minute)
	default:
		route := ""
		if r != nil {
			route = r.Pattern
		}
		m.opt.Log.Error("request failed", "route", route, "err", err)
		p = api.NewProblem(api.ProblemCodeInternal, "")
	}
	p.Write(w)
}

// orZero makes an absent record its zero value.
func orZero[T any](v T, err error) (T, error) {
	if errors.Is(err, store.ErrNotFound) {
		return v, nil
	}
	return v, err
}

// proxies are the reverse proxies that may name the client in X-Forwarded-For.
type proxies []netip.Prefix

func parseProxies(list []string) (proxies, error) {
	var out proxies
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("trusted proxy %q is no CIDR: write it as 10.0.0.0/8", s)
		}
		out = append(out, p)
	}
	return out, nil
}

func (p proxies) trusts(a netip.Addr) bool {
	for _, n := range p {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// client is the address that a request comes from: the nearest one that is no trusted proxy.
func (p proxies) client(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr, _ := netip.ParseAddr(host)
	addr = addr.Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && p.trusts(addr); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = hop.Unmap()
	}
	return addr
}

type randomSource struct{}

func (randomSource) Read(b []byte) (int, error) { return rand.Read(b) }

func base64url(b []byte) string {
	return base64.RawURLEncoding.EncodeToString(b)
}
