package redact

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

const (
	maxValues    = 1000
	maxBytes     = 1 << 20 // of all values together; the matcher needs 28 bytes for each
	maxWork      = time.Second
	maxCategory  = 64
	maxUndone    = 12 // levels of JSON escapes that are undone in search of leftovers
	ownName      = 8  // from this length on a value must not stand in a category
	anyCategory  = "value"
	markerBefore = "[REDACTED:"
	unmaskable   = markerBefore + anyCategory + "]"
)

// Redaction is a value that the guard detected in an output, and what it calls it. It lives in one run's memory only.
type Redaction struct{ Value, Category string }

// Masker replaces detected values by markers. It has one second for all its work; afterwards outputs are to be withheld, and
// text is hidden as a whole. It is not safe for concurrent use.
type Masker struct {
	sound   bool // the list is fit for an output
	usable  bool // the matcher exists
	match   *matcher
	markers []string
	now     func() time.Time
	spent   time.Duration
	started time.Time
	late    bool
	work    int    // bytes since the clock was last read
	found   []bool // values that the text at hand was seen to hold
	rules   Rules
	mask    bool // only mask: no redaction of what remains
}

// NewMasker makes a masker for the values that a guard's answer listed.
func NewMasker(list []Redaction) *Masker { return newMasker(list, time.Now) }

// Mask masks output once: see Masker.Output.
func Mask(output string, list []Redaction) (masked string, ok bool) {
	return NewMasker(list).Output(output)
}

func newMasker(list []Redaction, now func() time.Time) *Masker {
	m := &Masker{sound: len(list) > 0 && len(list) <= maxValues, now: now, rules: Tool}
	values, bytes := make([]string, 0, len(list)), 0
	for _, r := range list {
		if r.Value == "" {
			m.sound = false
			continue
		}
		values = append(values, r.Value)
		bytes += len(r.Value)
		m.markers = append(m.markers, markerBefore+category(r.Category)+"]")
	}
	if m.usable = bytes <= maxBytes; m.usable {
		m.begin()
		m.match = newMatcher(values)
		m.end()
		m.anonymise()
		m.match.late = m.overtime
	}
	return m
}

// anonymise renames markers whose category tells a value: in a marker it would pass for masked.
func (m *Masker) anonymise() {
	for i, name := range m.markers {
		m.match.each(name[len(markerBefore):len(name)-1], nil, func(h hit) bool {
			if h.end-h.start >= ownName {
				m.markers[i] = unmaskable
				return false
			}
			return true
		})
	}
}

// category is the name in a marker: at most 64 letters, digits, _, - and . of what the guard calls the value.
func category(s string) string {
	name := make([]byte, 0, maxCategory)
	for i := range len(s) {
		if c := s[i]; len(name) < maxCategory && (classes[c]&base64URL != 0 || c == '.') {
			name = append(name, c)
		}
	}
	if len(name) == 0 {
		return anyCategory
	}
	return string(name)
}

// Output masks a tool's output and redacts the rest of it. It reports false if the output must be withheld: an unsound or
// overlong list, a value that the output doesn't hold, one that is still there afterwards in any spelling of JSON, or more
// than a second of work.
func (m *Masker) Output(text string) (masked string, ok bool) {
	if !m.sound || !m.usable {
		return "", false
	}
	m.begin()
	defer m.end()
	m.found = make([]bool, len(m.markers))
	out, marks := apply(text, edits(text, m, 0))
	if m.late || !m.holds(text) || m.remains(out, marks) {
		return "", false
	}
	return out, true
}

// Text masks and redacts s, whether or not it holds any value. If a value would still be there, s is hidden as a whole.
func (m *Masker) Text(s string) string { return m.clean(s, m.rules, false, unmaskable) }

// Clean is Text by other rules.
func (m *Masker) Clean(s string, r Rules) string { return m.clean(s, r, false, unmaskable) }

// Hide masks s and redacts nothing: for identifiers, which redaction spares.
func (m *Masker) Hide(s string) string { return m.clean(s, m.rules, true, unmaskable) }

// JSON is Clean for a JSON value; the result is one, too: a number or word in which something was hidden becomes a string.
func (m *Masker) JSON(raw []byte, r Rules) []byte {
	s := string(raw)
	switch out := m.clean(s, r, false, `"`+unmaskable+`"`); {
	case out == s:
		return raw
	case rawjson.Kind(raw) == '{' || rawjson.Kind(raw) == '[' || out[0] == '"':
		return []byte(out)
	default:
		return rawjson.AppendQuote(nil, strings.TrimSpace(out))
	}
}

func (m *Masker) clean(s string, r Rules, onlyMask bool, hidden string) string {
	if s == "" {
		return s
	}
	if len(m.markers) == 0 {
		if onlyMask {
			return s
		}
		return r.Text(s)
	}
	if !m.usable || m.late {
		return hidden
	}
	m.begin()
	defer m.end()
	defer func(r Rules) { m.rules, m.mask = r, false }(m.rules)
	m.rules, m.mask, m.found = r, onlyMask, nil
	out, marks := apply(s, edits(s, m, 0))
	if m.late || m.remains(out, marks) {
		return hidden
	}
	return out
}

// holds reports whether every value was found in text, in its redacted form or in the form that a guard over TCP judged.
func (m *Masker) holds(text string) bool {
	all := func() bool {
		return !slices.ContainsFunc(m.match.values, func(v int) bool { return !m.found[v] })
	}
	for _, form := range [...]func(string) string{
		func(s string) string { return s },
		func(s string) string { return m.rules.Text(s) },
		func(s string) string { return (m.rules | Judged).Text(s) },
	} {
		if all() {
			return true
		}
		m.ranges(form(text))
	}
	return all()
}

// remains reports whether a value is left in text outside its markers, also with JSON escapes undone. What has more levels
// of escapes than anyone reads counts as a leftover.
func (m *Masker) remains(text string, marks []mark) bool {
	for range maxUndone {
		if m.leftover(text, marks) || m.late {
			return true
		}
		undone, moved := undo(text, marks)
		if len(undone) == len(text) {
			return false
		}
		text, marks = undone, moved
	}
	return true
}

func (m *Masker) leftover(text string, marks []mark) (yes bool) {
	m.tick(len(text))
	m.match.each(text, nil, func(h hit) bool {
		yes = !covered(h.start, h.end, marks)
		return !yes
	})
	return yes
}

// covered tells whether [start, end) lies within markers.
func covered(start, end int, marks []mark) bool {
	i, _ := slices.BinarySearchFunc(marks, start, func(m mark, at int) int {
		if m.end <= at {
			return -1
		}
		return 1
	})
	for ; i < len(marks) && marks[i].start <= start; i++ {
		if start = marks[i].end; start >= end {
			return true
		}
	}
	return false
}

// undo decodes what looks like a JSON escape anywhere in text, and moves the markers, which hold none.
func undo(text string, marks []mark) (string, []mark) {
	if strings.IndexByte(text, '\\') < 0 {
		return text, marks
	}
	raw := []byte(text)
	out := make([]byte, 0, len(raw))
	moved := make([]mark, 0, len(marks))
	for i := 0; i < len(raw); {
		if k := len(moved); k < len(marks) && marks[k].start == i {
			moved = append(moved, mark{len(out), len(out) + marks[k].end - i})
		}
		if raw[i] == '\\' {
			if r, n := rawjson.Unit(raw[i:]); n > 0 {
				out = utf8.AppendRune(out, r)
				i += n
				continue
			}
		}
		out = append(out, raw[i])
		i++
	}
	return string(out), moved
}

// ranges is matcher.ranges against the clock.
func (m *Masker) ranges(text string) []hit {
	m.tick(len(text))
	if m.late {
		return nil
	}
	hits := m.match.ranges(text, m.found)
	if m.late {
		return nil
	}
	return hits
}

func (m *Masker) begin() { m.started, m.work = m.now(), 0 }

func (m *Masker) end() { m.spent += m.now().Sub(m.started) }

// tick counts work and reads the clock now and then.
func (m *Masker) tick(n int) {
	if m.work += n + 64; m.work >= often {
		m.work = 0
		m.overtime()
	}
}

// overtime reads the clock: once late, a masker stays so.
func (m *Masker) overtime() bool {
	m.late = m.late || m.spent+m.now().Sub(m.started) > maxWork
	return m.late
}
