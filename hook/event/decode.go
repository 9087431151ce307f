package event

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	bom   = []byte("\xef\xbb\xbf")
	bomLE = []byte("\xff\xfe")
	bomBE = []byte("\xfe\xff")
)

// Decode returns the text of a JSON document as clean UTF-8: a byte order mark
// is skipped, UTF-16 with a mark decoded, blanks and NULs at the end are cut,
// invalid UTF-8 becomes U+FFFD (hook.md 2); escapes of lone surrogates do when
// package rawjson decodes or compacts them. The guard's answer is decoded by
// the same rule.
func Decode(data []byte) []byte {
	switch {
	case bytes.HasPrefix(data, bom):
		data = data[len(bom):]
	case bytes.HasPrefix(data, bomLE):
		data = fromUTF16(data[2:], 0)
	case bytes.HasPrefix(data, bomBE):
		data = fromUTF16(data[2:], 1)
	}
	for len(data) > 0 && (isBlank(data[len(data)-1]) || data[len(data)-1] == 0) {
		data = data[:len(data)-1]
	}
	return cleanUTF8(data)
}

// fromUTF16 decodes code units whose high byte lies at offset 1-big.
func fromUTF16(data []byte, big int) []byte {
	out := make([]byte, 0, len(data))
	unit := func(i int) rune { return rune(data[i+1-big])<<8 | rune(data[i+big]) }
	for i := 0; i+1 < len(data); i += 2 {
		r := unit(i)
		if utf16.IsSurrogate(r) {
			second := rune(0)
			if i+3 < len(data) {
				second = unit(i + 2)
			}
			if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
				i += 2
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

func cleanUTF8(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	out := make([]byte, 0, len(data)+64)
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			out = append(out, "\uFFFD"...)
		} else {
			out = append(out, data[:n]...)
		}
		data = data[n:]
	}
	return out
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
