package literal

import (
	"regexp/syntax"
	"sort"
)

const (
	maxWords = 64      // literals of a branch
	telling  = 6       // a literal longer than this is no better, the first wins
	far      = 1 << 16 // bytes; what begins later in a match is of no use
)

// Unbounded is the length of a match that has no bound.
const Unbounded = 1 << 30

// Branch is one top-level alternative of a regular expression: within each of
// its matches one of Words begins, at most Before bytes after the match's own
// begin. Tail is the expression from there on.
type Branch struct {
	Words  []string // folded; none if no literal of two bytes could be derived
	Before int
	Tail   *syntax.Regexp
}

// Branches derives the literals of an expression that was parsed with
// syntax.Perl.
func Branches(tree *syntax.Regexp) []Branch {
	var list []Branch
	for _, alternative := range alternatives(tree) {
		if b, ok := newBranch(alternative); ok {
			list = append(list, *b)
		} else {
			list = append(list, Branch{Tail: alternative})
		}
	}
	return list
}

// Required gives words of which at least one is in every match of an
// expression, folded; nil if none could be derived. Unlike Branches it says
// nothing about where, and so finds more.
func Required(tree *syntax.Regexp) []string {
	words := required(tree)
	if least(words) == 0 || len(words) > maxRequired {
		return nil
	}
	return words
}

const maxRequired = 256

func required(tree *syntax.Regexp) (best []string) {
	switch tree.Op {
	case syntax.OpPlus:
		return required(tree.Sub[0])
	case syntax.OpRepeat:
		if tree.Min > 0 {
			return required(tree.Sub[0])
		}
		return nil
	case syntax.OpAlternate:
		for _, sub := range tree.Sub {
			one := required(sub)
			if least(one) == 0 || len(best)+len(one) > maxRequired {
				return sequence([]*syntax.Regexp{tree}).words
			}
			best = append(best, one...)
		}
		return distinct(best)
	}
	elements := flat(tree, nil)
	if len(elements) == 1 && elements[0] != tree {
		return required(elements[0])
	}
	consider := func(set []string) {
		a, b := min(least(set), telling), min(least(best), telling)
		if a > b || a == b && len(set) < len(best) {
			best = set
		}
	}
	for i, e := range elements {
		consider(sequence(elements[i:]).words)
		if e != tree && (e.Op == syntax.OpAlternate || e.Op == syntax.OpPlus || e.Op == syntax.OpRepeat) {
			consider(required(e))
		}
	}
	return best
}

func least(set []string) int { return words{words: set}.least() }

// alternatives splits a top-level alternation.
func alternatives(tree *syntax.Regexp) []*syntax.Regexp {
	if tree.Op == syntax.OpAlternate {
		return tree.Sub
	}
	return []*syntax.Regexp{tree}
}

// flat lists the elements of a concatenation, groups opened.
func flat(tree *syntax.Regexp, list []*syntax.Regexp) []*syntax.Regexp {
	switch tree.Op {
	case syntax.OpCapture:
		return flat(tree.Sub[0], list)
	case syntax.OpConcat:
		for _, sub := range tree.Sub {
			list = flat(sub, list)
		}
		return list
	}
	return append(list, tree)
}

// newBranch picks the element of the concatenation whose literals tell most.
func newBranch(tree *syntax.Regexp) (b *Branch, ok bool) {
	elements := flat(tree, nil)
	before, best := 0, 1
	for i, element := range elements {
		if set := sequence(elements[i:]); min(set.least(), telling) > best {
			best = min(set.least(), telling)
			b = &Branch{Words: set.words, Before: before,
				Tail: &syntax.Regexp{Op: syntax.OpConcat, Flags: tree.Flags, Sub: elements[i:]}}
		}
		if before = before + Longest(element); before >= far {
			break
		}
	}
	return b, b != nil
}

// words are the beginnings that a match of a part can have, folded; exact says
// that each is a whole match.
type words struct {
	words []string
	exact bool
}

func (w words) least() int {
	if len(w.words) == 0 {
		return 0
	}
	least := len(w.words[0])
	for _, s := range w.words {
		least = min(least, len(s))
	}
	return least
}

// What case folding makes equal to k and s, and a text never means by them.
const kelvin, longS = '\u212a', '\u017f'

var anything = words{words: []string{""}}

func sequence(list []*syntax.Regexp) words {
	all := words{words: []string{""}, exact: true}
	for _, element := range list {
		next := beginnings(element)
		if len(all.words)*len(next.words) > maxWords || all.least() > 24 {
			all.exact = false
			return all
		}
		crossed := make([]string, 0, len(all.words)*len(next.words))
		for _, a := range all.words {
			for _, b := range next.words {
				crossed = append(crossed, a+b)
			}
		}
		all.words = distinct(crossed)
		if !next.exact {
			all.exact = false
			return all
		}
	}
	return all
}

func beginnings(e *syntax.Regexp) words {
	switch e.Op {
	case syntax.OpLiteral:
		for _, r := range e.Rune {
			if r >= 0x80 && e.Flags&syntax.FoldCase != 0 {
				return anything
			}
		}
		return words{words: []string{fold(string(e.Rune))}, exact: true}
	case syntax.OpCharClass:
		var set []string
		for i := 0; i < len(e.Rune); i += 2 {
			if e.Rune[i+1] >= 0x80 && e.Rune[i] != e.Rune[i+1] || e.Rune[i+1]-e.Rune[i] > 20 {
				return anything
			}
			for r := e.Rune[i]; r <= e.Rune[i+1]; r++ {
				if r != kelvin && r != longS { // they come into a class by case folding
					set = append(set, fold(string(r)))
				}
			}
		}
		if set = distinct(set); len(set) == 0 || len(set) > 12 {
			return anything
		}
		return words{words: set, exact: true}
	case syntax.OpCapture, syntax.OpConcat:
		return sequence(e.Sub)
	case syntax.OpAlternate:
		all := words{exact: true}
		for _, sub := range e.Sub {
			one := beginnings(sub)
			all.words = append(all.words, one.words...)
			all.exact = all.exact && one.exact
		}
		if all.words = distinct(all.words); len(all.words) > maxWords {
			return anything
		}
		return all
	case syntax.OpQuest:
		one := beginnings(e.Sub[0])
		return words{words: distinct(append([]string{""}, one.words...)), exact: one.exact}
	case syntax.OpPlus:
		return words{words: beginnings(e.Sub[0]).words}
	case syntax.OpRepeat:
		if e.Min == 0 {
			return anything
		}
		times := make([]*syntax.Regexp, min(e.Min, 8))
		for i := range times {
			times[i] = e.Sub[0]
		}
		all := sequence(times)
		all.exact = all.exact && e.Min == e.Max && e.Min == len(times)
		return all
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText,
		syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return words{words: []string{""}, exact: true}
	}
	return anything
}

// Longest is the greatest length of a match in bytes, Unbounded if there is none.
func Longest(e *syntax.Regexp) int {
	switch e.Op {
	case syntax.OpLiteral:
		n := len(string(e.Rune))
		if e.Flags&syntax.FoldCase != 0 {
			n = 4 * len(e.Rune)
		}
		return n
	case syntax.OpCharClass:
		if n := len(e.Rune); n > 0 && e.Rune[n-1] >= 0x80 {
			return 4
		}
		return 1
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 4
	case syntax.OpStar, syntax.OpPlus:
		return Unbounded
	case syntax.OpRepeat:
		if e.Max < 0 {
			return Unbounded
		}
		return min(Unbounded, e.Max*Longest(e.Sub[0]))
	}
	n := 0
	for _, sub := range e.Sub {
		if e.Op == syntax.OpAlternate {
			n = max(n, Longest(sub))
		} else {
			n = min(Unbounded, n+Longest(sub))
		}
	}
	return n
}

func fold(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = Fold(b[i])
	}
	return string(b)
}

func distinct(list []string) []string {
	sort.Strings(list)
	out := list[:0]
	for i, s := range list {
		if i == 0 || s != list[i-1] {
			out = append(out, s)
		}
	}
	return out
}
