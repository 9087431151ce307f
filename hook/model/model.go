// Package model says which model an event belongs to (hook.md 10): the one that the event names, else the one that the
// session's own transcript proves. It never guesses: evidence that is incomplete, contradictory or unreadable is none, and
// nothing here reports an error.
package model

import (
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// Model is what is known about an event's model. The zero Model means that nothing is.
type Model struct {
	Name      string
	Source    string // the host's own, hook.model or transcript.…
	Displaced string // the host's source, if it came without a usable model and Source replaces it
}

// maxName is the longest model name in characters.
const maxName = 512

// Lookup attributes a model to the event. home is the Copilot home; now is the clock that the event's time must not be ahead of.
func Lookup(e *event.Event, surface event.Surface, home string, now time.Time) Model {
	host, _ := e.String("model_source")
	if strings.TrimSpace(host) == "" {
		host = ""
	}
	if name := usable(e.Raw("model")); name != "" {
		if host == "" {
			host = "hook.model"
		}
		return Model{Name: name, Source: host}
	}
	q, ok := ask(e, surface, home, now)
	if !ok {
		return Model{}
	}
	name, source := q.answer()
	if name == "" {
		return Model{}
	}
	return Model{Name: name, Source: source, Displaced: host}
}

// usable returns the model's name in a JSON value, "" if it names none.
func usable(raw []byte) string {
	if rawjson.Kind(raw) == '{' {
		members, err := rawjson.Members(raw)
		if err != nil {
			return ""
		}
		if raw = member(members, "id"); rawjson.Kind(raw) != '"' {
			raw = member(members, "name")
		}
	}
	name, ok := rawjson.Unquote(raw)
	if !ok {
		return ""
	}
	name = strings.TrimSpace(name)
	if name == "" || name[0] == '{' || name[0] == '[' || len(name) > 4*maxName || utf8.RuneCountInString(name) > maxName ||
		strings.ContainsFunc(name, unicode.IsControl) {
		return ""
	}
	switch strings.ToLower(name) {
	case "unknown", "undefined", "null", "n/a", "none", "auto", "default":
		return ""
	}
	return name
}

// question is an event that is eligible for evidence, with all that a row of the transcript must agree with.
type question struct {
	path        string
	session     string
	turn, agent string // "" if the event gives none
	at          time.Time
	startup     bool
	call        string // the tool call's id; "" for a startup, or if hook.start has to tell it
	tool        string // for that look-up
	args        []byte
}

// ask tells whether and what the transcript is to be asked.
func ask(e *event.Event, surface event.Surface, home string, now time.Time) (q question, ok bool) {
	switch e.Kind {
	case event.PreToolUse, event.PostToolUse, event.PostToolUseFailure, event.PermissionRequest:
	case event.SessionStart:
		source, _ := e.String("source")
		if source != "startup" && source != "new" {
			return q, false
		}
		q.startup = true
	default:
		return q, false
	}
	named := false
	for _, f := range [...]struct {
		to   *string
		keys []string
	}{
		{&q.session, []string{"session_id", "sessionId"}},
		{&q.turn, []string{"turn_id", "turnId"}},
		{&q.agent, []string{"agent_id", "agentId"}},
		{&q.call, []string{"tool_use_id", "toolUseId", "tool_call_id", "toolCallId"}},
	} {
		if *f.to, ok = id(e, f.keys); !ok {
			return q, false
		}
	}
	for _, key := range [...]string{"agent_name", "agentName"} {
		named = named || given(e.Raw(key))
	}
	if q.session == "" || named && q.agent == "" {
		return q, false
	}
	if q.at, ok = timeOf(e.Raw("timestamp")); !ok || q.at.After(now) {
		return q, false
	}
	if q.startup {
		q.call = ""
	} else if q.call == "" {
		if surface != event.CLI {
			return q, false
		}
		q.tool, q.args = e.Tool(), input(e)
		if q.tool == "" || q.args == nil {
			return q, false
		}
	}
	q.path, ok = transcript(e, surface, home, q.session)
	return q, ok
}

// given tells whether a key is there with anything but null.
func given(raw []byte) bool { return raw != nil && rawjson.Kind(raw) != 'n' }

// id reads an id that may be spelled in several keys: "" if none is given, not ok if one is unusable or two disagree.
func id(e *event.Event, keys []string) (id string, ok bool) {
	for _, key := range keys {
		raw := e.Raw(key)
		if !given(raw) {
			continue
		}
		s, ok := rawjson.Unquote(raw)
		if !ok || !isID(s) || id != "" && s != id {
			return "", false
		}
		id = s
	}
	return id, true
}

// isID accepts up to 256 letters, digits and _ . : - that begin with a letter or digit.
func isID(s string) bool {
	if s == "" || len(s) > 256 {
		return false
	}
	for i, c := range []byte(s) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '_' && c != '.' && c != ':' && c != '-') {
			return false
		}
	}
	return true
}

// transcript finds the session's file: what the event names, else the CLI's own.
func transcript(e *event.Event, surface event.Surface, home, session string) (path string, ok bool) {
	for _, key := range [...]string{"transcript_path", "transcriptPath"} {
		raw := e.Raw(key)
		if !given(raw) {
			continue
		}
		s, ok := rawjson.Unquote(raw)
		if !ok || path != "" && s != "" && s != path {
			return "", false
		}
		if s != "" {
			path = s
		}
	}
	if path != "" {
		return path, filepath.IsAbs(path) && strings.HasSuffix(path, ".jsonl") && !strings.ContainsRune(path, 0)
	}
	if surface != event.CLI || home == "" || !pathSafe(session) {
		return "", false
	}
	return filepath.Join(home, "session-state", session, "events.jsonl"), true
}

// pathSafe tells whether a session id may be part of a path (hook.md 8).
func pathSafe(session string) bool {
	return len(session) <= 128 && !strings.ContainsAny(session, ".:")
}

// timeOf reads an event's time: ISO 8601 text, or milliseconds as a number or text.
func timeOf(raw []byte) (t time.Time, ok bool) {
	text := string(raw)
	if rawjson.Kind(raw) == '"' {
		if text, ok = rawjson.Unquote(raw); !ok {
			return t, false
		}
		text = strings.TrimSpace(text)
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t, true
		}
	}
	return milliseconds(text)
}

// milliseconds reads digits with or without a fraction, which is dropped.
func milliseconds(text string) (t time.Time, ok bool) {
	whole, _, _ := strings.Cut(text, ".")
	if len(whole) == 0 || len(whole) > 15 {
		return t, false
	}
	var ms int64
	for _, c := range []byte(whole) {
		if c < '0' || c > '9' {
			return t, false
		}
		ms = ms*10 + int64(c-'0')
	}
	return time.UnixMilli(ms), true
}

// input is the tool's input: an object, or the JSON text of one.
func input(e *event.Event) []byte {
	for i := range e.Members {
		if event.IsInput(e.Members[i].Key) && given(e.Members[i].Value) {
			return e.Members[i].Value
		}
	}
	return nil
}

func member(members []rawjson.Member, key string) (value []byte) {
	for i := range members {
		if members[i].Key == key {
			value = members[i].Value
		}
	}
	return value
}
