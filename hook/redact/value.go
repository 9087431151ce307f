package redact

import "strings"

// maxEscapes is how many backslashes before a quote are taken for JSON within JSON within text.
const maxEscapes = 7

// value finds the value that begins at i (hook.md 7): an unquoted one ends before a blank, a quote or one of ; & | < > ( ),
// a quoted one at its quote. The quotes are no part of it.
func (s *scanner) value(i int) (start, end int) {
	t := s.text
	j := i
	if j < len(t) && t[j] == '$' && j+1 < len(t) && (t[j+1] == '\'' || t[j+1] == '"') {
		j++ // $'…' and $"…" of the shell
	}
	escapes := 0
	for j < len(t) && escapes < maxEscapes && t[j] == '\\' {
		j, escapes = j+1, escapes+1
	}
	if j < len(t) && (t[j] == '"' || t[j] == '\'') {
		start = j + 1
		if end = s.closing(start, t[j], escapes); end >= 0 {
			return start, end
		}
		return start, spanUntil(t, start, lineBreak)
	}
	end = spanUntil(t, i, valueEnd)
	if end < len(t) && classes[t[end]]&quote != 0 {
		for end > i && t[end-1] == '\\' { // they belong to the quote
			end--
		}
	}
	return i, end
}

// closing finds the end of a quoted text that began before i: the next quote of its kind with as few backslashes as the
// opening one had, less its backslashes. A plain double quote may be escaped within its text. It returns -1 if there is none.
func (s *scanner) closing(i int, q byte, escapes int) int {
	t := s.text
	memo := uint16(1) << (2*escapes + int(q&1)) // " is even, ' is odd
	if s.open&memo != 0 {
		return -1
	}
	for at := i; ; {
		n := strings.IndexByte(t[at:], q)
		if n < 0 {
			s.open |= memo
			return -1
		}
		at += n
		before := 0
		for before < at-i && t[at-1-before] == '\\' {
			before++
		}
		if before <= escapes || escapes == 0 && (q == '\'' || before%2 == 0) {
			return at - min(before, escapes)
		}
		at++
	}
}

// secret notes the value at i as a secret, unless it is a marker already.
func (s *scanner) secret(k kind, i int) (end int) {
	start, end := s.value(i)
	if start < end && !isMarker(s.text[start:end]) {
		s.add(k, start, end)
	}
	return end
}

// variable takes [export ]NAME=value; i is at the equals sign.
func (s *scanner) variable(i int) {
	t := s.text
	name := i
	for name > 0 && classes[t[name-1]]&(upper|digit|under) != 0 {
		name--
	}
	if i-name < 3 || i < s.until[envSecret] || classes[t[name]]&digit != 0 || !beginsWord(t, name) || !namesSecret(t[name:i]) {
		return
	}
	s.secret(envSecret, i+1)
}

// beginsWord tells whether a variable may be set at i: at a line start, be it escaped, or after a blank, a quote or one of
// ; & | (.
func beginsWord(t string, i int) bool {
	if i == 0 || classes[t[i-1]]&(blank|lineBreak|quote) != 0 {
		return true
	}
	switch t[i-1] {
	case ';', '&', '|', '(':
		return true
	case 'n', 'r', 't':
		return i > 1 && t[i-2] == '\\'
	}
	return false
}

func namesSecret(name string) bool {
	for i := range len(name) {
		for _, word := range [...]string{"KEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "PWD"} {
			if name[i] == word[0] && strings.HasPrefix(name[i:], word) {
				return true
			}
		}
	}
	return false
}

// passwordFlag takes the value of --password, --pass and --pwd.
func (s *scanner) passwordFlag(i int) {
	t := s.text
	if i < s.until[passwordFlag] || i > 0 && t[i-1] == '-' || !hasPrefix(t, i+2, "p") {
		return
	}
	for _, name := range [...]string{"password", "pass", "pwd"} {
		if !hasPrefix(t, i+2, name) {
			continue
		}
		after := i + 2 + len(name)
		start := span(t, after, blank)
		switch {
		case hasPrefix(t, after, "="):
			s.secret(passwordFlag, after+1)
		case start > after && !hasPrefix(t, start, "--"): // else the next option
			s.secret(passwordFlag, start)
		}
		return
	}
}

// schemes are the addresses that carry a password, with the endings that TLS and others give them.
var schemes = [...]string{"postgres", "postgresql", "mysql", "mysql2", "mysqls", "mariadb", "mongodb", "redis", "rediss"}

// address takes the password of a database URL; i is at the colon before //.
func (s *scanner) address(i int) {
	t := s.text
	if i < s.until[dbPassword] || !isDatabase(t[max(0, i-40):i]) {
		return
	}
	authority := i + 3
	if hasPrefix(t, authority, "[") {
		return // a bare IPv6 host
	}
	if s.host.end <= authority {
		s.host = run{authority, spanUntil(t, authority, blank|lineBreak|quote)}
	}
	end := s.host.end
	slash := authority
	for slash < end && t[slash] != '/' && t[slash] != '?' && t[slash] != '#' && t[slash] != '<' && t[slash] != '>' {
		slash++
	}
	colon := strings.IndexByte(t[authority:slash], ':')
	if colon < 0 {
		return
	}
	start := authority + colon + 1
	at := strings.LastIndexByte(t[start:slash], '@')
	if at < 0 && slash < end && span(t, start, digit) != slash {
		// No port: the password may hold a slash.
		at = s.beyond(slash, end)
		if at < 0 {
			return
		}
		at -= start
	}
	if at > 0 && !isMarker(t[start:start+at]) {
		s.add(dbPassword, start, start+at)
	}
}

// beyond finds an @ in [i, end) that ends a password with a slash in it.
func (s *scanner) beyond(i, end int) int {
	// Another address may begin in between; then this one has no password.
	limit := min(end, i+256)
	for ; i < limit; i++ {
		switch {
		case s.text[i] == '@':
			return i
		case s.text[i] == '<' || s.text[i] == '>' || hasPrefix(s.text, i, "://"):
			return -1
		}
	}
	return -1
}

// isDatabase tells whether text before :// ends in the scheme of a database address.
func isDatabase(before string) bool {
	for i := len(before); i > 0; i-- {
		if c := classes[before[i-1]]; c&(alnum|under|dash) == 0 && before[i-1] != '+' && before[i-1] != '.' {
			before = before[i:]
			break
		}
	}
	before = strings.ToLower(before)
	for _, scheme := range schemes {
		if strings.HasSuffix(before, scheme) || strings.Contains(before, scheme+"+") { // + a driver
			return true
		}
	}
	return false
}
