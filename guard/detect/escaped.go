package detect

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// Find is Scan, also of what a text means where it is JSON, JSON in JSON or a
// program's string: before a secret stands an escaped line break, which to the
// expressions is the letter n, or it is written with escapes itself. Its offsets
// and secrets are those of the text as it is.
func (s *Set) Find(ctx context.Context, text string, sel Selection) ([]Finding, error) {
	found, err := s.Scan(ctx, text, sel)
	plain := unescape(text)
	if plain == text || err != nil {
		return found, err
	}
	more, err := s.Scan(ctx, plain, sel)
	var offsets []*int
	for i := range more {
		offsets = append(offsets, &more[i].Start, &more[i].End, &more[i].line)
	}
	origins(text, offsets)
	for _, f := range more {
		f.Secret = text[f.Start:f.End]
		found = append(found, f)
	}
	return settle(found), err
}

// unescape replaces the escapes of a text by what they stand for.
func unescape(text string) string {
	var b strings.Builder
	done := 0
	escapes(text, func(start, end int, c byte) {
		if done == 0 {
			b.Grow(len(text))
		}
		b.WriteString(text[done:start])
		b.WriteByte(c)
		done = end
	})
	if done == 0 {
		return text
	}
	b.WriteString(text[done:])
	return b.String()
}

// origins turns offsets in unescape's result into those of the text itself.
func origins(text string, offsets []*int) {
	slices.SortFunc(offsets, func(a, b *int) int { return *a - *b })
	next, less := 0, 0 // bytes that the result is shorter by
	escapes(text, func(start, end int, _ byte) {
		for ; next < len(offsets) && *offsets[next] <= start-less; next++ {
			*offsets[next] += less
		}
		less += end - start - 1
	})
	for ; next < len(offsets); next++ {
		*offsets[next] += less
	}
}

// escapes calls do for each escape of JSON, however many backslashes it has by
// being escaped itself.
func escapes(text string, do func(start, end int, c byte)) {
	for i := 0; i < len(text); {
		next := strings.IndexByte(text[i:], '\\')
		if next < 0 {
			return
		}
		start := i + next
		for i = start; i < len(text) && text[i] == '\\'; i++ {
		}
		if c, n := escape(text[i:]); n > 0 {
			i += n
			do(start, i, c)
		}
	}
}

// escape is the character that what follows a backslash stands for, and its
// length; 0 if it is none of ASCII.
func escape(s string) (c byte, n int) {
	if s == "" {
		return 0, 0
	}
	switch s[0] {
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'b', 'f':
		return ' ', 1
	case '"', '/', '\'':
		return s[0], 1
	case 'u':
		if len(s) >= 5 && s[1] == '0' && s[2] == '0' {
			if v, err := strconv.ParseUint(s[3:5], 16, 8); err == nil && v < 0x80 {
				return byte(v), 5
			}
		}
	}
	return 0, 0
}
