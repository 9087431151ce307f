package redact

import "strings"

// scanner finds the secrets of one text in one pass: each byte that can begin a pattern is looked at by that pattern's rule.
// A rule that has matched goes on behind its match, and one that reads ahead without a bound remembers how far, so repeated
// beginnings cost no more than their length.
type scanner struct {
	text  string
	rules Rules
	out   []found
	until [kinds]int // where a rule's last match ended
	runs  [3]run     // the three parts of a JWT
	host  run        // how far an address's password may reach
	pem   run        // the next END line
	row   run        // the line that was last read for a key
	next  int        // where the line after it begins
	shell int        // where the last mysql command ended
	line  run        // the last command that was looked at from its middle
	open  uint16     // quotes that are known not to close any more
}

// run is text that was looked at already: bytes [start, end).
type run struct{ start, end int }

// find lists what is to be replaced in plain text, sorted and joined. key is the member's key if the text is a JSON member's
// value.
func (r Rules) find(key, text string) []found {
	if len(text) < len("KEY=x") {
		return nil // shorter than any match with its name
	}
	s := scanner{text: text, rules: r}
	s.scan()
	s.serviceAccounts()
	if key != "" {
		s.member(key)
	}
	return joined(s.out)
}

func (s *scanner) scan() {
	t := s.text
	for i := 0; i+2 < len(t); i++ {
		switch t[i] {
		case 'A':
			if t[i+1] == 'K' || t[i+1] == 'S' {
				s.awsAccessKey(i)
			} else if t[i+1] == 'W' || t[i+1] == 'w' {
				s.awsSecretKey(i)
			}
		case 'a':
			if t[i+1]|0x20 == 'w' {
				s.awsSecretKey(i)
			}
		case 'g':
			s.gitTokens(i)
		case 'x':
			if t[i+1] == 'o' {
				s.slack(i)
			}
		case 's', 'r', 'p':
			if t[i+1] == 'k' && wordStart(t, i) {
				s.prefixedKeys(i)
			}
		case 'e':
			if t[i+1] == 'y' && t[i+2] == 'J' {
				s.jwt(i)
			}
		case '-':
			if t[i+1] == '-' {
				s.privateKey(i)
				s.passwordFlag(i)
			}
		case 'b', 'B':
			if t[i+1]|0x20 == 'e' || t[i+1]|0x20 == 'a' {
				s.authorization(i)
			}
		case ':':
			if t[i+1] == '/' && t[i+2] == '/' {
				s.address(i)
			}
		case 'm':
			if s.rules&Tool != 0 {
				s.mysql(i)
			}
		case '=':
			s.variable(i)
		}
	}
	if n := len(t); n >= 2 && t[n-2] == '=' {
		s.variable(n - 2) // a value of one byte
	}
}

// add notes a match, unless the guard must see what it would hide.
func (s *scanner) add(k kind, start, end int) {
	if start >= end {
		return
	}
	s.until[k] = end
	if s.rules.judged() && k != privateKey && k != serviceAccount && holdsCode(s.text, start, end) {
		return
	}
	s.out = append(s.out, found{start, end, k})
}

// holdsCode reports whether a shell might run what is in [start, end). The byte behind it counts too: a value ends before
// the bracket of $( and of <(.
func holdsCode(t string, start, end int) bool {
	for i := start; i < end; i++ {
		switch t[i] {
		case '`', ';', '|', '&', '\n', '\r':
			return true
		case '$', '<':
			if i+1 < len(t) && t[i+1] == '(' {
				return true
			}
		}
	}
	return false
}

func (s *scanner) awsAccessKey(i int) {
	if i < s.until[awsAccessKey] || !hasPrefix(s.text, i, "AKIA") && !hasPrefix(s.text, i, "ASIA") {
		return
	}
	end := i + 20
	if end <= len(s.text) && span(s.text[:end], i+4, upperAlnum) == end {
		s.add(awsAccessKey, i, end)
	}
}

// gap is how many bytes may stand between the words of a name like aws_secret_access_key.
const gap = 20

// awsSecretKey takes aws…secret(…access)(…key) and then the value behind a colon or equals sign.
func (s *scanner) awsSecretKey(i int) {
	t := s.text
	if !foldPrefix(t, i, "aws") {
		return
	}
	var seen [4 * gap]bool // which ends of the name have been tried, as offsets from i
	words := [...]string{"secret", "access", "key"}
	var try func(word, from int)
	try = func(word, from int) {
		for at := from; at <= from+gap && at < len(t) && t[at] != '\n' && t[at] != '\r'; at++ {
			if !foldPrefix(t, at, words[word]) {
				continue
			}
			end := at + len(words[word])
			if n := end - i; n < len(seen) {
				if word == 2 && seen[n] {
					continue
				}
				seen[n] = true
			}
			if start, ok := base64Value(t, end); ok {
				s.add(awsSecretKey, start, start+40)
			}
			for next := word + 1; next < len(words); next++ {
				try(next, end)
			}
		}
	}
	try(0, i+3)
}

// base64Value finds exactly 40 base64 characters behind the name that ends at i.
func base64Value(t string, i int) (start int, ok bool) {
	i = skipQuote(t, i)
	i = span(t, i, blank)
	if i >= len(t) || t[i] != ':' && t[i] != '=' {
		return 0, false
	}
	i = span(t, i+1, blank)
	i = skipQuote(t, i)
	return i, i+40 <= len(t) && isBase64Key(t[i:min(i+41, len(t))])
}

// isBase64Key tells whether s, cut at 41 bytes, begins with exactly 40 base64 characters.
func isBase64Key(s string) bool { return span(s, 0, base64Char) == 40 }

// skipQuote steps over a quote, be it escaped.
func skipQuote(t string, i int) int {
	j := i
	for j < len(t) && j < i+maxEscapes && t[j] == '\\' {
		j++
	}
	if j < len(t) && (t[j] == '"' || t[j] == '\'') {
		return j + 1
	}
	return i
}

// member treats the whole text as the value of a JSON member: name and value are then two strings.
func (s *scanner) member(key string) {
	if !isBase64Key(s.text) || len(s.text) != 40 {
		return
	}
	probe := scanner{text: key + ":" + s.text}
	for i := 0; i < len(key); i++ {
		if key[i]|0x20 == 'a' {
			probe.awsSecretKey(i)
		}
	}
	for _, f := range probe.out {
		if f.start == len(key)+1 {
			s.add(awsSecretKey, 0, len(s.text))
			return
		}
	}
}

func (s *scanner) gitTokens(i int) {
	t := s.text
	switch {
	case i+4 < len(t) && t[i+1] == 'h' && t[i+3] == '_' && strings.IndexByte("pousr", t[i+2]) >= 0:
		s.token(githubToken, i, i+4, wordChar, 36)
	case hasPrefix(t, i, "github_pat_"):
		s.token(githubToken, i, i+len("github_pat_"), wordChar, 22)
	case hasPrefix(t, i, "glpat-"):
		s.token(gitlabToken, i, i+len("glpat-"), base64URL, 20)
	}
}

func (s *scanner) slack(i int) {
	if t := s.text; hasPrefix(t, i, "xox") && i+4 < len(t) && t[i+4] == '-' && strings.IndexByte("abrsp", t[i+3]) >= 0 {
		s.token(slackToken, i, i+5, alnum|dash, 10)
	}
}

// prefixedKeys takes the keys that begin sk-, sk_, rk_ or pk_.
func (s *scanner) prefixedKeys(i int) {
	t := s.text
	switch {
	case hasPrefix(t, i, "sk-ant-") && s.token(anthropicKey, i, i+len("sk-ant-"), base64URL, 50):
	case hasPrefix(t, i, "sk-"):
		if i >= s.until[anthropicKey] {
			s.token(openaiKey, i, i+len("sk-"), base64URL, 40)
		}
	case hasPrefix(t, i+2, "_live_") || hasPrefix(t, i+2, "_test_"):
		s.token(stripeKey, i, i+len("sk_live_"), alnum, 20)
	}
}

// token takes a token from start whose tail of at least least characters of the class begins at i.
func (s *scanner) token(k kind, start, i int, c class, least int) bool {
	if start < s.until[k] {
		return false
	}
	end := span(s.text, i, c)
	if end-i < least {
		return false
	}
	s.add(k, start, end)
	return true
}

func (s *scanner) jwt(i int) {
	if i < s.until[jwt] {
		return
	}
	head := s.part(0, i)
	if head-i < 10 || !hasPrefix(s.text, head, ".eyJ") {
		return
	}
	payload := s.part(1, head+1)
	if payload-head-1 < 10 || payload >= len(s.text) || s.text[payload] != '.' {
		return
	}
	if end := s.part(2, payload+1); end-payload-1 >= 10 {
		s.add(jwt, i, end)
	}
}

// part returns where the part of a JWT that begins at i ends.
func (s *scanner) part(n, i int) int {
	r := &s.runs[n]
	if i < r.start || i >= r.end {
		*r = run{i, span(s.text, i, base64URL)}
	}
	return r.end
}

// authorization takes the token after the word bearer or basic.
func (s *scanner) authorization(i int) {
	t := s.text
	if !wordStart(t, i) {
		return
	}
	k, word := bearerToken, "bearer"
	if t[i+1]|0x20 == 'a' {
		k, word = basicAuth, "basic"
	}
	after := i + len(word)
	if !foldPrefix(t, i, word) {
		return
	}
	start := span(t, after, blank)
	if start == after || span(t, start, tokenChar) == start {
		return
	}
	if end := span(t, start, tokenChar|tailSign); end-start >= 12 {
		s.add(k, start, end)
	}
}
