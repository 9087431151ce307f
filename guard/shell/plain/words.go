package plain

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word parses the word at the reading position; nil if there is none.
func (p *parser) word() *syntax.Word {
	w := p.words.take()
	parts := p.partLists.begin()
	for p.at < len(p.text) {
		var part syntax.WordPart
		switch c := p.text[p.at]; c {
		case ' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>':
			w.Parts = p.partLists.end(parts)
			if w.Parts == nil {
				return nil
			}
			return w
		case '\'':
			part = p.single()
		case '"':
			part = p.double()
		case '$':
			part = p.dollar(false)
		case '#': // not the first character of the word: comments are skipped before it
			p.giveUp()
		default:
			lit := p.literal()
			part = p.lit(p.at, lit.end)
			p.at = lit.end
		}
		p.partLists.add(part)
		if p.at+1 < len(p.text) && p.text[p.at] == '\\' && p.text[p.at+1] == '\n' {
			p.giveUp()
		}
	}
	w.Parts = p.partLists.end(parts)
	if w.Parts == nil {
		return nil
	}
	return w
}

// literal is a run of characters that stand for themselves, escaped ones
// included.
type literal struct {
	end    int
	equals int  // offset of the first =, -1 if there is none
	whole  bool // it is a word; otherwise a quote, $ or [ goes on with it
}

// literal looks at the literal at the reading position and takes nothing.
func (p *parser) literal() literal {
	text, start := p.text, p.at
	lit := literal{equals: -1}
	if strings.HasPrefix(text[start:], "=(") {
		p.giveUp()
	}
	i := start
scan:
	for ; i < len(text); i++ {
		switch class[text[i]] {
		case 0:
			continue
		case ends:
			lit.whole = true
			break scan
		case quotes:
			break scan
		}
		switch text[i] {
		case '=':
			if lit.equals < 0 {
				lit.equals = i
			}
		case '\\':
			if i++; i == len(text) || text[i] == '\n' {
				p.giveUp()
			}
		case '?', '*', '+', '@', '!':
			if i+1 < len(text) && text[i+1] == '(' { // an extended glob
				p.giveUp()
			}
		case '[':
			if i > start && text[start] != '[' && text[start] != '{' {
				break scan
			}
		case '<', '>':
			if i+1 < len(text) && text[i+1] == '(' || text[start] == '{' && text[i-1] == '}' {
				p.giveUp()
			}
			lit.whole = true
			break scan
		case '`':
			p.giveUp()
		}
	}
	lit.end = i
	lit.whole = lit.whole || i == len(text)
	return lit
}

// What a character does in a literal.
const (
	ends    = 1 + iota // it ends the word
	quotes             // it ends the literal, the word goes on
	special            // it depends
)

var class = [256]byte{
	' ': ends, '\t': ends, '\n': ends, ';': ends, '&': ends, '|': ends, '(': ends, ')': ends,
	'\'': quotes, '"': quotes, '$': quotes,
	'=': special, '\\': special, '?': special, '*': special, '+': special, '@': special, '!': special,
	'[': special, '<': special, '>': special, '`': special,
}

// lit is a literal from start to end within the line.
func (p *parser) lit(start, end int) *syntax.Lit {
	l := p.lits.take()
	l.ValuePos, l.ValueEnd, l.Value = p.pos(start), p.pos(end), p.text[start:end]
	return l
}

// single parses '…'.
func (p *parser) single() syntax.WordPart {
	q := p.singles.take()
	q.Left = p.pos(p.at)
	p.at++
	n := strings.IndexByte(p.text[p.at:], '\'')
	if n < 0 {
		p.giveUp()
	}
	q.Value = p.text[p.at : p.at+n]
	p.take(n)
	q.Right = p.pos(p.at)
	p.at++
	return q
}

// double parses "…".
func (p *parser) double() syntax.WordPart {
	q := p.doubles.take()
	q.Left = p.pos(p.at)
	p.at++
	parts := p.partLists.begin()
	for {
		if p.at == len(p.text) {
			p.giveUp()
		}
		switch p.text[p.at] {
		case '"':
			q.Parts = p.partLists.end(parts)
			q.Right = p.pos(p.at)
			p.at++
			return q
		case '`':
			p.giveUp()
		case '$':
			p.partLists.add(p.dollar(true))
		default:
			p.partLists.add(p.quoted())
		}
	}
}

// quoted parses a literal within double quotes.
func (p *parser) quoted() syntax.WordPart {
	end := p.at
	for ; end < len(p.text); end++ {
		if c := p.text[end]; c == '"' || c == '$' || c == '`' {
			break
		} else if c == '\\' {
			end++
		}
	}
	if end >= len(p.text) {
		p.giveUp()
	}
	l := p.lits.take()
	l.ValuePos, l.Value = p.pos(p.at), p.text[p.at:end]
	p.take(end - p.at)
	l.ValueEnd = p.pos(p.at)
	return l
}

// take goes on by n bytes of quoted text.
func (p *parser) take(n int) {
	end := p.at + n
	for {
		newline := strings.IndexByte(p.text[p.at:end], '\n')
		if newline < 0 {
			p.at = end
			return
		}
		p.at += newline
		if p.text[p.at-1] == '\\' {
			p.giveUp()
		}
		p.newline()
	}
}

// dollar parses what $ begins.
func (p *parser) dollar(quoted bool) syntax.WordPart {
	dollar := p.at
	next := byte(0)
	if dollar+1 < len(p.text) {
		next = p.text[dollar+1]
	}
	switch {
	case next == '(':
		return p.substitution()
	case next == '{':
		return p.braced()
	case next == '[', !quoted && (next == '\'' || next == '"'):
		p.giveUp()
	}
	end := dollar + 1
	switch {
	case next == '@', next == '*', next == '#', next == '!', next == '$', next == '?', next == '-', '0' <= next && next <= '9':
		end++
	default:
		end = p.name(end)
	}
	if strings.HasPrefix(p.text[end:], "\\\n") {
		p.giveUp()
	}
	p.at = end
	if end == dollar+1 {
		return p.lit(dollar, end)
	}
	param := p.params.take()
	param.Dollar, param.Short = p.pos(dollar), true
	param.Param = p.lit(dollar+1, end)
	return param
}

// braced parses ${name}.
func (p *parser) braced() syntax.WordPart {
	dollar := p.at
	start := dollar + 2
	end := p.name(start)
	if end == start { // none: digits, or one of these
		for end < len(p.text) && '0' <= p.text[end] && p.text[end] <= '9' {
			end++
		}
		if rest := p.text[end:]; end == start && (strings.HasPrefix(rest, "@") || strings.HasPrefix(rest, "*")) {
			end++
		}
	}
	if end == start || end == len(p.text) || p.text[end] != '}' {
		p.giveUp()
	}
	param := p.params.take()
	param.Dollar, param.Rbrace = p.pos(dollar), p.pos(end)
	param.Param = p.lit(start, end)
	p.at = end + 1
	return param
}

// substitution parses $(…).
func (p *parser) substitution() syntax.WordPart {
	s := p.substs.take()
	s.Left = p.pos(p.at)
	p.at += 2
	if p.at < len(p.text) && p.text[p.at] == '(' { // arithmetic
		p.giveUp()
	}
	p.parens++
	s.Stmts = p.list()
	p.parens--
	s.Right = p.expect(')')
	return s
}

// name is the end of the name that begins at i, i if there is none.
func (p *parser) name(i int) int {
	start := i
	for ; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', i > start && '0' <= c && c <= '9':
		default:
			return i
		}
	}
	return i
}
