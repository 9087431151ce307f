package relay

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
	"github.com/pinta-ai/pinta-agent/internal/otlp"
)

const (
	maxBody      = 4 << 20  // bytes of a request, packed and unpacked; a hook's is below 1 MiB
	maxSpans     = 16 << 20 // of a request's spans, each with its resource
	inFlight     = 16 << 20 // of all requests that are being read
	userInFlight = inFlight / 2
	waitMemory   = 250 * time.Millisecond
	readTimeout  = 5 * time.Second

	typeJSON  = "application/json"
	typeProto = "application/x-protobuf"
)

// Handler takes POST /v1/traces (any path: the mux is the caller's). It answers
// after the spans are in the spool, and needs serve.ConnContext or
// serve.WithPeer to know who calls.
func (r *Relay) Handler() http.Handler { return http.HandlerFunc(r.serve) }

func (r *Relay) serve(w http.ResponseWriter, req *http.Request) {
	start := time.Now()
	r.requests.Add(1)
	typ, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	refuse := func(status int, why string) {
		r.refused.Add(1)
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		writeStatus(w, typ, status, why)
	}
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(http.StatusMethodNotAllowed, "POST only")
		return
	}
	if typ != typeJSON && typ != typeProto {
		refuse(http.StatusUnsupportedMediaType, "content type must be application/json or application/x-protobuf")
		return
	}
	release, ok := r.reserve(req)
	if !ok {
		refuse(http.StatusTooManyRequests, "too much at once")
		return
	}
	defer release()
	_ = http.NewResponseController(w).SetReadDeadline(start.Add(readTimeout))
	body, status, err := readBody(w, req)
	if err != nil {
		refuse(status, err.Error())
		return
	}
	peer, ok := serve.PeerFrom(req.Context()) // after the body: Windows knows no earlier
	if !ok {
		refuse(http.StatusForbidden, "the caller is unknown")
		return
	}
	var in *tracepb.TracesData
	if typ == typeJSON {
		in, err = decodeJSON(body)
	} else {
		in, err = decodeProto(body)
	}
	if errors.Is(err, errTooMany) {
		refuse(http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	if err != nil {
		refuse(http.StatusBadRequest, "no OTLP traces: "+err.Error())
		return
	}
	rejected, why, err := r.take(peer, in)
	if errors.Is(err, errTooLarge) {
		refuse(http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	if err != nil {
		r.o.Log.Warn("relay: spans not spooled", "err", err)
		refuse(http.StatusServiceUnavailable, "spans can't be stored now")
		return
	}
	answer := otlp.Answer{Rejected: int64(rejected), Message: why}
	w.Header().Set("Content-Type", typ)
	if typ == typeJSON {
		_, _ = w.Write(answer.JSON())
	} else {
		_, _ = w.Write(answer.Proto())
	}
	r.answers.add(time.Since(start))
}

// reserve waits a moment for room in memory for the request.
func (r *Relay) reserve(req *http.Request) (release func(), ok bool) {
	n := req.ContentLength
	if n < 0 || n > maxBody || req.Header.Get("Content-Encoding") != "" {
		n = maxBody
	}
	user := ""
	if runtime.GOOS != "windows" { // which knows no caller before the body, and isn't asked again
		if peer, ok := serve.PeerFrom(req.Context()); ok {
			user = userKey(peer)
		}
	}
	if !r.shares.take(user, n) {
		return nil, false
	}
	if !r.memory.TryAcquire(n) {
		ctx, cancel := context.WithTimeout(req.Context(), waitMemory)
		defer cancel()
		if r.memory.Acquire(ctx, n) != nil {
			r.shares.give(user, n)
			return nil, false
		}
	}
	return func() { r.memory.Release(n); r.shares.give(user, n) }, true
}

// shares keep one user, whose bodies may come slowly on purpose, from taking all
// room in memory. Who isn't known yet has it all.
type shares struct {
	mu   sync.Mutex
	used map[string]int64
}

func (s *shares) take(user string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used = map[string]int64{}
	}
	if user != "" && s.used[user]+n > userInFlight {
		return false
	}
	s.used[user] += n
	return true
}

func (s *shares) give(user string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[user] -= n; s.used[user] <= 0 {
		delete(s.used, user)
	}
}

func readBody(w http.ResponseWriter, req *http.Request) (body []byte, status int, err error) {
	var in io.Reader = http.MaxBytesReader(w, req.Body, maxBody)
	switch strings.ToLower(req.Header.Get("Content-Encoding")) {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, http.StatusBadRequest, errors.New("body is no gzip")
		}
		in = io.LimitReader(z, maxBody+1)
	default:
		return nil, http.StatusUnsupportedMediaType, errors.New("content encoding must be gzip or identity")
	}
	var buf bytes.Buffer
	if n := req.ContentLength; n > 0 && n <= maxBody {
		buf.Grow(int(n) + bytes.MinRead)
	}
	_, err = buf.ReadFrom(in)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large), buf.Len() > maxBody:
		return nil, http.StatusRequestEntityTooLarge, errors.New("body is over 4 MiB")
	case err != nil:
		return nil, http.StatusBadRequest, errors.New("body can't be read")
	}
	return buf.Bytes(), 0, nil
}

// writeStatus answers with a google.rpc.Status, as OTLP/HTTP prescribes for
// failures, in the encoding of the request.
func writeStatus(w http.ResponseWriter, typ string, status int, why string) {
	var b []byte
	if typ == typeProto {
		b = protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), why)
	} else {
		typ = typeJSON
		b, _ = json.Marshal(map[string]string{"message": why})
	}
	w.Header().Set("Content-Type", typ)
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
