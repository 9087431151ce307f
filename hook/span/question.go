package span

import (
	"strconv"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// The floors that shrinking a guard question respects (hook.md 4.1), in bytes
// of a string, one after the other.
var floors = [...]int{64 << 10, 1 << 10}

// Question returns the span as JSON of at most limit bytes. One that is longer
// is shrunk inside: the longest strings of the tool's input and output first,
// then every string; each keeps its head and tail, because a command hides as
// well at the end of padding as at its beginning.
func (s *Span) Question(limit int) []byte {
	body := s.Append(nil)
	if len(body) <= limit {
		return body
	}
	for _, tool := range [...]bool{true, false} {
		for _, floor := range floors {
			if !tool && floor == floors[0] {
				continue
			}
			keep := max(floor, s.keepLength(tool, limit-len(body)))
			for {
				small := s.shrunk(tool, keep).Append(nil)
				if len(small) <= limit {
					return small
				}
				if keep == floor {
					break
				}
				keep = max(floor, keep*3/4)
			}
		}
	}
	return s.shrunk(false, floors[len(floors)-1]).fitted(limit)
}

// strings calls yield for every string that shrinking may touch, as raw JSON.
func (s *Span) strings(tool bool, yield func(quoted []byte)) {
	for i := range s.Attrs {
		a := &s.Attrs[i]
		if a.From == "" || tool && !event.IsInput(a.From) && !event.IsOutput(a.From) {
			continue
		}
		if structured(a) {
			eachString([]byte(a.Value.Text), yield)
		} else if a.Value.Kind == String {
			yield(rawjson.AppendQuote(nil, a.Value.Text))
		}
	}
}

// structured says whether the attribute is JSON text, by itself or as the
// string that older clients send for an object.
func structured(a *Attr) bool {
	return a.Value.Kind == JSON || a.Value.Kind == String && event.IsInput(a.From) &&
		rawjson.Kind([]byte(a.Value.Text)) == '{' && rawjson.Valid([]byte(a.Value.Text))
}

// keepLength estimates how many bytes each string may keep so that the body
// loses excess (negative) bytes.
func (s *Span) keepLength(tool bool, excess int) int {
	var sizes []int
	s.strings(tool, func(quoted []byte) {
		if len(quoted) > floors[len(floors)-1] {
			sizes = append(sizes, len(quoted))
		}
	})
	low, high := 0, MaxEstimate
	for low < high {
		mid := (low + high + 1) / 2
		gain := excess
		for _, n := range sizes {
			gain += max(n-mid, 0)
		}
		if gain >= 0 {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// MaxEstimate is longer than any string that is read.
const MaxEstimate = 16 << 20

// shrunk returns a copy whose strings keep at most keep bytes each.
func (s *Span) shrunk(tool bool, keep int) *Span {
	c := *s
	c.Attrs = append([]Attr(nil), s.Attrs...)
	for i := range c.Attrs {
		a := &c.Attrs[i]
		if a.From == "" || tool && !event.IsInput(a.From) && !event.IsOutput(a.From) {
			continue
		}
		switch {
		case structured(a):
			a.Value.Text = shrinkJSON([]byte(a.Value.Text), keep)
		case a.Value.Kind == String:
			a.Value.Text = headTail(a.Value.Text, keep)
		}
	}
	return &c
}

// fitted is the last resort for values of countless small parts: whole
// attributes become head and tail of their text, and should there be countless
// attributes, the last of them go.
func (s *Span) fitted(limit int) []byte {
	for keep := limit / 2; keep >= floors[len(floors)-1]; keep /= 2 {
		changed := false
		for i := range s.Attrs {
			a := &s.Attrs[i]
			if a.From != "" && len(a.Value.Text) > keep {
				a.Value, changed = Value{String, headTail(a.Value.Text, keep)}, true
			}
		}
		if !changed {
			continue
		}
		if body := s.Append(nil); len(body) <= limit {
			return body
		}
	}
	s.drop(len(s.Append(nil)) - limit)
	return s.Append(nil)
}

// headTail keeps the first and last bytes of s and says what is missing.
func headTail(s string, keep int) string {
	if len(s) <= keep {
		return s
	}
	head := cutRunes(s, keep/2)
	tail := s[len(s)-keep/2:]
	for len(tail) > 0 && tail[0]&0xc0 == 0x80 {
		tail = tail[1:]
	}
	return head + "…[CUT:" + strconv.Itoa(len(s)-len(head)-len(tail)) + "]…" + tail
}

// eachString calls yield with every string of well-formed JSON, keys too.
func eachString(data []byte, yield func(quoted []byte)) {
	for pos := rawjson.Skip(data, 0); pos < len(data); {
		kind, end := rawjson.Token(data, pos)
		if kind == '"' {
			yield(data[pos:end])
		}
		pos = rawjson.Skip(data, end)
	}
}

// shrinkJSON shortens the strings of well-formed JSON; it stays well formed.
func shrinkJSON(data []byte, keep int) string {
	out := make([]byte, 0, min(len(data), 8<<20))
	from := 0
	for pos := rawjson.Skip(data, 0); pos < len(data); {
		kind, end := rawjson.Token(data, pos)
		if kind == '"' && end-pos > keep+2 {
			if s, ok := rawjson.Unquote(data[pos:end]); ok && len(s) > keep {
				out = append(out, data[from:pos]...)
				out = rawjson.AppendQuote(out, headTail(s, keep))
				from = end
			}
		}
		pos = rawjson.Skip(data, end)
	}
	return string(append(out, data[from:]...))
}
