package detect

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"github.com/pinta-ai/pinta-agent/guard/literal"
)

// pattern is one regular expression of a detector. Its text is parsed when the
// set is built; everything that costs memory is made when first needed.
type pattern struct {
	source   string
	branches []branch
	prefixed *prefixed // nil if the expression is of another form

	once sync.Once
	re   *regexp.Regexp
}

// branch is one top-level alternative: somewhere within each of its matches one
// of the words begins, at most before bytes after the match's own begin.
type branch struct {
	words  []string // none: any offset
	before int
	tail   string // the expression from the word on; as text, for a parsed tree is large and seldom needed

	mu  sync.Mutex
	dfa *dfa
}

const maxWindow = 1 << 16 // bytes that one open-ended match may take

func newPattern(source string) (*pattern, error) {
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, err
	}
	p := &pattern{source: source}
	for _, b := range literal.Branches(tree) {
		if len(b.Words) == 0 { // the automaton has to try every offset
			p.branches = []branch{{tail: tree.String()}}
			break
		}
		p.branches = append(p.branches, branch{words: b.Words, before: b.Before, tail: b.Tail.String()})
	}
	if x := newPrefixed(tree); x != nil && len(p.branches) == 1 && len(p.branches[0].words) > 0 && p.branches[0].before == literal.Longest(tree.Sub[0]) {
		p.prefixed = x // its words begin T, for no other part of T comes before them
	}
	return p, nil
}

func (p *pattern) compiled() *regexp.Regexp {
	p.once.Do(func() { p.re = regexp.MustCompile(p.source) })
	return p.re
}

// implies says whether each word holds one of the keywords.
func (b *branch) implies(keywords []string) bool {
	if len(b.words) == 0 {
		return false
	}
	for _, w := range b.words {
		held := false
		for _, k := range keywords {
			held = held || strings.Contains(w, k)
		}
		if !held {
			return false
		}
	}
	return true
}
