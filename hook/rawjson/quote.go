package rawjson

import (
	"bytes"
	"unicode/utf8"
)

// Unquote decodes a JSON string with its quotes (white space around it is ignored). Lone surrogates and bytes that are no
// UTF-8 become U+FFFD. It reports false for anything else than one string.
func Unquote(raw []byte) (string, bool) {
	pos := skipSpace(raw, 0)
	if pos == len(raw) || raw[pos] != '"' {
		return "", false
	}
	end := stringEnd(raw, pos)
	if end-pos < 2 || raw[end-1] != '"' || skipSpace(raw, end) != len(raw) {
		return "", false
	}
	body := raw[pos+1 : end-1]
	if plain(body) {
		return string(body), true
	}
	out := make([]byte, 0, len(body))
	for {
		run := bytes.IndexByte(body, '\\')
		if run < 0 {
			return string(appendValid(out, body)), true
		}
		r, n := Unit(body[run:])
		if n == 0 {
			return "", false
		}
		out = utf8.AppendRune(appendValid(out, body[:run]), r)
		body = body[run+n:]
	}
}

// appendValid appends s with U+FFFD for each byte that is no UTF-8.
func appendValid(dst, s []byte) []byte {
	if utf8.Valid(s) {
		return append(dst, s...)
	}
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		dst = utf8.AppendRune(dst, r)
		s = s[n:]
	}
	return dst
}

// plain reports whether s needs no decoding.
func plain(s []byte) bool {
	return bytes.IndexByte(s, '\\') < 0 && utf8.Valid(s)
}

// Unit decodes the first character of a string's body: a rune as it stands, an escape or a surrogate pair of two escapes.
// It returns how many bytes spell it, 0 for an escape that JSON doesn't know or a body that is empty.
func Unit(body []byte) (r rune, n int) {
	if len(body) == 0 {
		return 0, 0
	}
	if body[0] != '\\' {
		return utf8.DecodeRune(body)
	}
	if len(body) < 2 {
		return 0, 0
	}
	switch c := body[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, ok := hex4(body)
		if !ok {
			return 0, 0
		}
		if r < 0xD800 || r > 0xDFFF {
			return r, 6
		}
		if r < 0xDC00 {
			if low, ok := hex4(body[6:]); ok && low >= 0xDC00 && low <= 0xDFFF {
				return (r-0xD800)<<10 + (low - 0xDC00) + 0x10000, 12
			}
		}
		return utf8.RuneError, 6
	}
	return 0, 0
}

// hex4 reads \uXXXX.
func hex4(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// AppendQuote appends s as a JSON string. Only what must be escaped is: quote, backslash and control characters; bytes that
// are no UTF-8 become U+FFFD.
func AppendQuote(dst []byte, s string) []byte {
	return append(AppendEscaped(append(dst, '"'), s), '"')
}

// AppendEscaped is AppendQuote without the quotes.
func AppendEscaped(dst []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		dst = appendEscape(append(dst, s[from:i]...), c)
		i++
		from = i
	}
	return append(dst, s[from:]...)
}

// appendEscape spells a quote, a backslash or a control character.
func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// AppendCompact appends raw, one well-formed value, without insignificant white space. Digits, escapes and order stay as
// they are; only what strict readers refuse is mended inside strings: raw control characters are escaped, bytes that are no
// UTF-8 and escapes of lone surrogates become U+FFFD.
func AppendCompact(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if isSpace(raw[i]) {
			i++
			continue
		}
		if raw[i] != '"' {
			from := i
			for i < len(raw) && raw[i] != '"' && !isSpace(raw[i]) {
				i++
			}
			dst = append(dst, raw[from:i]...)
			continue
		}
		end := stringEnd(raw, i)
		dst = appendMended(dst, raw[i:end])
		i = end
	}
	return dst
}

func appendMended(dst, str []byte) []byte {
	from := 0
	for i := 0; i < len(str); {
		c := str[i]
		switch {
		case c < 0x20:
			dst = appendEscape(append(dst, str[from:i]...), c)
			i++
			from = i
		case c == '\\':
			r, n := Unit(str[i:])
			if r == utf8.RuneError && n == 6 {
				dst = append(append(dst, str[from:i]...), "\uFFFD"...)
				from = i + n
			}
			i += max(n, 1)
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(str[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, str[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
		default:
			i++
		}
	}
	return append(dst, str[from:]...)
}
