package shell

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// function is what a call of a name runs.
type function struct {
	body   *syntax.Stmt
	varies bool // what it does depends on when it is called
}

// define gives a name a function; which of those of its name is in force is a
// variable's value.
func (w *walker) define(name string, body *syntax.Stmt) {
	i := slices.IndexFunc(w.funcs[name], func(f function) bool { return f.body == body })
	if i < 0 {
		if w.funcs == nil {
			w.funcs = map[string][]function{}
		}
		i = len(w.funcs[name])
		w.funcs[name] = append(w.funcs[name], function{body, varies(body)})
	}
	w.vars.set(name+"()", strconv.Itoa(i))
}

// defined is the body of the function that is in force, nil if that isn't known.
func (w *walker) defined(name string) *syntax.Stmt {
	if len(w.funcs[name]) == 0 {
		return nil
	}
	text, _ := w.vars.get(name + "()")
	if i, err := strconv.Atoi(text); err == nil && 0 <= i && i < len(w.funcs[name]) {
		return w.funcs[name][i].body
	}
	return nil
}

// runFunction looks at the bodies of the function that a command calls, if its name
// is one's.
func (w *walker) runFunction(c *Command, env []string, in *input) {
	bodies := w.funcs[c.Name]
	if !slices.ContainsFunc(bodies, func(f function) bool { return f.varies }) || w.nesting >= maxNesting {
		return
	}
	w.nesting++
	undo, restore := w.position(1, c.Argv), w.environment(env)
	var ways []map[string]value
	for _, f := range bodies {
		ways = append(ways, w.way(func() { w.function(f.body, in) }))
	}
	w.join(ways, false)
	restore()
	undo()
	w.nesting-- // what follows is looked at all the same: whether the function is defined by then isn't known
}

// function looks at the body of a function that is called.
func (w *walker) function(body *syntax.Stmt, in *input) {
	outer := len(w.locals)
	w.inFunction++
	w.leavable(false, func() { w.stmt(body, in) })
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
	w.setPosition(first, args)
	return undo
}

func (w *walker) setPosition(first int, args []string) {
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
}

// shift takes away the first n positional parameters, if that many are known.
func (w *walker) shift(n int) {
	if args := w.listOf("@"); 0 < n && n <= len(args) {
		w.setPosition(1, args[n:])
	}
}

// listOf are the elements of an array, or the positional parameters, as far as
// they are known.
func (w *walker) listOf(name string) []string {
	text, ok := w.vars.get(name)
	if len(text) > maxValue {
		w.out.Limited = true
		return nil
	}
	if !ok || text == "" {
		return nil
	}
	return strings.Split(text, apart)
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
