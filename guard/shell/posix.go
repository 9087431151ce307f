package shell

import (
	"encoding/base64"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Posix analyses a text that bash, sh or zsh would run. A text with a syntax
// error runs up to the line of the error, so what was parsed before counts; the
// rest is cut into words roughly.
func Posix(text string) Script {
	w := &walker{vars: map[string]string{"HOME": "~", "PWD": ".", "IFS": " \t\n"}}
	w.script(text)
	return w.out
}

type walker struct {
	out      Script
	vars     map[string]string // constant values, in the order of the text
	via      []string
	nesting  int
	outputs  int
	expanded int
	from     *[]string // collects the names of substitutions of the command at hand
}

// shallow feeds the parser in small pieces and stops it when its recursion is
// deep: a stack overflow could not be recovered.
type shallow struct{ text string }

var errDeep = errors.New("nested too deep")

func (r *shallow) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	var one [1]uintptr
	if runtime.Callers(maxFrames, one[:]) > 0 {
		return 0, errDeep
	}
	n := copy(p[:min(len(p), 256)], r.text)
	r.text = r.text[n:]
	return n, nil
}

func (w *walker) script(text string) {
	if w.nesting >= maxNesting || len(w.out.Commands) >= maxCommands {
		w.out.Partial = true
		return
	}
	w.nesting++
	defer func() { w.nesting-- }()
	done := 0
	for st, err := range syntax.NewParser(syntax.Variant(syntax.LangBash)).StmtsSeq(&shallow{text}) {
		if err != nil {
			w.out.Partial = true
			w.rough(text[min(done, len(text)):])
			return
		}
		w.stmt(st, nil)
		done = int(st.End().Offset())
	}
}

// rough cuts what no parser took into words.
func (w *walker) rough(text string) {
	for _, c := range tokenize(text, '\\') {
		w.words(c.words, nil, nil, nil)
	}
}

func (w *walker) stmts(list []*syntax.Stmt) {
	for _, st := range list {
		w.stmt(st, nil)
	}
}

// input is what is known of a command's standard input.
type input struct {
	text  string
	known bool
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
			r.in = &input{text, known}
		case syntax.WordHdoc:
			text, known := w.text(rd.Word)
			r.in = &input{text + "\n", known}
		case syntax.RdrIn:
			text, _ := w.text(rd.Word)
			r.reads = append(r.reads, text)
		case syntax.DplIn, syntax.DplOut:
			text, _ := w.text(rd.Word)
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

func (w *walker) stmt(st *syntax.Stmt, in *input) {
	if st == nil || len(w.out.Commands) >= maxCommands {
		w.out.Partial = w.out.Partial || st != nil
		return
	}
	outer := w.from
	var from []string
	w.from = &from
	r := w.redirs(st.Redirs)
	if r.in == nil {
		r.in = in
	}
	switch cmd := st.Cmd.(type) {
	case *syntax.CallExpr:
		w.call(cmd, r, &from)
		w.from = outer
		w.collect(from)
		return
	case *syntax.DeclClause:
		w.declare(cmd)
	case *syntax.BinaryCmd:
		if cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll {
			w.pipeline(st, r.in)
		} else {
			w.stmt(cmd.X, r.in)
			w.stmt(cmd.Y, r.in)
		}
	case *syntax.Subshell:
		w.stmts(cmd.Stmts)
	case *syntax.Block:
		for _, s := range cmd.Stmts {
			w.stmt(s, r.in)
		}
	case *syntax.IfClause:
		for c := cmd; c != nil; c = c.Else {
			w.stmts(c.Cond)
			w.stmts(c.Then)
		}
	case *syntax.WhileClause:
		w.stmts(cmd.Cond)
		w.stmts(cmd.Do)
	case *syntax.ForClause:
		if loop, ok := cmd.Loop.(*syntax.WordIter); ok {
			var items []string
			for _, item := range loop.Items {
				items = append(items, w.fields(item)...)
			}
			if len(items) > 0 {
				w.vars[loop.Name.Value] = items[0]
			}
		} else {
			w.inner(cmd.Loop)
		}
		w.stmts(cmd.Do)
	case *syntax.CaseClause:
		w.text(cmd.Word)
		for _, item := range cmd.Items {
			w.stmts(item.Stmts)
		}
	case *syntax.FuncDecl:
		w.stmt(cmd.Body, nil)
	case *syntax.TimeClause:
		w.stmt(cmd.Stmt, r.in)
	case *syntax.CoprocClause:
		w.stmt(cmd.Stmt, r.in)
	case nil:
	default:
		w.inner(cmd)
	}
	w.from = outer
	w.collect(from)
	if len(r.reads)+len(r.writes) > 0 {
		w.add(Command{Reads: r.reads, Writes: r.writes, Via: w.via})
	}
}

func (w *walker) collect(names []string) {
	if w.from != nil {
		*w.from = append(*w.from, names...)
	}
}

// inner walks the substitutions within a node that runs nothing itself.
func (w *walker) inner(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			w.stmts(n.Stmts)
			return false
		case *syntax.ProcSubst:
			w.stmts(n.Stmts)
			return false
		}
		return true
	})
}

func (w *walker) pipeline(st *syntax.Stmt, in *input) {
	var stages []*syntax.Stmt
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
	var names [][]string
	first := len(w.out.Commands)
	var begins []int
	for _, stage := range stages {
		begin := len(w.out.Commands)
		begins = append(begins, begin)
		w.stmt(stage, in)
		var list []string
		for _, c := range w.out.Commands[begin:] {
			if c.Name != "" {
				list = append(list, c.Name)
			}
		}
		names = append(names, list)
		text, known := w.output(stage, in)
		in = &input{text, known}
	}
	for i, stage := len(w.out.Commands)-1, len(stages)-1; i >= first; i-- {
		for stage > 0 && i < begins[stage] {
			stage--
		}
		c := &w.out.Commands[i]
		c.From = append(c.From, slices.Concat(names[max(0, stage-neighbours):stage]...)...)
		c.To = append(c.To, slices.Concat(names[stage+1:min(len(names), stage+1+neighbours)]...)...)
	}
}

// output is what a stage prints, if that is plain from its text.
func (w *walker) output(st *syntax.Stmt, in *input) (string, bool) {
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || w.outputs >= 3 { // its words are evaluated again: never again within again
		return "", false
	}
	w.outputs++
	defer func() { w.outputs-- }()
	outer, from := w.from, []string(nil)
	w.from = &from
	muted := len(w.out.Commands)
	var words []string
	known := true
	for _, a := range call.Args {
		text, ok := w.text(a)
		known = known && ok
		words = append(words, text)
	}
	r := w.redirs(st.Redirs)
	w.out.Commands = w.out.Commands[:min(muted, len(w.out.Commands))]
	w.from = outer
	if !known {
		return "", false
	}
	if r.in != nil {
		in = r.in
	}
	c := newCommand(words)
	switch c.Name {
	case "echo":
		args := c.Argv
		escapes := false
		for len(args) > 0 && len(args[0]) > 1 && strings.Trim(args[0], "-neE") == "" && args[0][0] == '-' {
			escapes = escapes || strings.Contains(args[0], "e")
			args = args[1:]
		}
		text := strings.Join(args, " ")
		if escapes {
			text = unescape(text)
		}
		return text + "\n", true
	case "printf":
		if len(c.Argv) == 0 {
			return "", false
		}
		text, _, err := expand.Format(nil, c.Argv[0], c.Argv[1:])
		return text, err == nil
	case "cat", "tee":
		if in != nil && in.known && len(c.Args) == 0 {
			return in.text, true
		}
	case "base64":
		if in != nil && in.known && (slices.Contains(c.Flags, "d") || slices.Contains(c.Flags, "D") || slices.Contains(c.Flags, "decode")) {
			data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(in.text), ""))
			return string(data), err == nil
		}
	}
	return "", false
}

func unescape(text string) string {
	if out, _, err := expand.Format(nil, strings.ReplaceAll(text, "%", "%%"), nil); err == nil {
		return out
	}
	return text
}

func (w *walker) call(cmd *syntax.CallExpr, r redirs, from *[]string) {
	var env []string
	for _, a := range cmd.Assigns {
		env = append(env, w.assign(a, len(cmd.Args) == 0))
	}
	var words []string
	for _, a := range cmd.Args {
		words = append(words, w.fields(a)...)
	}
	if len(words) == 0 {
		if len(env)+len(r.reads)+len(r.writes) > 0 {
			w.add(Command{Env: env, Reads: r.reads, Writes: r.writes, Via: w.via, From: *from})
		}
		return
	}
	w.words(words, env, &r, *from)
}

func (w *walker) assign(a *syntax.Assign, keep bool) string {
	value, known := "", true
	if a.Value != nil {
		value, known = w.text(a.Value)
	} else if a.Array != nil {
		w.inner(a.Array)
	}
	name := ""
	if a.Name != nil {
		name = a.Name.Value
	} else {
		return value
	}
	if a.Naked {
		return name
	}
	if keep && a.Index == nil && a.Array == nil {
		if a.Append {
			value = w.vars[name] + value
		}
		if known {
			w.vars[name] = value
		} else {
			delete(w.vars, name)
		}
	}
	return name + "=" + value
}

func (w *walker) declare(d *syntax.DeclClause) {
	words := []string{d.Variant.Value}
	var env []string
	for _, a := range d.Args {
		word := w.assign(a, true)
		words = append(words, word)
		if a.Name != nil && !a.Naked {
			env = append(env, word)
		}
	}
	c := newCommand(words)
	c.Env, c.Via = env, w.via
	w.add(c)
}

func (w *walker) add(c Command) {
	if len(w.out.Commands) >= maxCommands {
		w.out.Partial = true
		return
	}
	c.Via = slices.Clone(c.Via)
	w.out.Commands = append(w.out.Commands, c)
	if c.Name != "" {
		w.collect([]string{c.Name})
	}
}

// words records a command and goes on with what it runs in turn.
func (w *walker) words(words, env []string, r *redirs, from []string) {
	for len(words) > 0 && words[0] == "!" {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	c := newCommand(words)
	c.Env, c.Via, c.From = env, w.via, slices.Clone(from)
	var in *input
	if r != nil {
		c.Reads, c.Writes, in = r.reads, r.writes, r.in
	}
	w.add(c)
	run := c.runs()
	if in != nil && in.known {
		if run.stdin {
			run.script = in.text
		} else if c.Name == "xargs" && run.words != nil {
			run.words = append(slices.Clone(run.words), strings.Fields(in.text)...)
		}
	}
	if run.words == nil && (run.script == "" || run.script == unknownValue) {
		return
	}
	outer := w.via
	w.via = append(slices.Clone(w.via), c.Name)
	defer func() { w.via = outer }()
	if run.script != "" {
		if run.powershell {
			for _, inner := range PowerShell(run.script).Commands {
				inner.Via = append(slices.Clone(w.via), inner.Via...)
				w.add(inner)
			}
			return
		}
		w.script(run.script)
		return
	}
	if w.nesting >= maxNesting {
		w.out.Partial = true
		return
	}
	w.nesting++
	w.words(run.words, run.env, r, from)
	w.nesting--
}
