package shell

import (
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
		w.array(a.Name.Value, a.Array.Elems, a.Append)
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
	index := ""
	if keep && a.Array == nil && a.Index != nil && known {
		index = w.index(a.Index)
		w.setElement(name, index, value)
	}
	if keep && a.Array == nil && (a.Index == nil || index == "0") {
		unset := false
		if a.Append {
			before, isKnown := w.vars.get(name)
			value, unset = before+value, !isKnown
		}
		if known {
			w.vars.set(name, value)
		} else {
			w.vars.unset(name)
		}
		if known && unset { // if it was nothing before
			w.vars.perhaps(name)
		}
	}
	return name + "=" + value
}

// array sets an array, or appends to it.
func (w *walker) array(name string, elems []*syntax.ArrayElem, more bool) {
	var list []string
	if more {
		if list = w.listOf(name + "[@]"); list == nil {
			if text, ok := w.vars.get(name); ok {
				list = []string{text}
			}
		}
	}
	w.vars.unset(name)
	for _, e := range elems {
		if e.Index != nil {
			w.inner(e.Index)
		}
		if e.Value == nil {
			continue
		}
		before := len(list)
		list = w.fields(e.Value, list)
		if e.Index != nil && len(list) > before {
			w.vars.set(name+"["+w.index(e.Index)+"]", list[before])
		}
	}
	w.vars.set(name+"[@]", strings.Join(list, apart))
}

// setElement sets an element of an array, behind its last one if there is none
// of that index.
func (w *walker) setElement(name, index, text string) {
	list := slices.Clone(w.listOf(name + "[@]"))
	n, err := strconv.Atoi(index)
	if err == nil && 0 <= n && n < len(list) {
		list[n] = text
	} else {
		list = append(list, text)
	}
	w.vars.set(name+"[@]", strings.Join(list, apart))
	if index != "" {
		w.vars.set(name+"["+index+"]", text)
	}
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
	if program := strings.TrimLeft(words[0], "="); program != "" && program != words[0] { // its path, in zsh
		w.words(append([]string{program}, words[1:]...), env, r, from)
	}
	run := c.runs()
	w.feed(c, &run, in)
	w.runFunction(c, env, in)
	w.runFile(c, &run)
	w.builtin(c, in)
	w.inTurn(c, run, env, r, from)
}

// feed gives what a command runs its standard input, where that is plain from the
// script.
func (w *walker) feed(c *Command, run *inner, in *input) {
	if in == nil || !run.stdin && (c.Name != "xargs" || run.words == nil) {
		return
	}
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

// runFile lets a command run what the script itself has put into its file.
func (w *walker) runFile(c *Command, run *inner) {
	if len(w.files)+len(w.made) == 0 || run.script != "" || run.words != nil {
		return
	}
	file := run.file
	if file == "" && strings.Contains(c.Path, "/") {
		file, run.args = c.Path, append([]string{c.Path}, c.Argv...)
	}
	if run.script = w.written(file); run.script == "" {
		w.runMade(c, file)
	}
}

// inTurn looks at what a command runs.
func (w *walker) inTurn(c *Command, run inner, env []string, r *redirs, from []string) {
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
		script := func() {
			defer w.position(0, run.args)()
			defer w.environment(env)()
			w.script(run.script)
		}
		switch c.Name {
		case "eval", "alias":
			script()
		case "source", ".": // what is in the file by then isn't known
			w.leavable(true, script)
		case "trap":
			w.ways(true, script)
			if strings.Contains(run.script, "$") && !slices.Contains(w.traps, run.script) {
				if len(w.traps) == maxTraps {
					w.out.Limited = true
					break
				}
				w.traps = append(w.traps, run.script)
			}
		default:
			w.process(script)
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
