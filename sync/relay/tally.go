package relay

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"sort"
	"strings"
	"sync"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// CanarySession is how the session ids of doctor's own events begin: they prove
// no enforcement and are neither counted nor a "last event".
const CanarySession = "pinta-canary"

const (
	maxCalls   = 4096 // calls remembered to pair runs and to see denied ones run
	maxUsers   = 256
	maxClients = 64
	callLife   = 15 * time.Minute
)

// Counters are the report's (manager.md 4), since New.
type Counters struct {
	Hooks       uint64 `json:"hooks"`       // runs, the two of one call counted once (installer.md 2)
	Prevented   uint64 `json:"prevented"`   // tool inputs denied
	Masked      uint64 `json:"masked"`      // tool outputs denied and shown masked
	Withheld    uint64 `json:"withheld"`    // tool outputs denied and not shown
	Stopped     uint64 `json:"stopped"`     // tool outputs denied where only the turn could be stopped
	NotEnforced uint64 `json:"notEnforced"` // denials after which the same call was seen to run
	FailOpen    uint64 `json:"failOpen"`
}

// User is what was seen of one user.
type User struct {
	Name      string    `json:"name"`
	LastEvent time.Time `json:"lastEvent"` // of a real hook run; what "enforced" rests on
	Hooks     uint64    `json:"hooks"`
}

// Client is a host version that ran a hook.
type Client struct {
	Kind     string    `json:"kind"` // copilot-cli, vscode, cloud
	Version  string    `json:"version"`
	LastSeen time.Time `json:"lastSeen"`
}

// tally counts what spans tell. Everything in it is bounded.
type tally struct {
	outputAction func(string) string

	mu        sync.Mutex
	c         Counters
	decisions map[string]uint64
	failOpen  map[string]uint64
	kinds     map[string]uint64
	users     map[string]*User
	clients   map[[2]string]time.Time
	rtt       ring
	calls     map[callKey]*list.Element
	order     *list.List // of *call, least recently touched first
}

func newTally(outputAction func(string) string) *tally {
	return &tally{
		outputAction: outputAction,
		decisions:    map[string]uint64{}, failOpen: map[string]uint64{}, kinds: map[string]uint64{},
		users: map[string]*User{}, clients: map[[2]string]time.Time{},
		calls: map[callKey]*list.Element{}, order: list.New(),
	}
}

// event is what a hook's span says.
type event struct {
	kind, surface, source, session, tool, input, output, callID string
	decision, failOpen, evaluation                              string
	hasResponse                                                 bool // tool_response: the shape of VS Code Local
	at                                                          time.Time
}

func readEvent(rs *tracepb.ResourceSpans) (e event, version string, rttMillis float64, ok bool) {
	res := attrs(rs.GetResource().GetAttributes())
	s := rs.ScopeSpans[0].Spans[0]
	a := attrs(s.GetAttributes())
	if a.text("ingest.type") != "copilot" {
		return event{}, "", 0, false
	}
	e = event{
		kind:     kindOf(a.text("copilot.hook")),
		surface:  a.text("copilot.surface"),
		source:   sourceOf(res.text("pinta.hook.source")),
		session:  a.text("copilot.session_id", "copilot.sessionId"),
		tool:     a.text("copilot.tool_name", "copilot.toolName"),
		input:    a.text("copilot.tool_input", "copilot.toolArgs", "copilot.toolInput"),
		output:   a.text("copilot.tool_result", "copilot.toolResult", "copilot.tool_response"),
		callID:   a.text("copilot.tool_use_id", "copilot.toolUseId", "copilot.tool_call_id", "copilot.toolCallId"),
		decision: a.text("pinta.guard.decision"), failOpen: a.text("pinta.guard.fail_open_reason"),
		evaluation:  a.text("pinta.guard.evaluation_id"),
		hasResponse: a["copilot.tool_response"] != nil && a["copilot.tool_result"] == nil && a["copilot.toolResult"] == nil,
		at:          time.Unix(0, int64(s.GetStartTimeUnixNano())),
	}
	if v := a["pinta.client.rtt_ms"]; v != nil {
		rttMillis = v.GetDoubleValue() + float64(v.GetIntValue())
	} else {
		rttMillis = -1
	}
	return e, res.text("service.version"), rttMillis, true
}

type attrMap map[string]*commonpb.AnyValue

func attrs(kvs []*commonpb.KeyValue) attrMap {
	m := make(attrMap, len(kvs))
	for _, kv := range kvs {
		m[kv.GetKey()] = kv.GetValue()
	}
	return m
}

// text is the first of the attributes that is a non-empty string.
func (m attrMap) text(keys ...string) string {
	for _, k := range keys {
		if s := m[k].GetStringValue(); s != "" {
			return s
		}
	}
	return ""
}

// sourceOf is a registration; anybody's own word is none, and is not kept.
func sourceOf(s string) string {
	if s != "user" && s != "machine" {
		return ""
	}
	return s
}

// kindOf is hook.md 2.2 in lower case.
func kindOf(name string) string {
	switch n := strings.ToLower(name); n {
	case "userpromptsubmitted":
		return "userpromptsubmit"
	case "agentstop":
		return "stop"
	case "sessionstart", "sessionend", "userpromptsubmit", "pretooluse", "posttooluse", "posttoolusefailure", "stop",
		"subagentstart", "subagentstop", "precompact", "notification", "permissionrequest", "erroroccurred":
		return n
	}
	return "unknown"
}

// see counts one span that was not taken before.
func (t *tally) see(user, name string, rs *tracepb.ResourceSpans, now time.Time) {
	e, version, rtt, ok := readEvent(rs)
	if !ok || strings.HasPrefix(e.session, CanarySession) {
		return
	}
	if e.at.After(now) || e.at.Unix() <= 0 {
		e.at = now
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.touchUser(user, name, e.at)
	t.touchClient(e.surface, version, now)
	if rtt >= 0 {
		t.rtt.add(time.Duration(rtt * float64(time.Millisecond)))
	}
	c := t.call(user, e, now)
	if c.isNew(e, "run") {
		t.c.Hooks++
		t.kinds[e.kind]++
		if u := t.users[user]; u != nil {
			u.Hooks++
		}
	}
	switch d := e.decision; d {
	case "allow", "review", "deny":
		if c.isNew(e, d) {
			t.decisions[d]++
			if d == "deny" {
				t.denied(e)
			}
		}
	}
	if e.failOpen != "" && c.isNew(e, "fail-open") {
		cause := e.failOpen
		if cause != "timeout" && cause != "refused" {
			cause = "error"
		}
		t.failOpen[cause]++
		t.c.FailOpen++
	}
	if c != nil && c.ran(e) {
		t.c.NotEnforced++
	}
}

func (t *tally) denied(e event) {
	switch e.kind {
	case "pretooluse", "permissionrequest":
		t.c.Prevented++
	case "posttooluse": // the forms of hook.md 5
		switch {
		case e.surface != "cloud" && (e.hasResponse || e.surface == "ext" && e.output == ""):
			t.c.Stopped++
		case t.outputAction(e.evaluation) == "mask":
			t.c.Masked++
		default:
			t.c.Withheld++
		}
	}
}

func (t *tally) touchUser(user, name string, at time.Time) {
	u := t.users[user]
	if u == nil {
		if len(t.users) >= maxUsers {
			return
		}
		u = &User{}
		t.users[user] = u
	}
	u.Name = name
	if at.After(u.LastEvent) {
		u.LastEvent = at
	}
}

func (t *tally) touchClient(surface, version string, now time.Time) {
	kind := map[string]string{"cli": "copilot-cli", "ext": "vscode", "cloud": "cloud"}[surface]
	if kind == "" || version == "" || len(version) > 64 {
		return
	}
	key := [2]string{kind, version}
	if _, ok := t.clients[key]; !ok && len(t.clients) >= maxClients {
		oldest := key
		for k, at := range t.clients {
			if o, ok := t.clients[oldest]; !ok || at.Before(o) {
				oldest = k
			}
		}
		delete(t.clients, oldest)
	}
	t.clients[key] = now
}

// ring keeps the last 1 000 durations.
type ring struct {
	mu sync.Mutex
	v  []time.Duration
	at int
}

func (r *ring) add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.v) < 1000 {
		r.v = append(r.v, d)
		return
	}
	r.v[r.at] = d
	r.at = (r.at + 1) % len(r.v)
}

// Quantiles are of the last 1 000, in milliseconds.
type Quantiles struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func (r *ring) quantiles() (q Quantiles) {
	r.mu.Lock()
	v := append([]time.Duration(nil), r.v...)
	r.mu.Unlock()
	if len(v) == 0 {
		return q
	}
	sort.Slice(v, func(i, j int) bool { return v[i] < v[j] })
	ms := func(p int) float64 { return float64(v[(len(v)-1)*p/100]) / float64(time.Millisecond) }
	return Quantiles{N: len(v), P50: ms(50), P90: ms(90), P99: ms(99), Max: ms(100)}
}

// callKey is a hash: contents stay out of memory.
type callKey [16]byte

func hashKey(parts ...string) (k callKey) {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	copy(k[:], h.Sum(nil))
	return k
}
