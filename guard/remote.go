package guard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
	"github.com/pinta-ai/pinta-agent/hook/redact"
	"github.com/pinta-ai/pinta-agent/hook/span"
)

// breaker keeps a failing remote tier from costing every call its budget. It
// never touches the local tier: an open breaker leaves the local answer.
type breaker struct {
	mu    sync.Mutex
	fails int
	until time.Time
}

const (
	breakerFails = 3
	breakerRest  = 30 * time.Second
)

func (b *breaker) open(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.until)
}

func (b *breaker) note(ok bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok {
		b.fails = 0
		return
	}
	if b.fails++; b.fails >= breakerFails {
		b.fails, b.until = 0, now.Add(breakerRest)
	}
}

func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails, b.until = 0, time.Time{}
}

const maxRemoteAnswer = 1 << 20

// ask puts the question to the remote tier within what is left of the budget.
// Only DENY and ALLOW of a good answer replace the local decision; any failure
// leaves it.
func (e *Engine) ask(ctx context.Context, st *state, span []byte, a *Answer, v *Verdict) {
	now := e.opt.Clock()
	if e.opt.HTTP == nil || span == nil || e.remote.open(now) {
		return
	}
	caller, timeout := ctx, time.Duration(st.Remote.TimeoutMs)*time.Millisecond
	deadline, _ := caller.Deadline()
	fair := deadline.Sub(now) >= timeout/2
	ctx, cancel := context.WithTimeout(caller, timeout)
	defer cancel()
	body, err := judged(span)
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, st.Remote.Endpoint, bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	client := *e.opt.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := exchange(&client, req)
	if err == nil || fair && !errors.Is(caller.Err(), context.Canceled) && !refuses(err) {
		e.remote.note(err == nil, e.opt.Clock())
	}
	if err != nil {
		e.opt.Log.Warn("the remote guard gave no answer", "cause", err.Error())
		return
	}
	v.Remote = true
	switch answer.Decision {
	case "DENY":
		// What is kept and shown of it is bounded as a policy's own texts are, and an
		// input that it quotes is masked.
		a.Decision, a.Reason, a.UserMessage = "DENY", answer.Reason, cut(redact.Text(answer.UserMessage), maxText)
		if !validID(a.Reason) {
			a.Reason = cmp.Or(v.Rule, "guard_remote")
		}
		v.Rule, v.Message = a.Reason, a.UserMessage
	case "ALLOW":
		a.Decision, a.Reason, a.UserMessage = "ALLOW", "", ""
	}
}

type remoteAnswer struct{ Decision, Reason, UserMessage string }

func exchange(client *http.Client, req *http.Request) (*remoteAnswer, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxRemoteAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errStatus(resp.StatusCode)
	}
	var fields map[string]any // keys count as they are spelled, and one of a wrong type as absent (hook.md 4.3)
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	text := func(key string) string { s, _ := fields[key].(string); return s }
	a := &remoteAnswer{text("decision"), text("reason"), text("userMessage")}
	switch a.Decision {
	case "DENY", "ALLOW", "REVIEW":
		return a, nil
	}
	return nil, errNoDecision
}

type errStatus int

func (s errStatus) Error() string { return "status " + http.StatusText(int(s)) }

// refuses says that the tier answered and it is the question that it didn't
// like. Neither that nor a caller who gives it no time, or leaves, may rest it
// for everybody.
func refuses(err error) bool {
	var status errStatus
	return errors.As(err, &status) && status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests
}

type noDecision struct{}

func (noDecision) Error() string { return "the answer holds no decision" }

var errNoDecision error = noDecision{}

// judged is the question as the hook itself would send it over TCP (hook.md 4.1):
// what redaction knows is replaced, identifiers and code stay. Only the one span
// that was judged here goes out.
func judged(body []byte) ([]byte, error) {
	if !rawjson.Depth(body, maxInputDepth) || !rawjson.Valid(body) {
		return nil, errNoSpan
	}
	s, found := &span.Span{}, false
	text := func(raw []byte) string { t, _ := rawjson.Unquote(raw); return t }
	readQuestion(body, questionReader{
		other:    func(string) {},
		more:     func() {},
		resource: func(a attribute) { s.Resource = append(s.Resource, span.Attr{Key: a.key, Value: value(a)}) },
		span:     func() { found = true },
		member: func(key string, raw []byte) {
			switch key {
			case "traceId":
				_, _ = hex.Decode(s.Trace[:], []byte(text(raw))[:min(2*len(s.Trace), len(text(raw)))])
			case "spanId":
				_, _ = hex.Decode(s.ID[:], []byte(text(raw))[:min(2*len(s.ID), len(text(raw)))])
			case "name":
				s.Name = text(raw)
			case "startTimeUnixNano":
				nano, _ := strconv.ParseInt(text(raw), 10, 64)
				s.Time = time.Unix(0, nano)
			}
		},
		attribute: func(a attribute) {
			from := strings.TrimPrefix(strings.TrimPrefix(a.key, "copilot."), "payload.")
			switch a.key {
			case "ingest.type", "copilot.hook", "copilot.surface": // the hook's own
				from = ""
			}
			s.Attrs = append(s.Attrs, span.Attr{Key: a.key, From: from, Value: value(a)})
		},
	})
	if !found {
		return nil, errNoSpan
	}
	return s.Judged().Question(MaxQuestion), nil
}

// value is an attribute's as hook/span keeps it.
func value(a attribute) span.Value {
	switch a.kind {
	case "intValue":
		return span.Value{Kind: span.Int, Text: strings.TrimSuffix(strings.TrimPrefix(string(a.value), `"`), `"`)}
	case "doubleValue":
		return span.Value{Kind: span.Double, Text: string(a.value)}
	case "boolValue":
		return span.Value{Kind: span.Bool, Text: string(a.value)}
	}
	text, _ := rawjson.Unquote(a.value)
	if k := rawjson.Kind([]byte(text[:min(len(text), 64)])); (k == '{' || k == '[') && rawjson.Valid([]byte(text)) {
		return span.Value{Kind: span.JSON, Text: text}
	}
	return span.Value{Kind: span.String, Text: text}
}
