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

func (p *parser) subshell() *syntax.Subshell {
	s := p.subshells.take()
	s.Lparen = p.expect('(')
	if c := p.peek(); c == '(' || c == ')' { // arithmetic, a function
		p.giveUp()
	}
	p.parens++
	s.Stmts = p.some()
	p.parens--
	s.Rparen = p.expect(')')
	return s
}

func (p *parser) block() *syntax.Block {
	b := p.blocks.take()
	b.Lbrace = p.need("{")
	b.Stmts = p.some("}")
	b.Rbrace = p.need("}")
	return b
}

func (p *parser) ifClause() *syntax.IfClause {
	first := p.ifs.take()
	first.Position = p.need("if")
	last := first
	for {
		last.Cond = p.some("then")
		last.ThenPos = p.need("then")
		last.Then = p.some("fi", "elif", "else")
		if p.keyword() != "elif" {
			break
		}
		next := p.ifs.take()
		next.Position = p.need("elif")
		last.Else, last = next, next
	}
	if p.keyword() == "else" {
		last.Else = p.ifs.take()
		last.Else.Position = p.need("else")
		last.Else.Then = p.some("fi")
	}
	end := p.need("fi")
	for c := first; c != nil; c = c.Else {
		c.FiPos = end
	}
	return first
}

func (p *parser) whileClause(word string) *syntax.WhileClause {
	w := p.whiles.take()
	w.Until = word == "until"
	w.WhilePos = p.need(word)
	w.Cond = p.some("do")
	w.DoPos = p.need("do")
	w.Do = p.some("done")
	w.DonePos = p.need("done")
	return w
}

func (p *parser) forClause() *syntax.ForClause {
	f := p.fors.take()
	f.ForPos = p.need("for")
	p.blanks()
	f.Loop = p.wordIter()
	f.DoPos = p.need("do")
	f.Do = p.some("done")
	f.DonePos = p.need("done")
	return f
}

func (p *parser) wordIter() *syntax.WordIter {
	iter := p.iters.take()
	if c := p.peek(); class[c] == ends || class[c] == quotes {
		p.giveUp()
	}
	lit := p.literal()
	if !lit.whole || lit.end == p.at {
		p.giveUp()
	}
	iter.Name = p.lit(p.at, lit.end)
	p.at = lit.end
	p.blanks()
	if p.semicolon() {
		return iter
	}
	if p.lines(); p.keyword() == "do" {
		return iter
	}
	iter.InPos = p.need("in")
	items := p.wordLists.begin()
	for p.blanks(); p.peek() != 0 && p.peek() != '\n' && p.peek() != ';'; p.blanks() {
		p.wordLists.add(p.needWord())
	}
	iter.Items = p.wordLists.end(items)
	if !p.semicolon() {
		p.lines()
	}
	return iter
}

// semicolon takes one that separates, and the line ends after it.
func (p *parser) semicolon() bool {
	if p.peek() != ';' {
		return false
	}
	if p.follows(";;") || p.follows(";&") {
		p.giveUp()
	}
	p.at++
	p.lines()
	return true
}
