package shell

import (
	"context"
	"errors"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

// Posix analyses a text that bash, sh or zsh would run. A text with a syntax
// error runs up to the line of the error, so what was parsed before counts; the
// rest is cut into words roughly. The commands are put into room.
func Posix(ctx context.Context, text string, room *Room) (out Script) {
	w := &walker{ctx: ctx, room: room, vars: map[string]string{"HOME": "~", "PWD": ".", "IFS": " \t\n", "SHELL": "sh", "BASH": "bash", "0": "bash"}}
	defer func() {
		if w.out.fault = recover(); w.out.fault != nil { // it must not let a command pass unseen
			w.out.Partial, w.out.Limited = true, true
			w.via, w.nesting = nil, maxNesting // only words from here on
			w.rough(text)
		}
		out = w.out
		room.keep(out.Commands)
		out.Commands = slices.Clip(out.Commands)
	}()
	w.out.Commands = room.listing()
	w.script(text)
	return w.out
}

type walker struct {
	ctx      context.Context
	out      Script
	vars     map[string]string           // constant values, in the order of the text
	files    map[string]*strings.Builder // what the script puts into files
	funcs    map[string]*syntax.Stmt     // bodies that depend on values
	via      []string
	names    []string // of the commands so far; what a command's own words ran stands behind its mark
	nesting  int
	outputs  int
	steps    int // statements looked at
	expanded int
	room     *Room
	spare    []piece // memory for the pieces of a word
}

func (w *walker) script(text string) {
	if w.nesting >= maxNesting || w.full() {
		w.out.Limited = true
		return
	}
	w.nesting++
	defer func() { w.nesting-- }()
	if strings.Contains(text, "\r") {
		text = returns.Replace(namedReturn.ReplaceAllString(text, "$1\x01\n"))
	}
	if done := w.room.trees.Statements(text, w.top); done < len(text) {
		w.rest(text[done:])
	}
}

// returns makes carriage returns what they are to a shell: nothing special. To
// the parser they are blanks, "\r# x; rm y" a comment, and "\\\r\n" no end of the
// line. At the end of a line they stay away.
var returns = strings.NewReplacer("\\\r\n", "\\\x01\n", "\r\n", "\n", "\r", "\x01")

// namedReturn is a redirection to a file whose name is the return: without it the
// next line would be the name.
var namedReturn = regexp.MustCompile(`([<>][|&]?[ \t]*)\r\n`)

// top takes a statement that no other one holds.
func (w *walker) top(st *syntax.Stmt) {
	w.stmt(st, nil)
	if w.nesting == 1 { // no statement around takes them
		w.names = w.names[:0]
	}
}

// rest analyses what isn't plain.
func (w *walker) rest(text string) {
	text, right := rightComments(w.ctx, joinParted(text))
	w.out.Limited = w.out.Limited || !right
	done := 0
	var fault error // the iterator may go on after its error and must not be left before it ends
	for st, err := range statements(w.ctx, text) {
		switch {
		case fault != nil:
		case err != nil:
			fault = err
		default:
			w.top(st)
			done = int(st.End().Offset())
		}
	}
	stop, unclosed := unclosedDocument(fault)
	switch {
	case fault == nil:
	case w.ctx.Err() != nil:
		w.out.Limited = true
	case unclosed && w.nesting < maxNesting && strings.Contains(text[done:], "<<"): // a shell takes all there is
		w.nesting++
		w.rest(text[done:] + "\n" + stop + "\n")
		w.nesting--
	default:
		w.out.Partial = true
		w.out.Limited = w.out.Limited || errors.Is(fault, errDeep)
		w.broken(text[min(done, len(text)):])
	}
}

// broken analyses what no parser took. A shell reads what stands between
// backquotes only when it comes to it: its errors are of no harm to the rest.
func (w *walker) broken(text string) {
	outside, between := cutBackquotes(text)
	if len(between) == 0 {
		w.rough(text)
		return
	}
	for _, script := range between {
		w.script(script)
	}
	w.script(outside)
}

// rough cuts what no parser took into words.
func (w *walker) rough(text string) {
	for _, c := range tokenize(text, '\\') {
		n := 0
		for n < len(c.words) && (prefix[c.words[n]] || assigns(c.words[n])) {
			n++
		}
		w.words(c.words[n:], nil, nil, nil)
	}
}

// prefix are the reserved words that a command may follow.
var prefix = map[string]bool{"if": true, "then": true, "elif": true, "else": true, "while": true, "until": true, "do": true, "!": true}

// assigns says whether a word is NAME=VALUE, or NAME[INDEX]=VALUE.
func assigns(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	name = strings.TrimSuffix(name, "+")
	if array, index, is := strings.Cut(name, "["); is && strings.HasSuffix(index, "]") {
		name = array
	}
	return ok && syntax.ValidName(name)
}

// full says that no more commands are taken. Statements count, not what they
// list: substitutions within substitutions are evaluated again and again.
func (w *walker) full() bool {
	if w.steps++; w.steps&63 == 0 && w.ctx.Err() != nil {
		w.steps = maxSteps
	}
	return len(w.out.Commands) >= maxCommands || w.steps >= maxSteps
}

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
				r.in = &input{text: printed, known: true}
			}
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
		if cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll {
			w.pipeline(st, r.in)
		} else {
			w.stmt(cmd.X, r.in)
			w.stmt(cmd.Y, r.in)
		}
	case *syntax.Subshell:
		for _, s := range cmd.Stmts {
			w.stmt(s, r.in)
		}
		w.write(st, r.writes, r.in)
	case *syntax.Block:
		for _, s := range cmd.Stmts {
			w.stmt(s, r.in)
		}
		w.write(st, r.writes, r.in)
	case *syntax.IfClause:
		for c := cmd; c != nil; c = c.Else {
			w.stmts(c.Cond)
			w.stmts(c.Then)
		}
	case *syntax.WhileClause:
		w.while(cmd, r.in)
	case *syntax.ForClause:
		if loop, ok := cmd.Loop.(*syntax.WordIter); ok {
			var items []string
			for _, item := range loop.Items {
				n := len(items)
				if items = w.fields(item, items); len(items) > n && sequences(item) {
					items = items[:n+1]
				}
			}
			w.each(len(items), cmd.Do, func(i int) { w.vars[loop.Name.Value] = items[i] })
		} else {
			w.inner(cmd.Loop)
			w.stmts(cmd.Do)
		}
	case *syntax.CaseClause:
		w.text(cmd.Word)
		for _, item := range cmd.Items {
			for _, pattern := range item.Patterns {
				w.inner(pattern)
			}
			w.stmts(item.Stmts)
		}
	case *syntax.FuncDecl:
		w.stmt(cmd.Body, nil)
		if cmd.Name != nil && varies(cmd.Body) {
			if w.funcs == nil {
				w.funcs = map[string]*syntax.Stmt{}
			}
			w.funcs[cmd.Name.Value] = cmd.Body
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

// each looks at a loop's body for each of n values that set gives its variable;
// with none it is looked at once. Each time but the first counts as a value of
// the body's size.
func (w *walker) each(n int, body []*syntax.Stmt, set func(i int)) {
	size := leastRound
	if len(body) > 0 {
		size = max(size, int(body[len(body)-1].End().Offset()-body[0].Pos().Offset()))
	}
	for i := range max(1, n) {
		if i > 0 {
			if w.expanded += size; w.expanded > maxExpanded {
				w.out.Limited = true
				return
			}
		}
		if n > 0 {
			set(i)
		}
		w.stmts(body)
	}
}

// while gives its input to the condition: read takes a line of it each time.
func (w *walker) while(cmd *syntax.WhileClause, in *input) {
	cond := func(in *input) {
		for _, st := range cmd.Cond {
			w.stmt(st, in)
		}
	}
	if text, ok := w.read(in); ok && reading(cmd.Cond) {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		w.each(len(lines), cmd.Do, func(i int) { cond(&input{text: lines[i], known: true}) })
		return
	}
	cond(in)
	w.stmts(cmd.Do)
}

// reading says that a condition is one call of read.
func reading(cond []*syntax.Stmt) bool {
	if len(cond) != 1 {
		return false
	}
	call, ok := cond[0].Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && call.Args[0].Lit() == "read"
}

// inner walks the substitutions within a node that runs nothing itself.
func (w *walker) inner(n syntax.Node) {
	walk(n, func(n syntax.Node) bool {
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
		w.stmt(stage, in)
		begins = append(begins, len(w.out.Commands))
		if i+1 < len(stages) {
			in = w.room.input(stage, in)
		}
	}
	for i := range stages {
		before := w.namesOf(begins[max(0, i-neighbours)], begins[i])
		after := w.namesOf(begins[i+1], begins[min(len(stages), i+1+neighbours)])
		for j := begins[i]; j < begins[i+1]; j++ {
			c := w.out.Commands[j]
			c.From = joined(c.From, before)
			c.To = joined(c.To, after)
		}
	}
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

func (w *walker) call(cmd *syntax.CallExpr, r *redirs, mark int) {
	var env []string
	for _, a := range cmd.Assigns {
		env = append(env, w.assign(a, len(cmd.Args) == 0))
	}
	if len(cmd.Args) > 0 {
		w.negated(cmd.Args[0])
	}
	words := w.room.list(len(cmd.Args))
	for _, a := range cmd.Args {
		words = w.fields(a, words)
	}
	from := slices.Clone(w.names[mark:])
	if len(words) == 0 {
		if len(env)+len(r.reads)+len(r.writes) > 0 {
			w.add(&Command{Env: env, Reads: r.reads, Writes: r.writes, Via: w.via, From: from})
		}
		return
	}
	w.words(words, env, r, from)
}

// negated is !(rm x): no pattern but commands, unless a shell is told otherwise.
func (w *walker) negated(first *syntax.Word) {
	if glob, ok := first.Parts[0].(*syntax.ExtGlob); ok && glob.Op == syntax.GlobExcept {
		mark := len(w.names)
		w.script(glob.Pattern.Value)
		w.names = w.names[:mark]
	}
}

func (w *walker) assign(a *syntax.Assign, keep bool) string {
	value, known := "", true
	if a.Value != nil {
		value, known = w.text(a.Value)
	} else if a.Array != nil && a.Name != nil {
		var elements []string
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				w.inner(e.Index)
			}
			if e.Value != nil {
				elements = w.fields(e.Value, elements)
			}
		}
		w.vars[a.Name.Value+"[@]"] = strings.Join(elements, apart)
	}
	if a.Index != nil {
		w.inner(a.Index)
	}
	name := ""
	if a.Name != nil {
		name = a.Name.Value
	} else {
		if name, text, _ := strings.Cut(value, "="); known && assigns(value) { // export "A=b"
			w.vars[name] = text
		}
		return value
	}
	if a.Naked {
		return name
	}
	if first, ok := a.Index.(*syntax.Word); keep && a.Array == nil && (a.Index == nil || ok && first.Lit() == "0") {
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
		if a.Name != nil && !a.Naked || a.Name == nil && assigns(word) {
			env = append(env, word)
		}
	}
	c := w.room.command(words)
	c.Env, c.Via = env, w.via
	w.add(c)
}

func (w *walker) add(c *Command) {
	if len(w.out.Commands) >= maxCommands {
		w.out.Limited = true
		return
	}
	w.out.Commands = append(w.out.Commands, c)
	if c.Name != "" {
		w.names = append(w.names, c.Name)
	}
}

// words records a command and goes on with what it runs in turn.
func (w *walker) words(words, env []string, r *redirs, from []string) {
	for len(words) > 0 && (words[0] == "!" || words[0] == "--") { // time -- x
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	c := w.room.command(words)
	c.Env, c.Via, c.From = env, w.via, from
	var in *input
	if r != nil {
		c.Reads, c.Writes, in = r.reads, r.writes, r.in
	}
	w.add(c)
	if other := withoutUnknown(words); len(other) > 0 && !strings.HasPrefix(other[0], "-") && baseName(other[0]) != c.Name {
		w.words(other, env, r, from)
	}
	run := c.runs()
	if in != nil && (run.stdin || c.Name == "xargs" && run.words != nil) {
		switch text, ok := w.read(in); {
		case !ok:
		case c.Name == "crontab":
			run.script = scheduled(text)
		case run.stdin:
			run.script = text
		default: // xargs
			run.words = slices.Clone(run.words)
			for i, word := range run.words {
				run.words[i] = strings.ReplaceAll(word, "{}", strings.TrimSpace(text))
			}
			run.words = append(run.words, strings.FieldsFunc(text, func(r rune) bool { return r == 0 || unicode.IsSpace(r) })...)
		}
	}
	if body := w.funcs[c.Name]; body != nil && w.nesting < maxNesting {
		w.nesting++
		undo, restore := w.position(1, c.Argv), w.environment(env)
		w.stmt(body, in)
		restore()
		undo()
		w.nesting-- // and on: whether the function is defined by then isn't known
	}
	if c.Name == "tee" && in != nil {
		if text, ok := w.read(in); ok {
			for _, f := range c.Args {
				w.put(path.Clean(f), text)
			}
		}
	}
	if len(w.files) > 0 && run.script == "" && run.words == nil {
		file := run.file
		if file == "" && strings.Contains(c.Path, "/") {
			file, run.args = c.Path, words
		}
		run.script = w.written(file)
	}
	if c.Name == "read" && in != nil {
		w.readInto(c.Args, in)
	}
	if n := len(c.Args); n > 0 && in != nil && (c.Name == "mapfile" || c.Name == "readarray") {
		if text, ok := w.read(in); ok {
			w.vars[c.Args[n-1]+"[@]"] = strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", apart)
		}
	}
	if c.Name == "set" {
		w.position(1, operandsOfSet(c.Argv))
	}
	if c.Name == "printf" && len(c.Argv) > 2 && c.Argv[0] == "-v" {
		if text, ok := formatted(c.Argv[2], c.Argv[3:]); ok {
			w.vars[c.Argv[1]] = text
		}
	}
	if len(c.Args) == 2 && copies[c.Name] {
		if text := w.written(c.Args[0]); text != "" {
			w.put(path.Clean(c.Args[1]), text)
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
			more := powershell(w.ctx, run.script, w.via, w.nesting, w.room)
			w.out.Limited = w.out.Limited || more.Limited
			for _, inner := range more.Commands {
				w.add(inner)
			}
			return
		}
		defer w.position(0, run.args)()
		defer w.environment(env)()
		w.script(run.script)
		return
	}
	if w.nesting >= maxNesting {
		w.out.Limited = true
		return
	}
	w.nesting++
	w.words(run.words, run.env, r, from)
	w.nesting--
}

// copies are commands that give a file a second name, or another one.
var copies = map[string]bool{"cp": true, "mv": true, "ln": true, "install": true}

// operandsOfSet are the words that become positional parameters.
func operandsOfSet(words []string) []string {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == "--" || w == "-":
			return words[i+1:]
		case len(w) < 2 || w[0] != '-' && w[0] != '+':
			return words[i:]
		case w[len(w)-1] == 'o':
			i++
		}
	}
	return nil
}

// position sets the positional parameters from $first on until undo.
func (w *walker) position(first int, args []string) (undo func()) {
	before := map[string]string{}
	set := func(name, value string) {
		before[name] = w.vars[name]
		if w.vars[name] = value; value == "" {
			delete(w.vars, name)
		}
	}
	if len(args) == 0 {
		return func() {}
	}
	for n := first; n <= 9; n++ {
		value := ""
		if n-first < len(args) {
			value = args[n-first]
		}
		set(strconv.Itoa(n), value)
	}
	args = args[min(1-first, len(args)):]
	set("@", strings.Join(args, apart))
	set("*", strings.Join(args, " "))
	return func() {
		for name, value := range before {
			if w.vars[name] = value; value == "" {
				delete(w.vars, name)
			}
		}
	}
}

// environment sets the variables that stand before a command until undo.
func (w *walker) environment(env []string) (undo func()) {
	type variable struct {
		name, value string
		set         bool
	}
	before := make([]variable, 0, len(env))
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		old, set := w.vars[name]
		before = append(before, variable{name, old, set})
		w.vars[name] = value
	}
	return func() {
		for _, v := range slices.Backward(before) {
			if w.vars[v.name] = v.value; !v.set {
				delete(w.vars, v.name)
			}
		}
	}
}

// varies says whether what a function does depends on when it is called.
func varies(body *syntax.Stmt) (found bool) {
	walk(body, func(n syntax.Node) bool {
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil {
			found = true
		}
		return !found
	})
	return found
}

// readInto is the builtin read: a word of the first line for each name, the
// rest for the last.
func (w *walker) readInto(names []string, in *input) {
	text, ok := w.read(in)
	line, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(line)
	for i, name := range names {
		switch {
		case !ok || i >= len(words):
			delete(w.vars, name)
		case i == len(names)-1:
			w.vars[name] = strings.Join(words[i:], " ")
		default:
			w.vars[name] = words[i]
		}
	}
}
