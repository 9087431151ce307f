package guard

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// cursor reads JSON text that is known to be valid and not too deep, each byte
// once.
type cursor struct {
	data []byte
	pos  int
}

func (c *cursor) kind() byte {
	c.pos = rawjson.Skip(c.data, c.pos)
	return rawjson.Kind(c.data[c.pos:])
}

// skip passes over a value and returns it.
func (c *cursor) skip() []byte {
	c.pos = rawjson.Skip(c.data, c.pos)
	start, depth := c.pos, 0
	for {
		var kind byte
		kind, c.pos = rawjson.Token(c.data, c.pos)
		switch kind {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth == 0 {
			return c.data[start:c.pos]
		}
		c.pos = rawjson.Skip(c.data, c.pos)
	}
}

// object calls do for each member; do has to pass over the value. Anything else
// than an object is passed over.
func (c *cursor) object(do func(key string)) { c.items('{', do) }

// array calls do for each element, as object does.
func (c *cursor) array(do func()) { c.items('[', func(string) { do() }) }

func (c *cursor) items(open byte, do func(key string)) {
	if c.kind() != open {
		c.skip()
		return
	}
	c.pos = rawjson.Skip(c.data, c.pos+1)
	for c.data[c.pos] != open+2 { // '{' + 2 is '}', '[' + 2 is ']'
		key := ""
		if open == '{' {
			_, end := rawjson.Token(c.data, c.pos)
			key, _ = rawjson.Unquote(c.data[c.pos:end])
			c.pos = rawjson.Skip(c.data, end) + 1
		}
		do(key)
		if c.pos = rawjson.Skip(c.data, c.pos); c.data[c.pos] == ',' {
			c.pos = rawjson.Skip(c.data, c.pos+1)
		}
	}
	c.pos++
}

// appendUnquoted appends what a string token says, as rawjson.Unquote does, but
// copies what lies between escapes at once: a guard question is a megabyte of
// strings within a string.
func appendUnquoted(dst, raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' || !utf8.Valid(raw) {
		s, ok := rawjson.Unquote(raw)
		return append(dst, s...), ok
	}
	body := raw[1 : len(raw)-1]
	dst = slices.Grow(dst, len(body))
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return append(dst, body...), true
		}
		r, n := rawjson.Unit(body[i:])
		if n == 0 {
			return dst, false
		}
		dst = utf8.AppendRune(append(dst, body[:i]...), r)
		body = body[i+n:]
	}
}
