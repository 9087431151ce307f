package redact

import "strings"

// class is a set of characters; the basic ones are bits, so that a table answers for their unions.
type class uint16

const (
	upper class = 1 << iota
	lower
	digit
	under
	dash
	base64Sign // + / =
	tokenSign  // . ~
	tailSign   // what else a bearer token may hold, but not begin with
	blank
	lineBreak
	quote
	operator // ; & | < > ( )
	listSign // ,

	alnum      = upper | lower | digit
	upperAlnum = upper | digit
	wordChar   = alnum | under
	base64URL  = alnum | under | dash
	base64Char = alnum | base64Sign
	tokenChar  = base64URL | base64Sign | tokenSign
	valueEnd   = blank | lineBreak | quote | operator
)

var classes = func() (t [256]class) {
	for c := range t {
		b := byte(c)
		switch {
		case b >= 'A' && b <= 'Z':
			t[c] = upper
		case b >= 'a' && b <= 'z':
			t[c] = lower
		case b >= '0' && b <= '9':
			t[c] = digit
		case b == '\n' || b == '\r':
			t[c] = lineBreak
		case b <= ' ' || b == 0x7f:
			t[c] = blank // control characters end a word as a blank does
		}
	}
	for _, set := range []struct {
		of    class
		chars string
	}{{under, "_"}, {dash, "-"}, {base64Sign, "+/="}, {tokenSign, ".~"}, {tailSign, "!#$%*:?@^"}, {quote, "\"'`"}, {operator, ";&|<>()"}, {listSign, ","}} {
		for i := range len(set.chars) {
			t[set.chars[i]] = set.of
		}
	}
	return t
}()

// span returns the end of the characters of class c that begin at i.
func span(t string, i int, c class) int {
	for i < len(t) && classes[t[i]]&c != 0 {
		i++
	}
	return i
}

// spanUntil returns the offset of the first character of class c from i.
func spanUntil(t string, i int, c class) int {
	for i < len(t) && classes[t[i]]&c == 0 {
		i++
	}
	return i
}

// wordStart tells whether a word begins at i.
func wordStart(t string, i int) bool { return i == 0 || classes[t[i-1]]&wordChar == 0 }

func hasPrefix(t string, i int, prefix string) bool {
	return i <= len(t) && strings.HasPrefix(t[i:], prefix)
}

// foldPrefix is hasPrefix for a prefix of lower-case ASCII letters, in any case.
func foldPrefix(t string, i int, prefix string) bool {
	if i+len(prefix) > len(t) {
		return false
	}
	for j := range len(prefix) {
		if t[i+j]|0x20 != prefix[j] {
			return false
		}
	}
	return true
}
