package shell

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// emptiness is what a condition finds out: whether a variable is empty.
type emptiness struct {
	name  string // none if the condition is another one
	empty bool
}

// emptiness reads [ -z "$X" ], test -n "$X", [[ $X ]] and their negations.
func (w *walker) emptiness(cond ...*syntax.Stmt) (e emptiness) {
	if len(cond) != 1 || cond[0].Background || cond[0].Coprocess {
		return e
	}
	switch test := cond[0].Cmd.(type) {
	case *syntax.CallExpr:
		e = w.classicTest(test.Args)
	case *syntax.TestClause:
		switch x := test.X.(type) {
		case *syntax.Word:
			e.name = variableOf(x, false)
		case *syntax.UnaryTest:
			if word, ok := x.X.(*syntax.Word); ok && (x.Op == syntax.TsEmpStr || x.Op == syntax.TsNempStr) {
				e.name, e.empty = variableOf(word, false), x.Op == syntax.TsEmpStr
			}
		}
	}
	e.empty = e.empty != cond[0].Negated
	return e
}

func (w *walker) classicTest(words []*syntax.Word) (e emptiness) {
	last := len(words) - 1
	switch {
	case last < 1 || len(w.funcs[words[0].Lit()]) > 0:
		return e
	case words[0].Lit() == "[" && words[last].Lit() == "]":
		words = words[1:last]
	case words[0].Lit() == "test":
		words = words[1:]
	default:
		return e
	}
	not := false
	for ; len(words) > 1 && words[0].Lit() == "!"; words = words[1:] {
		not = !not
	}
	switch {
	case len(words) == 1:
		e.name = variableOf(words[0], true)
	case len(words) == 2 && (words[0].Lit() == "-z" || words[0].Lit() == "-n"):
		e.name, e.empty = variableOf(words[1], true), words[0].Lit() == "-z"
	}
	e.empty = e.empty != not
	return e
}

// variableOf is the variable whose value alone a word is; without quotes [ -n $X ]
// holds when X is empty.
func variableOf(word *syntax.Word, quoted bool) string {
	parts := word.Parts
	if len(parts) == 1 {
		if quotes, ok := parts[0].(*syntax.DblQuoted); ok {
			parts, quoted = quotes.Parts, false
		}
	}
	if len(parts) != 1 || quoted {
		return ""
	}
	p, ok := parts[0].(*syntax.ParamExp)
	if !ok || p.Param == nil || p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 {
		return ""
	}
	if e := p.Exp; e != nil && (e.Op != syntax.DefaultUnset && e.Op != syntax.DefaultUnsetOrNull || e.Word != nil && len(e.Word.Parts) > 0) {
		return ""
	}
	return p.Param.Value
}

// narrow leaves a variable the values that it may have where a condition has said
// whether it is empty. If it can have none of them the analysis doesn't know it.
func (w *walker) narrow(e emptiness) {
	x, ok := w.vars.now[e.name]
	if !ok {
		return
	}
	texts := slices.DeleteFunc(append([]string{x.text}, x.others...), func(text string) bool { return (text == "") != e.empty })
	if len(texts) == 0 {
		w.vars.unset(e.name)
		return
	}
	x.text, x.others = texts[0], texts[1:]
	x.unknown = x.unknown && !e.empty
	w.vars.put(e.name, x)
}

func (e emptiness) not() emptiness { return emptiness{e.name, !e.empty} }

// leftBy narrows a variable after a branch that was taken under a condition, if
// nothing follows that branch. What it leaves behind is seen by traps.
func (w *walker) leftBy(e emptiness, branch ...*syntax.Stmt) {
	if e.name != "" && len(w.traps) == 0 && w.ends(branch) {
		w.narrow(e.not())
	}
}

// ends says that a list surely ends the shell, or the function that it stands in.
func (w *walker) ends(list []*syntax.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	st := list[len(list)-1]
	if st.Negated || st.Background || st.Coprocess || len(st.Redirs) > 0 {
		return false
	}
	switch cmd := st.Cmd.(type) {
	case *syntax.Block:
		return w.ends(cmd.Stmts)
	case *syntax.CallExpr:
		if len(cmd.Assigns) > 0 || len(cmd.Args) == 0 || len(cmd.Args) > 2 || len(cmd.Args) == 2 && cmd.Args[1].Lit() == "" { // bash goes on after "exit a b"
			return false
		}
		name := cmd.Args[0].Lit()
		return len(w.funcs[name]) == 0 && (name == "exit" || name == "return" && w.inFunction > 0)
	}
	return false
}
