package plain

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call parses assignments, words and redirections, which it adds to the list
// that was begun; nil if there are only redirections.
func (p *parser) call() *syntax.CallExpr {
	assigns, words := p.assignLists.begin(), p.wordLists.begin()
	redirected, prefixed, named := false, false, false // by what has come
	for ; ; p.blanks() {
		if p.redirection() {
			p.redirectLists.add(p.redirect())
			redirected = true
			continue
		}
		switch p.peek() {
		case 0, '\n', ';', '|', '&':
		case ')':
			if p.parens == 0 {
				p.giveUp()
			}
		case '(':
			p.giveUp()
		default:
			if !named {
				if a := p.assignment(); a != nil {
					p.assignLists.add(a)
					prefixed = true
					continue
				}
				if redirected && !prefixed && reserved(p.keyword()) {
					p.giveUp()
				}
			}
			p.wordLists.add(p.needWord())
			named = true
			continue
		}
		as, ws := p.assignLists.end(assigns), p.wordLists.end(words)
		if as == nil && ws == nil {
			return nil
		}
		c := p.calls.take()
		c.Assigns, c.Args = as, ws
		return c
	}
}

func (p *parser) needWord() *syntax.Word {
	w := p.word()
	if w == nil {
		p.giveUp()
	}
	return w
}

// assignment parses NAME=VALUE; nil if there is none.
func (p *parser) assignment() *syntax.Assign {
	if class[p.text[p.at]] == quotes {
		return nil
	}
	start := p.at
	lit := p.literal()
	end := lit.equals
	if end > start && p.text[end-1] == '+' {
		end--
	}
	if end <= start || p.name(start) != end {
		if strings.HasPrefix(p.text[lit.end:], "[") { // perhaps an element of an array
			p.giveUp()
		}
		return nil
	}
	a := p.assigns.take()
	a.Append = end < lit.equals
	a.Name = p.lit(start, end)
	p.at = lit.equals + 1
	switch c := p.peek(); c {
	case '{', '#', '=', '(': // read otherwise than at the start of a word
		p.giveUp()
	default:
		a.Value = p.word()
	}
	return a
}

// redirection says whether there is one: digits perhaps, then < or >, or &>.
func (p *parser) redirection() bool {
	i := p.at
	for i < len(p.text) && '0' <= p.text[i] && p.text[i] <= '9' {
		i++
	}
	return i < len(p.text) && (p.text[i] == '<' || p.text[i] == '>') || p.follows("&>")
}

// redirects are the operators, longer ones first.
var redirects = []struct {
	text string
	op   syntax.RedirOperator
}{
	{"&>>", syntax.AppAll}, {"&>", syntax.RdrAll}, {"<<<", syntax.WordHdoc},
	{">>", syntax.AppOut}, {">&", syntax.DplOut}, {">|", syntax.RdrClob}, {"<>", syntax.RdrInOut}, {"<&", syntax.DplIn},
	{">", syntax.RdrOut}, {"<", syntax.RdrIn},
}

func (p *parser) redirect() *syntax.Redirect {
	r := p.redirects.take()
	start := p.at
	for '0' <= p.peek() && p.peek() <= '9' {
		p.at++
	}
	if p.at > start {
		r.N = p.lit(start, p.at)
	}
	r.OpPos = p.pos(p.at)
	for _, o := range redirects {
		if p.follows(o.text) {
			r.Op = o.op
			p.at += len(o.text)
			break
		}
	}
	switch c := p.peek(); {
	case c == '(', c == '|' && r.Op != syntax.RdrOut, r.Op == syntax.RdrIn && c == '<': // process substitution, >>|, here-document
		p.giveUp()
	}
	p.blanks()
	r.Word = p.needWord()
	return r
}

func (p *parser) declaration(variant string) *syntax.DeclClause {
	d := p.declares.take()
	d.Variant = p.lit(p.at, p.at+len(variant))
	p.at += len(variant)
	assigns := p.assignLists.begin()
	for p.blanks(); ; p.blanks() {
		switch c := p.peek(); {
		case c == 0, c == '\n', c == ';', c == '|', c == ')', c == '&', p.redirection():
			d.Args = p.assignLists.end(assigns)
			return d
		}
		a := p.assignment()
		if a == nil {
			a = p.assigns.take()
			a.Naked = true
			start := p.at
			if class[p.text[start]] != quotes {
				switch lit := p.literal(); {
				case lit.equals > start && !strings.Contains(p.text[start:lit.equals], "{"):
					p.giveUp()
				case lit.whole && lit.end > start && p.name(start) == lit.end:
					a.Name = p.lit(start, lit.end)
					p.at = lit.end
				}
			}
			if a.Name == nil {
				a.Value = p.needWord()
			}
		}
		p.assignLists.add(a)
	}
}
