package plain

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Statements gives do each statement from the front of a text, up to the first
// that isn't plain. It returns the offset where that one begins, or len(text).
// From there on any parser sees what it would have seen after the front.
func (m *Memory) Statements(text string, do func(*syntax.Stmt)) (rest int) {
	if len(text) > maxText || !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 || strings.IndexByte(text, '\r') >= 0 {
		return 0
	}
	before := m.mark()
	defer m.release(&before)
	for p := (parser{Memory: m, text: text, line: 1}); ; m.release(&before) {
		st, ok := p.next()
		if !ok {
			return rest
		}
		if st == nil {
			return len(text)
		}
		rest = p.at
		do(st)
	}
}

const (
	maxText    = 1 << 20 // positions have room for some 250 000 lines
	maxNesting = 100     // lists within lists
)

type parser struct {
	*Memory
	text    string
	at      int  // the reading position, an offset
	line    uint // counted from 1
	begin   int  // offset of the line's first byte
	nesting int
	parens  int // that are open and that a right parenthesis may close
}

// odd is what giveUp panics with.
type odd struct{}

// giveUp leaves the statement: it isn't plain.
func (p *parser) giveUp() { panic(odd{}) }

// next is the text's next statement; nil if there is none, not ok if it isn't
// plain.
func (p *parser) next() (st *syntax.Stmt, ok bool) {
	defer func() {
		if fault := recover(); fault != nil {
			if _, is := fault.(odd); !is {
				panic(fault)
			}
			ok = false
		}
	}()
	p.lines()
	if p.at == len(p.text) {
		return nil, true
	}
	st = p.statement()
	if !st.Semicolon.IsValid() && p.at < len(p.text) && p.text[p.at] != '\n' {
		p.giveUp()
	}
	return st, true
}

func (p *parser) pos(offset int) syntax.Pos {
	return syntax.NewPos(uint(offset), p.line, uint(offset-p.begin)+1)
}

// newline takes the newline at the reading position.
func (p *parser) newline() {
	p.at++
	p.line++
	p.begin = p.at
}

// blanks goes to the next token of the line. A comment at the reading position
// is one only because no part of a word stands before it.
func (p *parser) blanks() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t':
			p.at++
		case '\\':
			if !strings.HasPrefix(p.text[p.at:], "\\\n") {
				return
			}
			p.at++
			p.newline()
		case '#':
			n := strings.IndexByte(p.text[p.at:], '\n')
			if n < 0 {
				n = len(p.text) - p.at
			}
			p.at += n
			if p.text[p.at-1] == '\\' { // bash ends the comment here, the full parser doesn't
				p.giveUp()
			}
		default:
			return
		}
	}
}

// lines goes to the next token and says whether a line ended before it.
func (p *parser) lines() (ended bool) {
	for {
		p.blanks()
		if p.at == len(p.text) || p.text[p.at] != '\n' {
			return ended
		}
		p.newline()
		ended = true
	}
}

// peek is the byte at the reading position, 0 at the end.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// follows says whether the text goes on with s.
func (p *parser) follows(s string) bool { return strings.HasPrefix(p.text[p.at:], s) }

// expect takes c, which has to be there.
func (p *parser) expect(c byte) syntax.Pos {
	if p.peek() != c {
		p.giveUp()
	}
	p.at++
	return p.pos(p.at - 1)
}

// keyword is the reserved word that could stand at the reading position: a
// short literal.
func (p *parser) keyword() string {
	end := p.at
	for ; end < len(p.text) && end-p.at <= len("typeset "); end++ {
		switch c := p.text[end]; {
		case 'a' <= c && c <= 'z', c == '{', c == '}', c == '!', c == '[', c == ']':
		case class[c] == ends, c == '<', c == '>':
			return p.text[p.at:end]
		default:
			return ""
		}
	}
	if end == len(p.text) {
		return p.text[p.at:]
	}
	return ""
}

// need takes a reserved word, which has to be there.
func (p *parser) need(word string) syntax.Pos {
	if p.keyword() != word {
		p.giveUp()
	}
	p.at += len(word)
	return p.pos(p.at - len(word))
}

// list parses statements up to one of the reserved words, or to the parenthesis
// that ends them.
func (p *parser) list(stops ...string) []*syntax.Stmt {
	if p.nesting++; p.nesting > maxNesting {
		p.giveUp()
	}
	defer func() { p.nesting-- }()
	statements := p.stmtLists.begin()
	ended := true
	for {
		ended = p.lines() || ended
		if p.at == len(p.text) || p.parens > 0 && p.text[p.at] == ')' {
			return p.stmtLists.end(statements)
		}
		word := p.keyword()
		for _, stop := range stops {
			if word == stop {
				return p.stmtLists.end(statements)
			}
		}
		if !ended {
			p.giveUp()
		}
		st := p.statement()
		ended = st.Semicolon.IsValid()
		p.stmtLists.add(st)
	}
}

// some is list where there has to be at least one statement.
func (p *parser) some(stops ...string) []*syntax.Stmt {
	list := p.list(stops...)
	if list == nil {
		p.giveUp()
	}
	return list
}

// statement parses pipelines joined by && and ||, and what ends them.
func (p *parser) statement() *syntax.Stmt {
	st := p.pipeline()
	for p.follows("&&") || p.follows("||") {
		b := p.binaries.take()
		b.OpPos, b.Op, b.X = p.pos(p.at), syntax.AndStmt, st
		if p.text[p.at] == '|' {
			b.Op = syntax.OrStmt
		}
		p.at += 2
		p.lines()
		b.Y = p.pipeline()
		st = p.stmt(st.Position)
		st.Cmd = b
	}
	switch p.peek() {
	case ';':
		if p.follows(";;") || p.follows(";&") {
			p.giveUp()
		}
		st.Semicolon = p.pos(p.at)
		p.at++
		p.blanks()
	case '&':
		st.Semicolon, st.Background = p.pos(p.at), true
		p.at++
		p.blanks()
	}
	return st
}

func (p *parser) stmt(at syntax.Pos) *syntax.Stmt {
	st := p.stmts.take()
	st.Position = at
	return st
}

// pipeline parses commands joined by pipes.
func (p *parser) pipeline() *syntax.Stmt {
	st := p.stmt(p.pos(p.at))
	if p.keyword() == "!" {
		if p.follows("!(") { // an extended glob
			p.giveUp()
		}
		p.at++
		p.blanks()
		st.Negated = true
	}
	p.command(st)
	for p.peek() == '|' && !p.follows("||") {
		b := p.binaries.take()
		b.OpPos, b.Op, b.X = p.pos(p.at), syntax.Pipe, st
		p.at++
		if p.peek() == '&' {
			b.Op = syntax.PipeAll
			p.at++
		}
		p.lines()
		b.Y = p.stmt(p.pos(p.at))
		p.command(b.Y)
		st = p.stmt(st.Position)
		st.Cmd, st.Negated, b.X.Negated = b, b.X.Negated, false
	}
	return st
}

// reserved says whether a word begins something else than a simple command, or
// nothing at all.
func reserved(word string) bool {
	switch word {
	case "{", "if", "while", "until", "for", "declare", "local", "export", "readonly", "typeset", "nameref",
		"}", "then", "elif", "fi", "do", "done", "esac", "!", "case", "[[", "]]", "let", "function", "time", "coproc", "select":
		return true
	}
	return false
}

// command parses a command into a statement, and the blanks after it.
func (p *parser) command(st *syntax.Stmt) {
	redirects := p.redirectLists.begin()
	compound := true
	switch word := p.keyword(); word {
	case "{":
		st.Cmd = p.block()
	case "if":
		st.Cmd = p.ifClause()
	case "while", "until":
		st.Cmd = p.whileClause(word)
	case "for":
		st.Cmd = p.forClause()
	case "declare", "local", "export", "readonly", "typeset", "nameref":
		st.Cmd = p.declaration(word)
	default:
		if reserved(word) {
			p.giveUp()
		}
		if p.peek() == '(' {
			st.Cmd = p.subshell()
			break
		}
		compound = false
		if call := p.call(); call != nil {
			st.Cmd = call
		}
	}
	if compound {
		for p.blanks(); p.redirection(); p.blanks() {
			p.redirectLists.add(p.redirect())
		}
	}
	st.Redirs = p.redirectLists.end(redirects)
	if st.Cmd == nil && st.Redirs == nil {
		p.giveUp()
	}
}
