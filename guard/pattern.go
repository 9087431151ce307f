package guard

import (
	"errors"
	"fmt"
	"regexp/syntax"
)

// checkPattern refuses a regular expression that is too long, too large when
// compiled, or catastrophic: one that repeats a repeat of the same characters,
// as (a+)+ and (x+x+)+y do. Go's engine takes linear time on it all the same,
// but the policy may be read by engines that don't, and it never says more than
// the expression without the inner repeat.
func checkPattern(source string) error {
	if len(source) > maxPattern {
		return fmt.Errorf("a pattern is longer than %d bytes", maxPattern)
	}
	name := cut(source, 60)
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return fmt.Errorf("pattern %q: %w", name, err)
	}
	if catastrophic(tree) {
		return fmt.Errorf("pattern %q: %w", name, errNested)
	}
	if prog, err := syntax.Compile(tree.Simplify()); err != nil || len(prog.Inst) > maxProgram {
		return fmt.Errorf("pattern %q compiles to more than %d instructions; use smaller repeats", name, maxProgram)
	}
	return nil
}

var errNested = errors.New("repeats a repeat of the same characters; leave the inner or the outer one out")

func catastrophic(e *syntax.Regexp) bool {
	if endless(e) {
		parts := opened(e.Sub[0])
		for i, p := range parts {
			next := parts[(i+1)%len(parts)] // after the last the first begins again
			if endless(p) && endless(next) && overlap(opened(p.Sub[0]), opened(next.Sub[0])) {
				return true
			}
		}
	}
	for _, sub := range e.Sub {
		if catastrophic(sub) {
			return true
		}
	}
	return false
}

// endless says whether an expression may repeat without bound.
func endless(e *syntax.Regexp) bool {
	return e.Op == syntax.OpStar || e.Op == syntax.OpPlus || e.Op == syntax.OpRepeat && e.Max < 0
}

// opened lists the parts of a concatenation, groups opened.
func opened(e *syntax.Regexp) []*syntax.Regexp {
	switch e.Op {
	case syntax.OpCapture:
		return opened(e.Sub[0])
	case syntax.OpConcat:
		var list []*syntax.Regexp
		for _, sub := range e.Sub {
			list = append(list, opened(sub)...)
		}
		return list
	}
	return []*syntax.Regexp{e}
}

// overlap says whether two repeated bodies are each one character, and could be
// the same one.
func overlap(a, b []*syntax.Regexp) bool {
	if len(a) != 1 || len(b) != 1 {
		return false
	}
	x, y := runes(a[0]), runes(b[0])
	for i := 0; i+1 < len(x); i += 2 {
		for j := 0; j+1 < len(y); j += 2 {
			if x[i] <= y[j+1] && y[j] <= x[i+1] {
				return true
			}
		}
	}
	return false
}

// runes are the ranges of a one-character expression, none for any other.
func runes(e *syntax.Regexp) []rune {
	switch e.Op {
	case syntax.OpCharClass:
		return e.Rune
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return []rune{0, 0x10ffff}
	case syntax.OpLiteral:
		if len(e.Rune) == 1 {
			return []rune{e.Rune[0], e.Rune[0]}
		}
	}
	if endless(e) {
		return runes(opened(e.Sub[0])[0])
	}
	return nil
}
