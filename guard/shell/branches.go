package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// apartFrom runs what a shell of its own runs: nothing that it sets is left.
func (w *walker) apartFrom(run func()) { w.way(run) }

// process runs what another program's shell runs, which sees only variables that
// were exported.
func (w *walker) process(run func()) {
	w.vars.process++
	w.apartFrom(run)
	w.vars.process--
}

// ways runs what may be run instead of each other; none says that perhaps nothing
// is. It tells whether a variable has more values than before.
func (w *walker) ways(none bool, ways ...func()) (more bool) {
	var room [4]map[string]value
	all := room[:0]
	for _, run := range ways {
		all = append(all, w.way(run))
	}
	return w.join(all, none)
}

// way runs what perhaps isn't run, and returns what that sets.
func (w *walker) way(run func()) (set map[string]value) {
	mark := w.vars.scope()
	run()
	return w.vars.undo(mark)
}

func (w *walker) join(ways []map[string]value, none bool) (more bool) {
	full, more := w.vars.join(ways, none)
	w.out.Limited = w.out.Limited || full
	return more
}

// leavable runs what may end at any point, if perhaps says so or a break within it does.
func (w *walker) leavable(perhaps bool, run func()) {
	mark, left := w.vars.scope(), w.left
	run()
	if perhaps || w.left > left {
		w.out.Limited = w.vars.sometimes(mark) || w.out.Limited
	} else {
		w.vars.end()
	}
}

// shifts says that a statement may take away a positional parameter.
func shifts(st *syntax.Stmt) bool { return calls(st, "shift") }

// calls says whether a command of one of the names stands in a node.
func calls(in syntax.Node, names ...string) (found bool) {
	walk(in, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			found = found || slices.Contains(names, call.Args[0].Lit())
		}
		return !found
	})
	return found
}

// forValues runs what reads variables for each of the values that they have.
func (w *walker) forValues(run func()) {
	runs := 0
	w.variants(run, &runs)
}

func (w *walker) variants(run func(), runs *int) {
	if *runs++; *runs > maxRuns || *runs > 1 && w.full() {
		w.out.Limited = true
		return
	}
	read := len(w.vars.several)
	mark := w.vars.scope()
	run()
	if len(w.vars.several) == read {
		w.vars.end()
		return
	}
	name := w.vars.several[read]
	more := slices.ContainsFunc(w.vars.several[read:], func(other string) bool { return other != name })
	w.vars.several = w.vars.several[:read]
	ways := []map[string]value{w.vars.undo(mark)}
	first := w.vars.now[name].known // was what run has seen
	for i, x := range w.vars.each(name) {
		if i == 0 && first && !more {
			continue
		}
		w.apartFrom(func() {
			w.vars.put(name, x)
			ways = append(ways, w.way(func() { w.variants(run, runs) }))
		})
	}
	w.join(ways, false)
}

// and is a && b && …: after it variables hold what any part of it has left.
func (w *walker) and(b *syntax.BinaryCmd, in *input) {
	var room [8]*syntax.Stmt
	links := room[:0]
	for {
		links = append(links, b.Y)
		x, ok := b.X.Cmd.(*syntax.BinaryCmd)
		if !ok || x.Op != syntax.AndStmt || b.X.Background {
			break
		}
		b = x
	}
	w.stmt(b.X, in)
	found := w.emptiness(b.X)
	w.leavable(true, func() {
		w.narrow(found)
		for _, link := range slices.Backward(links) {
			w.stmt(link, in)
		}
	})
	if len(links) == 1 {
		w.leftBy(found, links...)
	}
}

// or is a || b.
func (w *walker) or(b *syntax.BinaryCmd, in *input) {
	w.stmt(b.X, in)
	found := w.emptiness(b.X).not()
	w.ways(true, func() {
		w.narrow(found)
		w.stmt(b.Y, in)
	})
	w.leftBy(found, b.Y)
}

// choose is if, elif, else.
func (w *walker) choose(c *syntax.IfClause, in *input) {
	w.list(c.Cond, in)
	found := w.emptiness(c.Cond...)
	var room [4]map[string]value
	ways, none := room[:0], true
	for branch := c; branch != nil; branch = branch.Else {
		ways = append(ways, w.way(func() {
			switch {
			case branch == c:
				w.narrow(found)
			case branch == c.Else && len(branch.Cond) == 0:
				w.narrow(found.not())
			}
			w.list(branch.Then, in)
		}))
		if branch.Else != nil {
			none = len(branch.Else.Cond) > 0
			w.ways(true, func() { w.list(branch.Else.Cond, in) })
		}
	}
	w.join(ways, none)
	if c.Else == nil {
		w.leftBy(found, c.Then...)
	}
}

func (w *walker) cases(items []*syntax.CaseItem, in *input) {
	otherwise := false
	var ways []func()
	for i, item := range items {
		for _, pattern := range item.Patterns {
			w.inner(pattern)
			otherwise = otherwise || pattern.Lit() == "*"
		}
		ways = append(ways, func() {
			again := false // a pattern decides whether an item is run
			for _, item := range items[i:] {
				if !again {
					w.list(item.Stmts, in)
				} else {
					w.ways(true, func() { w.list(item.Stmts, in) })
				}
				if item.Op == syntax.Break && !again || w.full() {
					return
				}
				again = again || item.Op == syntax.Resume
			}
		})
	}
	w.ways(!otherwise, ways...)
}

// forEach looks at the body for each word that the variable is given.
func (w *walker) forEach(loop *syntax.WordIter, body []*syntax.Stmt, in *input) {
	var items []string
	known := true
	if !loop.InPos.IsValid() { // for x; do
		items = w.listOf("@")
	}
	for _, item := range loop.Items {
		n := len(items)
		if items = w.known(item, items, &known); len(items) > n && sequences(item) {
			items = items[:n+1]
		}
	}
	if len(items) == 0 {
		if !loop.InPos.IsValid() {
			w.vars.unset(loop.Name.Value)
		}
		w.loop(nil, body, in)
		return
	}
	w.rounds(len(items), known, body, in, func(i int) {
		text := items[i]
		if n := unknownLength(text); n > 0 && n == len(text) {
			text = unknownValue
		}
		w.vars.put(loop.Name.Value, value{text: text, known: true, exported: w.vars.now[loop.Name.Value].exported, process: w.vars.process})
	})
}

// rounds looks at a loop's body n times, after next; not all of them surely come.
// Each time but the first counts as a value of the body's size.
func (w *walker) rounds(n int, surely bool, body []*syntax.Stmt, in *input, next func(i int)) {
	size := leastRound
	if len(body) > 0 {
		size = max(size, int(body[len(body)-1].End().Offset()-body[0].Pos().Offset()))
	}
	w.leavable(!surely, func() {
		for i := range n {
			if i > 0 {
				if w.expanded += size; w.expanded > maxExpanded {
					w.out.Limited = true
					return
				}
			}
			next(i)
			w.list(body, in)
		}
	})
}

// loop looks at a condition and a body that run again and again, the body perhaps
// never.
func (w *walker) loop(cond, body []*syntax.Stmt, in *input) {
	passes := maxPasses
	if slices.ContainsFunc(body, shifts) {
		passes += min(len(w.listOf("@")), maxOthers)
	}
	for range passes { // what the body set is seen by what stands before
		w.list(cond, in)
		more := w.ways(true, func() {
			w.leavable(false, func() { w.list(body, in) })
		})
		if !more {
			return
		}
	}
}

// while gives its input to the condition: read takes a line of it each time.
func (w *walker) while(cmd *syntax.WhileClause, in *input) {
	if text, ok := w.read(in); ok && reading(cmd.Cond) {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		w.rounds(len(lines), true, cmd.Do, in, func(i int) { w.list(cmd.Cond, &input{text: lines[i], known: true}) })
		return
	}
	w.loop(cmd.Cond, cmd.Do, in)
}

// reading says that a condition is one call of read.
func reading(cond []*syntax.Stmt) bool {
	if len(cond) != 1 {
		return false
	}
	call, ok := cond[0].Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && call.Args[0].Lit() == "read"
}
