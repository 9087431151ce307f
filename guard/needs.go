package guard

import (
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/pinta-ai/pinta-agent/guard/literal"
)

// need says which literals have to be in what a condition reads for it to be
// true. It may ask for less than it could, never for more.
type need struct {
	op   needOp
	word string // needWord
	sub  []need // needAll, needAny
	id   int    // of word in the automaton
}

type needOp uint8

const (
	needNothing needOp = iota
	needWord
	needAll
	needAny
	needNever // a condition that is constantly false
)

// met says whether the words that are there satisfy the need.
func (n *need) met(there []uint64) bool {
	switch n.op {
	case needWord:
		return there[n.id/64]&(1<<(n.id%64)) != 0
	case needAll:
		for i := range n.sub {
			if !n.sub[i].met(there) {
				return false
			}
		}
	case needAny:
		for i := range n.sub {
			if n.sub[i].met(there) {
				return true
			}
		}
		return false
	case needNever:
		return false
	}
	return true
}

// free says that the need is met by nothing at all.
func (n *need) free() bool {
	switch n.op {
	case needWord, needNever:
		return false
	case needAll:
		for i := range n.sub {
			if !n.sub[i].free() {
				return false
			}
		}
	case needAny:
		for i := range n.sub {
			if n.sub[i].free() {
				return true
			}
		}
		return false
	}
	return true
}

// number gives each word its id, shared between equal words.
func (n *need) number(ids map[string]int, words *[]string) {
	if n.op == needWord {
		w := fold(n.word)
		id, ok := ids[w]
		if !ok {
			id = len(*words)
			ids[w] = id
			*words = append(*words, w)
		}
		n.id = id
	}
	for i := range n.sub {
		n.sub[i].number(ids, words)
	}
}

// parts is the need of a condition on paths before paths are worked out: of each
// word the names between slashes, for these a path takes from the call or from
// cwd as they are. It asks for less than n.
func (n *need) parts() need {
	switch n.op {
	case needWord:
		var list []need
		for _, name := range strings.FieldsFunc(n.word, func(r rune) bool { return r == '/' || r == '\\' || r == '~' }) {
			if strings.Trim(name, ".") != "" { // . and .. are resolved
				list = append(list, word(name))
			}
		}
		return all(list...)
	case needAll, needAny:
		list := make([]need, len(n.sub))
		for i := range n.sub {
			list[i] = n.sub[i].parts()
		}
		if n.op == needAny {
			return anyOf(list...)
		}
		return all(list...)
	}
	return *n
}

func fold(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = literal.Fold(b[i])
	}
	return string(b)
}

func word(s string) need {
	if s == "" {
		return need{}
	}
	return need{op: needWord, word: s}
}

func all(list ...need) need {
	out := need{op: needAll}
	for _, n := range list {
		if n.op == needNever {
			return n
		}
		if !n.free() {
			out.sub = append(out.sub, n)
		}
	}
	switch len(out.sub) {
	case 0:
		return need{}
	case 1:
		return out.sub[0]
	}
	return out
}

func anyOf(list ...need) need {
	out := need{op: needAny}
	for _, n := range list {
		if n.free() {
			return need{}
		}
		if n.op != needNever {
			out.sub = append(out.sub, n)
		}
	}
	switch len(out.sub) {
	case 0:
		return need{op: needNever}
	case 1:
		return out.sub[0]
	}
	return out
}

// scope knows the variables of comprehensions around an expression.
type scope struct {
	outer  *scope
	name   string
	source bool     // an element of what a condition reads
	values []string // one of these constants
}

func (s *scope) find(name string) *scope {
	for ; s != nil; s = s.outer {
		if s.name == name {
			return s
		}
	}
	return nil
}

// needs derives the need of a boolean expression.
func needs(e ast.Expr, s *scope) need {
	switch e.Kind() {
	case ast.LiteralKind:
		if e.AsLiteral() == types.False {
			return need{op: needNever}
		}
	case ast.CallKind:
		return callNeeds(e.AsCall(), s)
	case ast.ComprehensionKind:
		return comprehensionNeeds(e.AsComprehension(), s)
	}
	return need{}
}

func callNeeds(c ast.CallExpr, s *scope) need {
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd:
		return all(needs(args[0], s), needs(args[1], s))
	case operators.LogicalOr:
		return anyOf(needs(args[0], s), needs(args[1], s))
	case operators.Conditional:
		return anyOf(all(needs(args[0], s), needs(args[1], s)), needs(args[2], s))
	case operators.NotStrictlyFalse:
		return needs(args[0], s)
	case operators.Equals:
		if reads(args[0], s) {
			return constant(args[1], s)
		}
		if reads(args[1], s) {
			return constant(args[0], s)
		}
	case operators.In, operators.OldIn:
		if reads(args[0], s) && args[1].Kind() == ast.ListKind {
			var list []need
			for _, el := range args[1].AsList().Elements() {
				list = append(list, constant(el, s))
			}
			return anyOf(list...)
		}
		if reads(args[1], s) {
			return constant(args[0], s)
		}
	case "contains", "startsWith", "endsWith":
		if c.IsMemberFunction() && len(args) == 1 && reads(c.Target(), s) {
			return constant(args[0], s)
		}
	case "matches":
		target, pattern := c.Target(), ast.Expr(nil)
		switch {
		case c.IsMemberFunction() && len(args) == 1:
			pattern = args[0]
		case !c.IsMemberFunction() && len(args) == 2:
			target, pattern = args[0], args[1]
		}
		if pattern != nil && reads(target, s) {
			return patternNeeds(pattern)
		}
	}
	return need{}
}

// constant is the need for a constant string, or for one of those that a
// comprehension runs through.
func constant(e ast.Expr, s *scope) need {
	switch e.Kind() {
	case ast.LiteralKind:
		if v, ok := e.AsLiteral().(types.String); ok {
			return word(string(v))
		}
	case ast.IdentKind:
		if v := s.find(e.AsIdent()); v != nil && len(v.values) > 0 {
			var list []need
			for _, w := range v.values {
				list = append(list, word(w))
			}
			return anyOf(list...)
		}
	}
	return need{}
}

// patternNeeds takes the literals that a regular expression can't do without.
func patternNeeds(e ast.Expr) need {
	if e.Kind() != ast.LiteralKind {
		return need{}
	}
	v, ok := e.AsLiteral().(types.String)
	if !ok {
		return need{}
	}
	tree, err := syntax.Parse(string(v), syntax.Perl)
	if err != nil {
		return need{}
	}
	var list []need
	for _, w := range literal.Required(tree) {
		list = append(list, word(w))
	}
	if len(list) == 0 {
		return need{}
	}
	return anyOf(list...)
}

// reads says whether a value is a part of what the automaton passes over,
// letter case apart. Secrets aren't: they come from the detectors.
func reads(e ast.Expr, s *scope) bool {
	switch e.Kind() {
	case ast.IdentKind:
		name := e.AsIdent()
		if v := s.find(name); v != nil {
			return v.source
		}
		_, ok := variables[name]
		return ok && name != "secrets"
	case ast.SelectKind:
		return !e.AsSelect().IsTestOnly() && reads(e.AsSelect().Operand(), s)
	case ast.CallKind:
		c := e.AsCall()
		switch c.FunctionName() {
		case operators.Index:
			return reads(c.Args()[0], s)
		case "lowerAscii", "upperAscii", "trim", "substring", "split", "charAt":
			return c.IsMemberFunction() && reads(c.Target(), s)
		}
	}
	return false
}

// comprehensionNeeds reads what the macros exists and exists_one became.
func comprehensionNeeds(c ast.ComprehensionExpr, s *scope) need {
	inner := &scope{outer: s, name: c.IterVar()}
	if r := c.IterRange(); r.Kind() == ast.ListKind {
		for _, el := range r.AsList().Elements() {
			if el.Kind() != ast.LiteralKind {
				return need{}
			}
			v, ok := el.AsLiteral().(types.String)
			if !ok {
				return need{}
			}
			inner.values = append(inner.values, string(v))
		}
	} else {
		inner.source = reads(r, s)
	}
	step := c.LoopStep()
	if step.Kind() != ast.CallKind {
		return need{}
	}
	accu := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == c.AccuVar() }
	call := step.AsCall()
	switch args := call.Args(); call.FunctionName() {
	case operators.LogicalOr: // exists
		if accu(c.Result()) && len(args) == 2 && accu(args[0]) && c.AccuInit().Kind() == ast.LiteralKind && c.AccuInit().AsLiteral() == types.False {
			return needs(args[1], inner)
		}
	case operators.Conditional: // exists_one
		if res := c.Result(); res.Kind() == ast.CallKind && res.AsCall().FunctionName() == operators.Equals && strings.HasPrefix(c.AccuVar(), "@") {
			return needs(args[0], inner)
		}
	}
	return need{}
}
