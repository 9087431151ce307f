package shell

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

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
		w.vars.set(a.Name.Value+"[@]", strings.Join(elements, apart))
	}
	if a.Index != nil {
		w.inner(a.Index)
	}
	name := ""
	if a.Name != nil {
		name = a.Name.Value
	} else {
		if name, text, _ := strings.Cut(value, "="); known && assigns(value) { // export "A=b"
			w.vars.set(name, text)
		}
		return value
	}
	if a.Naked {
		return name
	}
	if first, ok := a.Index.(*syntax.Word); keep && a.Array == nil && (a.Index == nil || ok && first.Lit() == "0") {
		if a.Append {
			before, isKnown := w.vars.get(name)
			value, known = before+value, known && isKnown
		}
		if known {
			w.vars.set(name, value)
		} else {
			w.vars.unset(name)
		}
	}
	return name + "=" + value
}

func (w *walker) declare(d *syntax.DeclClause) {
	words := []string{d.Variant.Value}
	var env []string
	exports, local := d.Variant.Value == "export", w.inFunction > 0 && d.Variant.Value != "export" && d.Variant.Value != "readonly"
	for _, a := range d.Args {
		if a.Name != nil && local {
			w.locals = append(w.locals, w.vars.saved(a.Name.Value, a.Name.Value+"[@]"))
			if a.Naked { // unset in bash, in dash what it was
				w.ways(true, func() { w.vars.unset(a.Name.Value) })
			}
		}
		word := w.assign(a, true)
		words = append(words, word)
		if a.Name == nil && len(word) > 1 && word[0] == '-' {
			exports = exports || strings.Contains(word, "x")
			local = local && !strings.Contains(word, "g")
		}
		if name, _, _ := strings.Cut(word, "="); exports {
			w.vars.export(name)
		}
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
	if bodies := w.funcs[c.Name]; len(bodies) > 0 && w.nesting < maxNesting {
		w.nesting++
		undo, restore := w.position(1, c.Argv), w.environment(env)
		var ways []map[string]value
		for _, body := range bodies {
			ways = append(ways, w.way(func() { w.function(body, in) }))
		}
		w.join(ways, false)
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
	if len(w.files)+len(w.made) > 0 && run.script == "" && run.words == nil {
		file := run.file
		if file == "" && strings.Contains(c.Path, "/") {
			file, run.args = c.Path, words
		}
		if run.script = w.written(file); run.script == "" {
			w.runMade(c, file)
		}
	}
	w.remember(c)
	switch n := len(c.Args); c.Name {
	case "read":
		w.readInto(c.Args, in)
	case "mapfile", "readarray":
		if text, ok := w.read(in); n > 0 && ok {
			w.vars.set(c.Args[n-1]+"[@]", strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", apart))
		} else if n > 0 {
			w.vars.unset(c.Args[n-1] + "[@]")
		}
	case "getopts":
		if n > 1 {
			w.vars.unset(c.Args[1])
		}
	case "set":
		w.position(1, operandsOfSet(c.Argv))
		if i := slices.Index(c.Argv, "allexport"); slices.Contains(c.Flags, "a") || i > 0 && c.Argv[i-1] == "-o" {
			w.vars.set(exportsAll, "")
		} else if slices.Contains(c.Argv, "+a") || i > 0 {
			w.vars.unset(exportsAll)
		}
	case "unset":
		for _, name := range c.Args {
			w.vars.unset(name)
		}
	}
	if c.Name == "printf" && len(c.Argv) > 2 && c.Argv[0] == "-v" {
		if text, ok := formatted(c.Argv[2], c.Argv[3:]); ok {
			w.vars.set(c.Argv[1], text)
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
		run := func() {
			defer w.position(0, run.args)()
			defer w.environment(env)()
			w.script(run.script)
		}
		switch c.Name {
		case "eval", "source", ".", "alias":
			run()
		case "trap":
			w.ways(true, run)
		default:
			w.process(run)
		}
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

// function looks at the body of a function that is called.
func (w *walker) function(body *syntax.Stmt, in *input) {
	outer := len(w.locals)
	w.inFunction++
	w.leavable(leaves(body), func() { w.stmt(body, in) })
	w.inFunction--
	for _, restore := range slices.Backward(w.locals[outer:]) {
		restore()
	}
	w.locals = w.locals[:outer]
}

// varies says whether what a function does depends on when it is called.
func varies(body *syntax.Stmt) (found bool) {
	walk(body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			found = found || n.Param != nil
		case *syntax.Assign:
			found = true
		}
		return !found
	})
	return found
}

// position sets the positional parameters from $first on until undo.
func (w *walker) position(first int, args []string) (undo func()) {
	if len(args) == 0 {
		return func() {}
	}
	names := []string{"@", "*"}
	for n := first; n <= 9; n++ {
		names = append(names, strconv.Itoa(n))
	}
	undo = w.vars.saved(names...)
	for n := first; n <= 9; n++ {
		if name := strconv.Itoa(n); n-first < len(args) && args[n-first] != "" {
			w.vars.set(name, args[n-first])
		} else {
			w.vars.unset(name)
		}
	}
	args = args[min(1-first, len(args)):]
	w.vars.set("@", strings.Join(args, apart))
	w.vars.set("*", strings.Join(args, " "))
	return undo
}

// environment sets the variables that stand before a command until undo.
func (w *walker) environment(env []string) (undo func()) {
	if len(env) == 0 {
		return func() {}
	}
	names := make([]string, len(env))
	for i, e := range env {
		names[i], _, _ = strings.Cut(e, "=")
	}
	undo = w.vars.saved(names...)
	for i, e := range env {
		_, text, _ := strings.Cut(e, "=")
		w.vars.set(names[i], text)
		w.vars.export(names[i])
	}
	return undo
}

// readInto is the builtin read: a word of the first line for each name, the
// rest for the last.
func (w *walker) readInto(names []string, in *input) {
	text, ok := w.read(in)
	line, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(line)
	for i, name := range names {
		w.vars.unset(name + "[@]")
		switch {
		case !ok || i >= len(words):
			w.vars.unset(name)
		case i == len(names)-1:
			w.vars.set(name, strings.Join(words[i:], " "))
		default:
			w.vars.set(name, words[i])
		}
	}
}
