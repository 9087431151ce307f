package span

import (
	"strconv"
	"unicode/utf8"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

const (
	// MaxString, MaxSpan and MaxPost are the limits of hook.md 7 in bytes: of a
	// string, of the span as JSON, of a request's body.
	MaxString = 102_400
	MaxSpan   = 819_200
	MaxPost   = 921_600
	// minString is what shrinking leaves of every string.
	minString = 1024
)

// Fit cuts every string at MaxString and the span at MaxSpan: the longest
// strings shrink first, to one common length of at least minString. Should
// that not do, payload attributes go, the last first, and are counted.
func (s *Span) Fit() {
	s.cutAll(MaxString)
	if len(s.appendSpan(nil)) <= MaxSpan {
		return
	}
	for limit := s.level(); ; limit = limit * 9 / 10 {
		limit = max(limit, minString)
		s.cutAll(limit)
		if len(s.appendSpan(nil)) <= MaxSpan {
			return
		}
		if limit == minString {
			break
		}
	}
	s.drop(len(s.appendSpan(nil)) - MaxSpan)
}

// drop removes payload attributes, the last first and a tool's last of all,
// until the span is excess bytes shorter, and counts them.
func (s *Span) drop(excess int) {
	const count = 40 // what the count itself takes
	excess += count
	gone := make([]bool, len(s.Attrs))
	var buf []byte
	for _, tool := range [...]bool{false, true} {
		for i := len(s.Attrs) - 1; i >= 0 && excess > 0; i-- {
			if a := &s.Attrs[i]; a.From == "" || event.IsTool(a.From) != tool {
				continue
			}
			buf = appendAttrs(buf[:0], s.Attrs[i:i+1])
			excess -= len(buf) - 1
			gone[i] = true
			s.Dropped++
		}
	}
	kept := s.Attrs[:0:0]
	for i, a := range s.Attrs {
		if !gone[i] {
			kept = append(kept, a)
		}
	}
	s.Attrs = kept
}

// level estimates the common length at which the span fits, from how much
// longer each string is as JSON.
func (s *Span) level() int {
	type text struct{ size, quoted int }
	var texts []text
	rest := MaxSpan - len(s.appendSpan(nil))
	for i := range s.Attrs {
		for _, t := range [...]string{s.Attrs[i].Key, s.Attrs[i].Value.Text} {
			if len(t) > minString {
				n := len(rawjson.AppendQuote(nil, t))
				texts = append(texts, text{len(t), n})
				rest += n
			}
		}
	}
	low, high := minString, MaxString
	for low < high {
		mid := (low + high + 1) / 2
		sum := 0
		for _, t := range texts {
			if t.size > mid {
				sum += mid*t.quoted/t.size + 40 // the marker
			} else {
				sum += t.quoted
			}
		}
		if sum <= rest {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

func (s *Span) cutAll(limit int) {
	renamed := false
	for i := range s.Attrs {
		a := &s.Attrs[i]
		if len(a.Key) > limit {
			a.Key, renamed = cutRunes(a.Key, limit), true
		}
		if len(a.Value.Text)-len(mark(a.orig)) <= limit {
			continue
		}
		if a.orig == 0 {
			a.orig = len(a.Value.Text)
		}
		a.Value.Text = cutRunes(a.Value.Text, limit) + mark(a.orig)
	}
	if renamed {
		s.distinct()
	}
}

// mark says what a cut string measured; nothing was cut from 0.
func mark(orig int) string {
	if orig == 0 {
		return ""
	}
	return "…[TRUNCATED:" + strconv.Itoa(orig) + "]"
}

// cutRunes returns the first n bytes of s, less those of a rune cut in two.
func cutRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := 0; i < utf8.UTFMax && n > 0 && !utf8.RuneStart(s[n]); i++ {
		n--
	}
	return s[:n]
}
