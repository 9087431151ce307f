package rawjson

import "bytes"

// Value skips white space and one complete value from pos and returns the offset after it, or ErrIncomplete or ErrSyntax
// with the offset where it stopped.
func Value(data []byte, pos int) (end int, err error) {
	var s Scanner
	n, complete, err := s.Feed(data[pos:])
	if err == nil && !complete && !s.End() {
		err = ErrIncomplete
	}
	return pos + n, err
}

// Valid reports whether data is one JSON value with nothing but white space around it.
func Valid(data []byte) bool {
	end, err := Value(data, 0)
	return err == nil && skipSpace(data, end) == len(data)
}

// Member is one member of an object, in the order and spelling of the text.
type Member struct {
	Key           string // decoded
	RawKey, Value []byte // slices of the text; RawKey with its quotes
}

// Members lists the members of an object, one level deep, in order and with repeated keys kept: for them the last one
// counts (hook.md 2), which is the caller's to apply. Anything but one whole object is an error.
func Members(obj []byte) ([]Member, error) {
	// Room for a usual event at once: each step of growth would touch new pages.
	out := make([]Member, 0, 16)
	err := items(obj, '{', func(key, value []byte) {
		name, _ := Unquote(key)
		out = append(out, Member{name, key, value})
	})
	return out, err
}

// Elements lists the elements of an array, one level deep. Anything but one whole array is an error.
func Elements(arr []byte) ([][]byte, error) {
	var out [][]byte
	err := items(arr, '[', func(_, value []byte) { out = append(out, value) })
	return out, err
}

// items calls add for each member or element of the object or array that data is.
func items(data []byte, open byte, add func(key, value []byte)) error {
	pos := skipSpace(data, 0)
	if pos == len(data) {
		return ErrIncomplete
	}
	if data[pos] != open {
		return ErrSyntax
	}
	end, err := Value(data, pos)
	if err != nil {
		return err
	}
	if skipSpace(data, end) != len(data) {
		return ErrSyntax
	}
	Walk(data[pos:end], add)
	return nil
}

// Walk calls add for each member or element of an object or array that is known to be well formed and has no white space
// around it; key is empty in an array. It reads each byte once.
func Walk(data []byte, add func(key, value []byte)) {
	pos, end := skipSpace(data, 1), len(data)
	for pos < end-1 {
		var key []byte
		if data[0] == '{' {
			last := stringEnd(data, pos)
			key = data[pos:last]
			pos = skipSpace(data, skipSpace(data, last)+1)
		}
		last := valueEnd(data, pos)
		add(key, data[pos:last])
		pos = skipSpace(data, last)
		if data[pos] == ',' {
			pos = skipSpace(data, pos+1)
		}
	}
}

// valueEnd is Value for text that is known to be well formed: it need only count brackets.
func valueEnd(data []byte, pos int) int {
	depth := 0
	for {
		var kind byte
		kind, pos = Token(data, pos)
		switch kind {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth == 0 {
			return pos
		}
		pos = skipSpace(data, pos)
	}
}

// Token returns kind and end of the token at pos of text that is known to be well formed (Value found no fault): one of
// { } [ ] , : for punctuation, '"' for a string, '0' for a number, 't' for true and false, 'n' for null. pos is at no white
// space.
func Token(data []byte, pos int) (kind byte, end int) {
	switch c := data[pos]; c {
	case '{', '}', '[', ']', ',', ':':
		return c, pos + 1
	case '"':
		return c, stringEnd(data, pos)
	default:
		end = pos + 1
		for end < len(data) && !isSpace(data[end]) && data[end] != ',' && data[end] != ']' && data[end] != '}' {
			end++
		}
		return Kind(data[pos:end]), end
	}
}

// Skip returns the offset of the first byte from pos that is no white space, or len(data).
func Skip(data []byte, pos int) int { return skipSpace(data, pos) }

// Kind tells what the value in raw begins as: '{', '[', '"', 't' (true or false), 'n' (null), '0' (number), or 0.
func Kind(raw []byte) byte {
	pos := skipSpace(raw, 0)
	if pos == len(raw) {
		return 0
	}
	switch c := raw[pos]; {
	case c == '{' || c == '[' || c == '"' || c == 't' || c == 'n':
		return c
	case c == 'f':
		return 't'
	case c == '-' || c >= '0' && c <= '9':
		return '0'
	}
	return 0
}

// Depth reports whether objects and arrays in data nest at most limit levels. It needs no well-formed text, and nothing may
// recurse on data before it said yes (hook.md 2).
func Depth(data []byte, limit int) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i) - 1
		case '{', '[':
			if depth++; depth > limit {
				return false
			}
		case '}', ']':
			depth--
		}
	}
	return true
}

// stringEnd returns the offset after the string that begins at pos, or len(data).
func stringEnd(data []byte, pos int) int {
	for i := special(data, pos+1); i < len(data); i = special(data, i+2) {
		if data[i] == '"' {
			return i + 1
		}
	}
	return len(data)
}

// special returns the offset of the first quote or backslash from pos on, or len(data). Strings are either short or so long
// that vector instructions pay; the window bounds what is looked at twice.
func special(data []byte, pos int) int {
	const short, window = 16, 256
	for near := min(pos+short, len(data)); pos < near; pos++ {
		if data[pos] == '"' || data[pos] == '\\' {
			return pos
		}
	}
	for pos < len(data) {
		part := data[pos:min(pos+window, len(data))]
		quote := bytes.IndexByte(part, '"')
		if quote >= 0 {
			part = part[:quote]
		}
		if backslash := bytes.IndexByte(part, '\\'); backslash >= 0 {
			return pos + backslash
		}
		pos += len(part)
		if quote >= 0 {
			return pos
		}
	}
	return len(data)
}

func skipSpace(data []byte, pos int) int {
	for pos < len(data) && isSpace(data[pos]) {
		pos++
	}
	return pos
}
