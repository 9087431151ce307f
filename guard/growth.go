package guard

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// maxGrowth is how many times larger than the event a text may become that a
// condition makes of it. Time is watched while a condition runs, memory isn't: a
// chain of replacements by something longer would take all there is, and the
// process with it.
const maxGrowth = 16

// checkGrowth refuses a condition that makes huge texts.
func checkGrowth(root ast.Expr) error {
	g := growth{}
	if n := g.of(root, nil); g.problem == nil && n > maxGrowth {
		g.problem = fmt.Errorf("makes texts up to %.0f times as large as the event, at most %d times are taken; replace by something shorter", n, maxGrowth)
	}
	return g.problem
}

type growth struct{ problem error }

// of is how many times larger than the event the texts in a value may be. vars
// are those of the comprehensions around it.
func (g *growth) of(e ast.Expr, vars map[string]float64) float64 {
	switch e.Kind() {
	case ast.IdentKind:
		if n, ok := vars[e.AsIdent()]; ok {
			return n
		}
		return 1
	case ast.SelectKind:
		return g.of(e.AsSelect().Operand(), vars)
	case ast.ListKind:
		return g.sum(e.AsList().Elements(), vars)
	case ast.MapKind:
		n := 0.0
		for _, entry := range e.AsMap().Entries() {
			n += g.of(entry.AsMapEntry().Key(), vars) + g.of(entry.AsMapEntry().Value(), vars)
		}
		return n
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		inner := map[string]float64{}
		for k, v := range vars {
			inner[k] = v
		}
		inner[c.IterVar()], inner[c.AccuVar()] = g.of(c.IterRange(), vars), g.of(c.AccuInit(), vars)
		g.of(c.LoopCondition(), inner)
		inner[c.AccuVar()] = g.of(c.LoopStep(), inner)
		return g.of(c.Result(), inner)
	case ast.CallKind:
		return g.call(e.AsCall(), vars)
	}
	return 0 // a constant, which an expression's length bounds
}

func (g *growth) call(c ast.CallExpr, vars map[string]float64) float64 {
	args := c.Args()
	most := 0.0
	for _, a := range args {
		most = max(most, g.of(a, vars))
	}
	if !c.IsMemberFunction() {
		if c.FunctionName() == operators.Add {
			return g.sum(args, vars)
		}
		return most
	}
	target := g.of(c.Target(), vars)
	switch c.FunctionName() {
	case "replace":
		old, ok := constantText(args[0])
		by, ok2 := constantText(args[1])
		if !ok || !ok2 {
			return g.refuse("what replace looks for and puts in has to be constant")
		}
		if len(by) <= len(old) {
			return target
		}
		return target * (1 + float64(len(by))/float64(max(1, len(old))))
	case "join":
		if makesList(c.Target()) {
			return g.refuse("join is for lists of the event and the parts of split")
		}
		if len(args) == 0 {
			return target
		}
		between, ok := constantText(args[0])
		if !ok {
			return g.refuse("what join puts between has to be constant")
		}
		return target * float64(1+len(between))
	case "format":
		return target + most
	}
	return max(target, most)
}

func (g *growth) refuse(why string) float64 {
	g.problem = errors.New(why)
	return 0
}

func (g *growth) sum(list []ast.Expr, vars map[string]float64) (n float64) {
	for _, e := range list {
		n += g.of(e, vars)
	}
	return n
}

func constantText(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// makesList says that a list is one of map or filter, which may hold the whole
// event in each element.
func makesList(e ast.Expr) (found bool) {
	walk(e, func(e ast.Expr) { found = found || e.Kind() == ast.ComprehensionKind })
	return found
}
