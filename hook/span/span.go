// Package span turns an event into one OTLP span and writes it as OTLP/HTTP
// JSON (hook.md 6), redacted and cut to size (hook.md 7). It knows no
// transport and no verdict beyond the attributes it is handed.
package span

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"time"
	"unsafe"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
	"github.com/pinta-ai/pinta-agent/internal/version"
)

// ScopeName names the instrumentation in scope and user agent. It is the
// Node adapter's, whose protocol this is.
const ScopeName = "pinta-copilot"

// Kind is how a value is written.
type Kind uint8

const (
	String Kind = iota
	Bool
	Int
	Double
	// JSON is the compact text of an object or array, sent as a string.
	JSON
)

// Value is an attribute's value: its text, or its literal as JSON spells it.
type Value struct {
	Kind Kind
	Text string
}

// Attr is one attribute.
type Attr struct {
	Key   string
	Value Value
	// From is the payload key that the attribute carries, "" for a fixed one.
	From string
	// orig is the length before truncation in bytes, 0 if nothing was cut.
	orig int
}

// IntValue makes a value of an integer.
func IntValue(n int64) Value { return Value{Int, strconv.FormatInt(n, 10)} }

// Span is one event on its way to guard and collector.
type Span struct {
	Name     string
	Trace    [16]byte
	ID       [8]byte
	Time     time.Time
	Resource []Attr
	Attrs    []Attr
	// Dropped counts attributes that no cut could make fit.
	Dropped int
}

// NewID returns eight random bytes, never all zero.
func NewID() (id [8]byte) {
	for id == [8]byte{} {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// Append appends the whole OTLP/JSON document of the one span.
func (s *Span) Append(dst []byte) []byte {
	if dst == nil {
		dst = make([]byte, 0, s.size())
	}
	dst = append(dst, `{"resourceSpans":[{"resource":{"attributes":`...)
	dst = appendAttrs(dst, s.Resource)
	dst = append(dst, `},"scopeSpans":[{"scope":{"name":"`+ScopeName+`","version":`...)
	dst = rawjson.AppendQuote(dst, version.Version)
	dst = append(dst, `},"spans":[`...)
	dst = s.appendSpan(dst)
	return append(dst, `]}]}]}`...)
}

// size estimates the length of the document.
func (s *Span) size() int {
	n := 1 << 10
	for i := range s.Attrs {
		n += len(s.Attrs[i].Key) + len(s.Attrs[i].Value.Text) + 48
	}
	return n + n/8 // escapes
}

func (s *Span) appendSpan(dst []byte) []byte {
	dst = append(dst, `{"traceId":"`...)
	dst = hex.AppendEncode(dst, s.Trace[:])
	dst = append(dst, `","spanId":"`...)
	dst = hex.AppendEncode(dst, s.ID[:])
	dst = append(dst, `","name":`...)
	dst = rawjson.AppendQuote(dst, s.Name)
	dst = append(dst, `,"kind":1,"startTimeUnixNano":"`...)
	dst = strconv.AppendUint(dst, s.nano(), 10)
	dst = append(dst, `","endTimeUnixNano":"`...)
	dst = strconv.AppendUint(dst, s.nano(), 10)
	dst = append(dst, `","attributes":`...)
	dst = appendAttrs(dst, s.Attrs)
	if s.Dropped > 0 {
		dst = append(dst, `,"droppedAttributesCount":`...)
		dst = strconv.AppendInt(dst, int64(s.Dropped), 10)
	}
	return append(dst, '}')
}

// nano is the span's time; a clock before 1970 counts as 1970.
func (s *Span) nano() uint64 { return uint64(max(s.Time.UnixNano(), 0)) }

func appendAttrs(dst []byte, attrs []Attr) []byte {
	dst = append(dst, '[')
	for i := range attrs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"key":`...)
		dst = rawjson.AppendQuote(dst, attrs[i].Key)
		dst = append(dst, `,"value":{`...)
		dst = appendValue(dst, attrs[i].Value)
		dst = append(dst, `}}`...)
	}
	return append(dst, ']')
}

func appendValue(dst []byte, v Value) []byte {
	switch v.Kind {
	case Bool:
		return append(append(dst, `"boolValue":`...), v.Text...)
	case Int:
		// 64-bit integers are decimal strings in OTLP/JSON.
		return append(append(append(dst, `"intValue":"`...), v.Text...), '"')
	case Double:
		return append(append(dst, `"doubleValue":`...), v.Text...)
	}
	return rawjson.AppendQuote(append(dst, `"stringValue":`...), v.Text)
}

// ValueOf makes a value of raw JSON; ok is false for null.
func ValueOf(raw []byte) (v Value, ok bool) {
	switch rawjson.Kind(raw) {
	case '"':
		text, ok := rawjson.Unquote(raw)
		return Value{String, text}, ok
	case 't':
		return Value{Bool, string(raw)}, true
	case '0':
		return number(string(raw)), true
	case '{', '[':
		if !rawjson.Depth(raw, MaxDepth) {
			return Value{String, string(raw)}, true
		}
		return Value{JSON, own(rawjson.AppendCompact(make([]byte, 0, len(raw)), raw))}, true
	}
	return v, false
}

// own makes a string of bytes that nobody will change: a megabyte less to copy.
func own(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// MaxDepth is how deep a value may nest to be treated as JSON; deeper ones are
// carried as raw text.
const MaxDepth = 1000

// longestDouble bounds a literal; longer ones are text, which can be cut.
const longestDouble = 400

func number(text string) Value {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c == '.' || c == 'e' || c == 'E' {
			if len(text) > longestDouble {
				return Value{String, text}
			}
			if _, err := strconv.ParseFloat(text, 64); err != nil {
				return Value{String, text} // 1e400
			}
			return Value{Double, text}
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Value{Int, strconv.FormatInt(n, 10)}
	}
	return Value{String, text}
}
