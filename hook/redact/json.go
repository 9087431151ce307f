package redact

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// maxLevels is how deep JSON within JSON strings is followed; each level doubles the backslashes of the one below it.
const maxLevels = 16

// maxDepth is how deep text may nest to be walked as JSON. Deeper than any usual reader follows it is text: a walk would
// hold 60 bytes for each level of a payload that is nothing but brackets.
const maxDepth = 10_000

// worker finds what to replace.
type worker interface {
	// plain treats a text that is no JSON: key is the member's key if the text is a member's value, else "".
	plain(key, text string) []edit
	// scalar treats a JSON number, true, false or null.
	scalar(text string) []edit
	accounts() accounts
}

// accounts is what becomes of a service account.
type accounts uint8

const (
	keepAccounts  accounts = iota
	secretsOnly            // its private_key and private_key_id are replaced
	wholeAccounts          // the object is replaced
)

// edits lists what w replaces in s, within decoded strings if s is JSON text.
func edits(s string, w worker, level int) []edit {
	return valueEdits("", s, w, level)
}

func valueEdits(key, s string, w worker, level int) []edit {
	if level < maxLevels && looksJSON(s) {
		if data := []byte(s); shallow(s, data) && isJSON(data) {
			j := walker{src: s, data: data, w: w, level: level}
			j.walk()
			return j.edits()
		}
	}
	return w.plain(key, s)
}

func looksJSON(s string) bool {
	for i := 0; i+1 < len(s); i++ {
		switch s[i] {
		case ' ', '\t', '\r', '\n':
		default:
			return s[i] == '{' || s[i] == '[' || s[i] == '"'
		}
	}
	return false
}

// shallow reports whether text nests at most maxDepth levels; the usual one has not even as many brackets.
func shallow(s string, data []byte) bool {
	return strings.Count(s, "{")+strings.Count(s, "[") <= maxDepth || rawjson.Depth(data, maxDepth)
}

// isJSON reports whether data is one object, array or string, or several objects and arrays, as in JSON lines.
func isJSON(data []byte) bool {
	first := rawjson.Kind(data)
	for pos := 0; ; {
		end, err := rawjson.Value(data, pos)
		if err != nil {
			return false
		}
		if pos = rawjson.Skip(data, end); pos == len(data) {
			return true
		}
		if first == '"' || data[pos] != '{' && data[pos] != '[' {
			return false
		}
	}
}

// walker goes once over well-formed JSON text.
type walker struct {
	src   string
	data  []byte // the same
	w     worker
	level int
	out   []edit
	open  []frame
	found []mark // service accounts, or their secret members in the judged form
}

// frame is an open object or array.
type frame struct {
	start   int
	key     string // of the member being read
	object  bool
	account bool   // its type is service_account
	secrets []mark // values of private_key and private_key_id
}

func (j *walker) walk() {
	wantKey := false
	for pos := rawjson.Skip(j.data, 0); pos < len(j.data); {
		kind, end := rawjson.Token(j.data, pos)
		switch kind {
		case '{', '[':
			j.open = append(j.open, frame{start: pos, object: kind == '{'})
			wantKey = kind == '{'
		case '}', ']':
			j.close(end)
		case ',':
			wantKey = j.open[len(j.open)-1].object
		case '"':
			j.text(pos, end, wantKey)
			wantKey = false
		case ':':
		default:
			j.scalar(pos, end)
		}
		pos = rawjson.Skip(j.data, end)
	}
}

// text treats the string at [pos, end).
func (j *walker) text(pos, end int, isKey bool) {
	body := j.data[pos+1 : end-1]
	s, key, top := decoded(j.src[pos+1:end-1], body), "", j.top()
	switch {
	case isKey:
		top.key = s
	case top != nil && top.object:
		key = top.key
		top.account = top.account || key == "type" && s == "service_account"
	}
	if s != "" {
		if list := valueEdits(key, s, j.w, j.level+1); len(list) > 0 {
			j.out = append(j.out, outward(body, pos+1, list)...)
		}
	}
	if !isKey {
		j.value(pos, end)
	}
}

// scalar treats the number or word at [pos, end), which becomes a string if anything in it is replaced.
func (j *walker) scalar(pos, end int) {
	if list := j.w.scalar(j.src[pos:end]); len(list) > 0 {
		j.out = append(j.out, edit{pos, pos, `"`, false})
		for _, e := range list {
			j.out = append(j.out, edit{pos + e.start, pos + e.end, e.text, e.marker})
		}
		j.out = append(j.out, edit{end, end, `"`, false})
	}
	j.value(pos, end)
}

// close ends the innermost object or array.
func (j *walker) close(end int) {
	top := j.open[len(j.open)-1]
	j.open = j.open[:len(j.open)-1]
	if top.account {
		switch j.w.accounts() {
		case secretsOnly:
			j.found = append(j.found, top.secrets...)
		case wholeAccounts:
			j.found = append(j.found, mark{top.start, end})
		}
	}
	j.value(top.start, end)
}

// value notes a complete value.
func (j *walker) value(start, end int) {
	if top := j.top(); top != nil && top.object && (top.key == "private_key" || top.key == "private_key_id") {
		if j.data[start] == '"' {
			start, end = start+1, end-1 // the marker fits between the quotes
		}
		if start < end {
			top.secrets = append(top.secrets, mark{start, end})
		}
	}
}

func (j *walker) top() *frame {
	if len(j.open) == 0 {
		return nil
	}
	return &j.open[len(j.open)-1]
}

// outermost returns the outermost of what was found of service accounts.
func (j *walker) outermost() []mark {
	slices.SortFunc(j.found, func(a, b mark) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	out := j.found[:0]
	for _, m := range j.found {
		if len(out) == 0 || m.start >= out[len(out)-1].end {
			out = append(out, m)
		}
	}
	return out
}

// edits merges the edits of strings with the service accounts around them.
func (j *walker) edits() []edit {
	accounts := j.outermost()
	if len(accounts) == 0 {
		return j.out
	}
	out := make([]edit, 0, len(j.out)+3*len(accounts))
	i := 0
	for _, m := range accounts {
		for i < len(j.out) && j.out[i].start < m.start {
			out = append(out, j.out[i])
			i++
		}
		if j.whole(m) {
			out = append(out, quotedMarker(m.start, m.end, serviceAccount.marker())...)
		} else {
			out = append(out, edit{m.start, m.end, serviceAccount.marker(), true})
		}
		for i < len(j.out) && j.out[i].end <= m.end && j.out[i].start < m.end {
			i++
		}
	}
	return append(out, j.out[i:]...)
}

// whole reports whether m is a value, not the inside of a string.
func (j *walker) whole(m mark) bool { return m.start == 0 || j.data[m.start-1] != '"' }

// decoded is the text of a string's body, which is at hand in both types: most need no decoding.
func decoded(src string, body []byte) string {
	for i := 0; i < len(body); {
		if body[i] < utf8.RuneSelf && body[i] != '\\' {
			i++
			continue
		}
		_, n := rawjson.Unit(body[i:])
		if body[i] == '\\' || n == 1 {
			return decodedFrom(body, i)
		}
		i += n
	}
	return src
}

func decodedFrom(body []byte, i int) string {
	out := make([]byte, i, len(body)+8)
	copy(out, body)
	for i < len(body) {
		if body[i] < utf8.RuneSelf && body[i] != '\\' {
			out = append(out, body[i])
			i++
			continue
		}
		r, n := rawjson.Unit(body[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return string(out)
}
