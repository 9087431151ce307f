package plain

import "mvdan.cc/sh/v3/syntax"

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
