package redact

import (
	"strings"
	"unicode/utf8"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// edit replaces bytes [start, end) of a text. Lists of edits are sorted and don't overlap; everything between them keeps its
// bytes, at every level of JSON within JSON.
type edit struct {
	start, end int
	text       string
	marker     bool // text is a marker, not only punctuation that goes with one
}

// mark is where a marker stands in text: bytes [start, end).
type mark struct{ start, end int }

// apply makes the edits and tells where in the result their markers are.
func apply(s string, list []edit) (string, []mark) {
	if len(list) == 0 {
		return s, nil
	}
	var b strings.Builder
	b.Grow(len(s) + 32*len(list))
	marks := make([]mark, 0, len(list))
	pos := 0
	for _, e := range list {
		b.WriteString(s[pos:e.start])
		if e.marker {
			marks = append(marks, mark{b.Len(), b.Len() + len(e.text)})
		}
		b.WriteString(e.text)
		pos = e.end
	}
	b.WriteString(s[pos:])
	return b.String(), marks
}

// outward turns edits of a decoded string into edits of its spelling: body stands between the quotes, at offset base of the
// text around it. A boundary within a character takes the whole character.
func outward(body []byte, base int, list []edit) []edit {
	raw, decoded := 0, 0 // the same place in both
	for i := range list {
		e := &list[i]
		start := -1
		for {
			r, n := rawjson.Unit(body[raw:])
			size := utf8.RuneLen(r)
			if start < 0 && (n == 0 || decoded+size > e.start) {
				start = raw
			}
			if n == 0 || start >= 0 && decoded >= e.end {
				break
			}
			raw, decoded = raw+n, decoded+size
		}
		e.start, e.end = base+start, base+raw
		if !e.marker { // a marker holds nothing that JSON escapes
			e.text = string(rawjson.AppendEscaped(nil, e.text))
		}
	}
	return list
}

// quotedMarker replaces a JSON value by a string that is a marker.
func quotedMarker(start, end int, text string) []edit {
	return []edit{{start, start, `"`, false}, {start, end, text, true}, {end, end, `"`, false}}
}
