package model

import (
	"bytes"
	"io"
	"os"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// What is read of a transcript (hook.md 10). One that is no larger than head and tail together is read as a whole.
const (
	maxHead    = 256 << 10
	maxTail    = 1 << 20
	maxRecords = 4096
	maxStart   = 256 << 10 // from the end, for the last hook.start
)

// records are a transcript's complete lines.
type records struct {
	first []byte
	rest  [][]byte
	whole bool // rest is everything after first
	tail  []byte
}

// read reads a transcript that holds still meanwhile.
func read(path string) (r records, ok bool) {
	f, err := safefile.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return r, false
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return r, false
	}
	size := before.Size()
	head := make([]byte, min(size, maxHead+maxTail))
	var tail []byte
	if size > maxHead+maxTail {
		head, tail = head[:maxHead], head[maxHead:]
	}
	if _, err := io.ReadFull(f, head); err != nil {
		return r, false
	}
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return r, false
	}
	after, err := f.Stat()
	if err != nil || after.Size() != size || !after.ModTime().Equal(before.ModTime()) {
		return r, false
	}
	if at, err := os.Lstat(path); err != nil || !os.SameFile(at, before) {
		return r, false
	}
	return split(head, tail), true
}

// split cuts what was read into its complete lines: the first, and the last ones. A tail begins with part of a line.
func split(head, tail []byte) (r records) {
	end := bytes.IndexByte(head, '\n')
	if end < 0 {
		return r
	}
	r.first, r.whole, r.tail = head[:end], len(tail) == 0, tail
	head = head[end+1:]
	if r.whole {
		r.tail = head
	} else if i := bytes.IndexByte(tail, '\n'); i >= 0 {
		tail = tail[i+1:]
	} else {
		tail = nil
	}
	n := 0
	for _, part := range [...][]byte{head, tail} {
		n += bytes.Count(part, []byte{'\n'})
	}
	r.rest = make([][]byte, 0, min(n, maxRecords-1))
	skip := n - (maxRecords - 1)
	r.whole = r.whole && skip <= 0
	for _, part := range [...][]byte{head, tail} {
		for {
			end := bytes.IndexByte(part, '\n')
			if end < 0 {
				break
			}
			if skip--; skip < 0 {
				r.rest = append(r.rest, part[:end])
			}
			part = part[end+1:]
		}
	}
	return r
}

// record is one line, as far as evidence goes.
type record struct {
	kind  string
	at    time.Time
	agent []byte // raw
	data  []rawjson.Member
}

// parse reads a record of one of the given types; anything else is passed over.
func parse(line []byte, kinds ...string) (rec record, ok bool) {
	members, err := rawjson.Members(line)
	if err != nil {
		return rec, false
	}
	rec.kind, _ = rawjson.Unquote(member(members, "type"))
	for _, k := range kinds {
		ok = ok || rec.kind == k
	}
	if !ok {
		return rec, false
	}
	stamp, _ := rawjson.Unquote(member(members, "timestamp"))
	if rec.at, err = time.Parse(time.RFC3339, stamp); err != nil {
		return rec, false
	}
	rec.agent = member(members, "agentId")
	rec.data, err = rawjson.Members(member(members, "data"))
	return rec, err == nil
}

// is tells whether raw is the string s.
func is(raw []byte, s string) bool {
	got, ok := rawjson.Unquote(raw)
	return ok && got == s
}

// answer looks for the model that all evidence agrees on.
func (q *question) answer() (name, source string) {
	r, ok := read(q.path)
	if !ok {
		return "", ""
	}
	return q.judge(r)
}

func (q *question) judge(r records) (name, source string) {
	start, ok := parse(r.first, "session.start")
	if !ok || !is(member(start.data, "sessionId"), q.session) || start.at.After(q.at) {
		return "", ""
	}
	if q.startup {
		return q.selected(r, start)
	}
	if q.call == "" {
		if q.call = q.lastStart(r.tail); q.call == "" {
			return "", ""
		}
	}
	return q.called(r, start)
}

// counts tells whether a row is this agent's and turn's, and of the right time.
func (q *question) counts(row, start record) bool {
	if row.at.Before(start.at) || row.at.After(q.at) {
		return false
	}
	if q.agent != "" {
		if !is(row.agent, q.agent) {
			return false
		}
	} else if given(row.agent) || given(member(row.data, "parentToolCallId")) {
		return false
	}
	return q.turn == "" || is(member(row.data, "turnId"), q.turn)
}

// selected is a fresh session's choice: the one it started with, or the last change of it.
func (q *question) selected(r records, start record) (name, source string) {
	if !r.whole || !q.counts(start, start) {
		return "", ""
	}
	name = usable(member(start.data, "selectedModel"))
	for _, line := range r.rest {
		if !mayHold(line, "session.model_change") {
			continue
		}
		if row, ok := parse(line, "session.model_change"); ok && q.counts(row, start) {
			name = usable(member(row.data, "newModel"))
		}
	}
	return name, "transcript.session.selected"
}

// The rows that can prove a tool call's model, the most telling first.
var proofs = [...]string{"assistant.message", "tool.execution_start", "tool.execution_complete"}

// called is the model that every row about the call names.
func (q *question) called(r records, start record) (name, source string) {
	best := len(proofs)
	for _, line := range r.rest {
		if !mayHold(line, q.call) {
			continue
		}
		row, ok := parse(line, proofs[:]...)
		if !ok || !q.counts(row, start) || !q.about(row) {
			continue
		}
		m := usable(member(row.data, "model"))
		if m == "" || name != "" && m != name {
			return "", ""
		}
		name = m
		for i, kind := range proofs[:best] {
			if kind == row.kind {
				best = i
			}
		}
	}
	if name == "" {
		return "", ""
	}
	return name, "transcript." + proofs[best]
}

// about tells whether a row is about the question's call.
func (q *question) about(row record) bool {
	if row.kind != proofs[0] {
		return is(member(row.data, "toolCallId"), q.call)
	}
	requests, _ := rawjson.Elements(member(row.data, "toolRequests"))
	for _, request := range requests {
		if members, err := rawjson.Members(request); err == nil && is(member(members, "toolCallId"), q.call) {
			return true
		}
	}
	return false
}

// mayHold is a quick look before a line is parsed: text that is in it, or might be in it in escapes.
func mayHold(line []byte, text string) bool {
	return bytes.Contains(line, []byte(text)) || bytes.Contains(line, []byte(`\u`))
}

// lastStart finds the call id that the event's payload lacks: in the session's last hook.start record, if exactly one of
// its calls has the same tool and arguments.
func (q *question) lastStart(tail []byte) string {
	tail = tail[max(len(tail)-maxStart, 0):]
	for end := bytes.LastIndexByte(tail, '\n'); end >= 0; {
		from := bytes.LastIndexByte(tail[:end], '\n')
		if line := tail[from+1 : end]; mayHold(line, "hook.start") {
			if row, ok := parse(line, "hook.start"); ok {
				input, _ := rawjson.Members(member(row.data, "input"))
				if is(member(input, "sessionId"), q.session) {
					return q.fitting(member(input, "toolCalls"))
				}
			}
		}
		end = from
	}
	return ""
}

// fitting returns the id of the one call with the event's tool and arguments.
func (q *question) fitting(calls []byte) (call string) {
	elements, _ := rawjson.Elements(calls)
	for _, element := range elements {
		members, err := rawjson.Members(element)
		if err != nil {
			continue
		}
		name, _ := rawjson.Unquote(member(members, "name"))
		if !sameTool(name, q.tool) || !sameArgs(member(members, "args"), q.args) {
			continue
		}
		id, ok := rawjson.Unquote(member(members, "id"))
		if !ok || !isID(id) || call != "" {
			return ""
		}
		call = id
	}
	return call
}
