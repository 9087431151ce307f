package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (w *walker) stmts(list []*syntax.Stmt) {
	for _, st := range list {
		w.stmt(st, nil)
	}
}

type redirs struct {
	reads, writes []string
	in            *input
}

func (w *walker) redirs(list []*syntax.Redirect) (r redirs) {
	for _, rd := range list {
		switch rd.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			text, known := w.text(rd.Hdoc)
			w.given(&r, rd, text, known)
		case syntax.WordHdoc:
			text, known := w.text(rd.Word)
			w.given(&r, rd, text+"\n", known)
		case syntax.RdrIn:
			text, _ := w.text(rd.Word)
			r.reads = append(r.reads, text)
			if printed := w.written(text); printed != "" {
				w.given(&r, rd, printed, true)
			}
		case syntax.DplIn, syntax.DplOut:
			text, _ := w.text(rd.Word)
			if printed := w.written("/dev/fd/" + text); printed != "" && rd.Op == syntax.DplIn {
				w.given(&r, rd, printed, true)
			}
			if strings.Trim(text, "0123456789-") != "" { // >& FILE is &> FILE
				r.writes = append(r.writes, text)
			}
		default:
			text, _ := w.text(rd.Word)
			r.writes = append(r.writes, text)
		}
	}
	return r
}

// given is a text that a descriptor is to give, standard input if none is named.
func (w *walker) given(r *redirs, rd *syntax.Redirect, text string, known bool) {
	switch {
	case rd.N == nil || rd.N.Value == "0":
		r.in = &input{text: text, known: known}
	case known:
		w.put("/dev/fd/"+rd.N.Value, text)
	}
}

func (w *walker) stmt(st *syntax.Stmt, in *input) {
	if st == nil {
		return
	}
	if w.full() {
		w.out.Limited = true
		return
	}
	if st.Background || st.Coprocess {
		w.apartFrom(func() { w.forValues(func() { w.look(st, in) }) })
	} else {
		w.forValues(func() { w.look(st, in) })
	}
}

// look looks at a statement as its variables are.
func (w *walker) look(st *syntax.Stmt, in *input) {
	mark := len(w.names)
	r := w.redirs(st.Redirs)
	if r.in == nil {
		r.in = in
	}
	switch cmd := st.Cmd.(type) {
	case *syntax.CallExpr:
		w.call(cmd, &r, mark)
		w.write(st, r.writes, in)
		return
	case *syntax.DeclClause:
		w.declare(cmd)
	case *syntax.BinaryCmd:
		switch cmd.Op {
		case syntax.AndStmt:
			w.and(cmd, r.in)
		case syntax.OrStmt:
			w.or(cmd, r.in)
		default:
			w.pipeline(st, r.in)
		}
	case *syntax.Subshell:
		w.apartFrom(func() { w.list(cmd.Stmts, r.in) })
		w.write(st, r.writes, r.in)
	case *syntax.Block:
		w.list(cmd.Stmts, r.in)
		w.write(st, r.writes, r.in)
	case *syntax.IfClause:
		w.choose(cmd, r.in)
	case *syntax.WhileClause:
		w.while(cmd, r.in)
	case *syntax.ForClause:
		if loop, ok := cmd.Loop.(*syntax.WordIter); ok {
			w.forEach(loop, cmd.Do, r.in)
		} else {
			w.inner(cmd.Loop)
			w.loop(nil, cmd.Do, r.in)
		}
	case *syntax.CaseClause:
		w.text(cmd.Word)
		w.cases(cmd.Items, r.in)
	case *syntax.FuncDecl:
		w.ways(true, func() { w.function(cmd.Body, nil) })
		if cmd.Name != nil {
			w.define(cmd.Name.Value, cmd.Body)
		}
	case *syntax.TimeClause:
		w.stmt(cmd.Stmt, r.in)
	case *syntax.CoprocClause:
		w.stmt(cmd.Stmt, r.in)
	case nil:
	default:
		w.inner(cmd)
	}
	if len(r.reads)+len(r.writes) > 0 {
		w.add(&Command{Reads: r.reads, Writes: r.writes, Via: w.via})
	}
}

func (w *walker) list(list []*syntax.Stmt, in *input) {
	for _, st := range list {
		w.stmt(st, in)
	}
}

// inner walks the substitutions within a node that runs nothing itself.
func (w *walker) inner(n syntax.Node) {
	walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			w.apartFrom(func() { w.stmts(n.Stmts) })
			return false
		case *syntax.ProcSubst:
			w.apartFrom(func() { w.stmts(n.Stmts) })
			return false
		}
		return true
	})
}

// walk is syntax.Walk, which panics at braces that an evaluation has split.
func walk(n syntax.Node, f func(syntax.Node) bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		word, ok := n.(*syntax.Word)
		if !ok || !slices.ContainsFunc(word.Parts, isBraces) {
			return n == nil || f(n)
		}
		for _, part := range word.Parts {
			braces, ok := part.(*syntax.BraceExp)
			if !ok {
				walk(part, f)
				continue
			}
			for _, element := range braces.Elems {
				walk(element, f)
			}
		}
		return false
	})
}

func (w *walker) pipeline(st *syntax.Stmt, in *input) {
	var room [8]*syntax.Stmt
	stages := room[:0]
	for {
		b, ok := st.Cmd.(*syntax.BinaryCmd)
		if !ok || b.Op != syntax.Pipe && b.Op != syntax.PipeAll {
			break
		}
		stages = append(stages, b.Y)
		st = b.X
	}
	stages = append(stages, st)
	slices.Reverse(stages)
	var places [len(room) + 1]int
	begins := append(places[:0], len(w.out.Commands))
	for i, stage := range stages {
		if i+1 < len(stages) {
			w.apartFrom(func() { w.stmt(stage, in) })
		} else {
			w.ways(true, func() { w.stmt(stage, in) }) // in zsh it is no shell of its own
		}
		begins = append(begins, len(w.out.Commands))
		if i+1 < len(stages) {
			in = w.room.input(stage, in)
		}
	}
	for i := range stages {
		before := w.namesOf(begins[max(0, i-neighbours)], begins[i])
		if slices.ContainsFunc(stages[i].Redirs, replacesInput) {
			before = nil
		}
		after := w.namesOf(begins[i+1], begins[min(len(stages), i+1+neighbours)])
		for j := begins[i]; j < begins[i+1]; j++ {
			c := w.out.Commands[j]
			c.From = joined(c.From, before)
			c.To = joined(c.To, after)
		}
	}
}

// replacesInput says that a redirection takes the place of a pipe. A file may be
// the pipe itself, and $(cat) within a document may read it.
func replacesInput(rd *syntax.Redirect) bool {
	switch rd.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		return (rd.N == nil || rd.N.Value == "0") && (rd.Hdoc == nil || !substitutes(rd.Hdoc))
	case syntax.WordHdoc:
		return (rd.N == nil || rd.N.Value == "0") && !substitutes(rd.Word)
	}
	return false
}

// substitutes says that a word takes a command's output.
func substitutes(word *syntax.Word) (found bool) {
	walk(word, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			found = true
		}
		return !found
	})
	return found
}

// joined is a followed by b, in memory of its own unless one is empty: neither
// is ever appended to in place.
func joined(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b[:len(b):len(b)]
	case len(b) == 0:
		return a
	}
	return append(a[:len(a):len(a)], b...)
}

func (w *walker) namesOf(from, to int) []string {
	names := w.room.list(to - from)
	for i := from; i < to; i++ {
		if n := w.out.Commands[i].Name; n != "" {
			names = append(names, n)
		}
	}
	return names
}
