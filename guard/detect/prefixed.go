package detect

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
	"unicode/utf8"
)

// prefixed is an expression of the form X{0,n}?T, as most of gitleaks' rules
// are, with X one character and T beginning with one of the literals that the
// text was searched for. A text made to look like secrets has a hundred thousand
// candidates, and regexp spends microseconds a byte on two counted repeats.
// Here T alone is tried where the literals are, on just the bytes that the
// automaton says it could take; the leftmost match then begins as many X before
// the first T as there are, at most n.
type prefixed struct {
	source string
	class  []rune // ranges of X
	most   int

	once sync.Once
	tail *regexp.Regexp // anchored T
}

// newPrefixed gives nil for an expression of another form, or one that looks
// around itself otherwise than for the end of the text.
func newPrefixed(tree *syntax.Regexp) *prefixed {
	if tree.Op != syntax.OpConcat || len(tree.Sub) < 2 {
		return nil
	}
	x := tree.Sub[0]
	if x.Op != syntax.OpRepeat || x.Min != 0 || x.Max < 0 || x.Flags&syntax.NonGreedy == 0 || x.Sub[0].Op != syntax.OpCharClass {
		return nil
	}
	t := &syntax.Regexp{Op: syntax.OpConcat, Flags: tree.Flags, Sub: tree.Sub[1:]}
	prog, err := syntax.Compile(t.Simplify())
	if err != nil {
		return nil
	}
	for _, inst := range prog.Inst {
		if inst.Op == syntax.InstEmptyWidth && syntax.EmptyOp(inst.Arg) != syntax.EmptyEndText {
			return nil
		}
	}
	return &prefixed{source: `\A(?:` + t.String() + `)`, class: x.Sub[0].Rune, most: x.Max}
}

func (p *prefixed) compiled() *regexp.Regexp {
	p.once.Do(func() { p.tail = regexp.MustCompile(p.source) })
	return p.tail
}

// candidate is an offset at which T could begin, and the end of what it reads
// there.
type candidate struct{ at, end int }

// begin is the offset of the leftmost match whose T begins at at, not before
// low.
func (p *prefixed) begin(text string, low, at int) int {
	for range p.most {
		r, n := utf8.DecodeLastRuneInString(text[low:at])
		if n == 0 || !p.has(r) {
			break
		}
		at -= n
	}
	return at
}

func (p *prefixed) has(r rune) bool {
	for i := 0; i < len(p.class); i += 2 {
		if p.class[i] <= r && r <= p.class[i+1] {
			return true
		}
	}
	return false
}

// each calls found for the matches in text from low on, leftmost first and apart
// from each other, as FindAllStringIndex gives them, until found says false.
func (p *prefixed) each(text string, low int, list []candidate, found func(start, end int) bool) {
	t := p.compiled()
	for _, c := range list {
		if c.at < low {
			continue
		}
		loc := t.FindStringIndex(text[c.at:c.end])
		if loc == nil {
			continue
		}
		if !found(p.begin(text, low, c.at), c.at+loc[1]) {
			return
		}
		low = c.at + loc[1]
	}
}

// groups are the offsets of the groups in match, a match that stands at start,
// as FindStringSubmatchIndex gives them for the match alone.
func (p *prefixed) groups(match string, start int, list []candidate) []int {
	t := p.compiled()
	first, _ := slices.BinarySearchFunc(list, start, func(c candidate, at int) int { return c.at - at })
	for _, c := range list[first:] {
		at := c.at - start
		if at >= len(match) {
			break
		}
		if groups := t.FindStringSubmatchIndex(match[at:]); groups != nil {
			for i := range groups {
				if groups[i] >= 0 {
					groups[i] += at
				}
			}
			return groups
		}
	}
	return nil
}
