package redact

import "strings"

const (
	pemBegin = "-----BEGIN "
	pemEnd   = "-----END "
	pemClose = "-----"
)

// privateKey takes a PEM block with a private key, from BEGIN to END or, without END, to the end of the text. In the judged
// form it reaches only over what keys are made of, or a forged block would hide a command.
func (s *scanner) privateKey(i int) {
	t := s.text
	if i < s.until[privateKey] {
		return
	}
	body, ok := label(t, i, pemBegin)
	if !ok {
		return
	}
	inner, end := s.pemEnd(body)
	if s.rules.judged() {
		complete := inner < end
		if reach := s.keyLines(t[:inner], body, complete); !complete || reach < inner {
			end = reach
		}
	}
	s.add(privateKey, i, end)
}

// pemEnd finds the END line behind i: bytes [inner, end), both len(t) if there is none.
func (s *scanner) pemEnd(i int) (inner, end int) {
	t := s.text
	if i <= s.pem.start {
		return s.pem.start, s.pem.end
	}
	for at := i; ; {
		n := strings.Index(t[at:], pemEnd)
		if n < 0 {
			s.pem = run{len(t), len(t)}
			break
		}
		at += n
		if end, ok := label(t, at, pemEnd); ok {
			s.pem = run{at, end}
			break
		}
		at += len(pemEnd)
	}
	return s.pem.start, s.pem.end
}

// label reads a PEM line of a private key and returns its end.
func label(t string, i int, begin string) (end int, ok bool) {
	if !hasPrefix(t, i, begin) {
		return 0, false
	}
	i += len(begin)
	n := strings.Index(t[i:], pemClose) // the next line's dashes at the latest, so no byte is searched often
	if n < 0 {
		return 0, false
	}
	name := strings.TrimSuffix(t[i:i+n], " BLOCK")
	return i + n + len(pemClose), strings.HasSuffix(name, "PRIVATE KEY") && spanUntil(name, 0, lineBreak) == len(name)
}

// keyLines returns how far the lines from i on can be part of a key: base64, PEM headers and blank lines. Line breaks may be
// escaped. In a complete block a line may be any one word.
func (s *scanner) keyLines(t string, i int, complete bool) int {
	end := i
	for i < len(t) {
		if i >= s.row.end {
			s.row.start = i
			s.row.end, s.next = lineEnd(s.text, i)
		}
		stop, next := min(s.row.end, len(t)), s.next
		line := strings.Trim(t[i:stop], " \t")
		switch {
		case line == "":
		case keyLine(line, complete):
			end = stop
		default:
			// A quote may end the key within a line.
			if n := span(line, 0, base64Char); n >= 16 && n < len(line) && classes[line[n]]&quote != 0 && hasUpper(line[:n]) {
				end = i + strings.Index(t[i:stop], line) + n
			}
			return end
		}
		i = next
	}
	if complete {
		return len(t)
	}
	return end
}

// lineEnd returns where the line at i ends and where the next one begins.
func lineEnd(t string, i int) (end, next int) {
	for ; i < len(t); i++ {
		switch t[i] {
		case '\n', '\r':
			return i, i + 1
		case '\\':
			end = i
			for i < len(t) && t[i] == '\\' {
				i++
			}
			if i < len(t) && (t[i] == 'n' || t[i] == 'r') {
				return end, i + 1
			}
			i--
		}
	}
	return len(t), len(t)
}

func keyLine(line string, complete bool) bool {
	if complete && spanUntil(line, 0, valueEnd) == len(line) {
		return true
	}
	for _, header := range [...]string{"Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Charset:", "Hash:", "MessageID:", "Key-Type:"} {
		if strings.HasPrefix(line, header) {
			return span(line, len(header), tokenChar|tailSign|blank|listSign) == len(line) && !strings.Contains(line, "$")
		}
	}
	// A word of small letters is rather a command.
	return span(line, 0, base64Char) == len(line) && hasUpper(line)
}

func hasUpper(s string) bool { return spanUntil(s, 0, upper) < len(s) }
