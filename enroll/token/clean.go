package token

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode"
	"unicode/utf16"
)

// quotes are what scripts and word processors put around a value.
const quotes = "\"'`\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb"

// Clean returns the one line that a delivery route carried, without what
// deployment tools add: UTF-16 (either order, with or without a mark), BOM,
// CR and LF, blanks of any kind, quotes, zero-width and other invisible
// characters, a line repeated. Errors: ErrEmpty, ErrTwoLines, ErrPlaceholder.
func Clean(delivered []byte) (string, error) {
	var line string
	for _, l := range strings.FieldsFunc(visible(decode(delivered)), isLineBreak) {
		l = strings.TrimFunc(l, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(quotes, r) })
		switch {
		case l == "" || l == line:
		case line == "":
			line = l
		default:
			return "", ErrTwoLines
		}
	}
	switch {
	case line == "":
		return "", ErrEmpty
	case isPlaceholder(line):
		return "", ErrPlaceholder
	}
	return line, nil
}

// decode turns UTF-16 with a byte order mark into UTF-8. Without a mark the
// text of a token is ASCII with NULs in between, which visible drops.
func decode(b []byte) string {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	default:
		return string(b)
	}
	var u []uint16
	for b = b[2:]; len(b) >= 2; b = b[2:] {
		u = append(u, order.Uint16(b))
	}
	return string(utf16.Decode(u))
}

// visible drops what can't be seen and never belongs to a token: format
// characters (BOM, zero width, direction marks, soft hyphen) and controls that
// break no line.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

func isLineBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == '\v' || r == '\f' || r == 0x85 || r == 0x2028 || r == 0x2029
}

// isPlaceholder recognises a variable that nobody expanded and the words that
// manuals print: %TOKEN%, $TOKEN, ${TOKEN}, {{token}}, <token>, YOUR-TOKEN.
// A real token is over a hundred characters, so words are looked for in short
// texts only.
func isPlaceholder(line string) bool {
	rest := strings.TrimPrefix(line, Prefix)
	if rest == "" || strings.ContainsAny(rest, "%${}<>[]@#*\u2026") || strings.Contains(rest, "...") {
		return true
	}
	if len(rest) > 64 {
		return false
	}
	word := strings.ToLower(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return r
		}
		return -1
	}, rest))
	for _, w := range []string{"your", "yourtoken", "token", "thetoken", "mytoken", "tokenhere", "enrollmenttoken", "enrolmenttoken",
		"changeme", "placeholder", "null", "none", "undefined", "pintaenrollmenttoken"} {
		if word == w {
			return true
		}
	}
	for _, w := range []string{"your", "insert", "paste", "replace", "example"} {
		if strings.HasPrefix(word, w) {
			return true
		}
	}
	return word != "" && strings.Trim(word, "x") == ""
}
