package plain

import "mvdan.cc/sh/v3/syntax"

// Memory holds the nodes of trees. They are valid until the function that was
// given the statement returns. The zero value is empty; a Memory serves one
// text at a time, and the texts within it.
type Memory struct {
	stmts     slab[syntax.Stmt]
	calls     slab[syntax.CallExpr]
	binaries  slab[syntax.BinaryCmd]
	declares  slab[syntax.DeclClause]
	ifs       slab[syntax.IfClause]
	whiles    slab[syntax.WhileClause]
	fors      slab[syntax.ForClause]
	iters     slab[syntax.WordIter]
	subshells slab[syntax.Subshell]
	blocks    slab[syntax.Block]
	words     slab[syntax.Word]
	lits      slab[syntax.Lit]
	singles   slab[syntax.SglQuoted]
	doubles   slab[syntax.DblQuoted]
	params    slab[syntax.ParamExp]
	substs    slab[syntax.CmdSubst]
	assigns   slab[syntax.Assign]
	redirects slab[syntax.Redirect]

	stmtLists     lists[*syntax.Stmt]
	wordLists     lists[*syntax.Word]
	partLists     lists[syntax.WordPart]
	assignLists   lists[*syntax.Assign]
	redirectLists lists[*syntax.Redirect]
}

// part is what the kinds of memory have in common.
type part interface {
	mark() int
	release(to int)
	forget()
}

const parts = 23

func (m *Memory) parts() [parts]part {
	return [...]part{
		&m.stmts, &m.calls, &m.binaries, &m.declares, &m.ifs, &m.whiles, &m.fors, &m.iters, &m.subshells, &m.blocks,
		&m.words, &m.lits, &m.singles, &m.doubles, &m.params, &m.substs, &m.assigns, &m.redirects,
		&m.stmtLists, &m.wordLists, &m.partLists, &m.assignLists, &m.redirectLists,
	}
}

// mark says how much of the memory is in use.
func (m *Memory) mark() (at [parts]int) {
	for i, p := range m.parts() {
		at[i] = p.mark()
	}
	return at
}

// release frees what was handed out since the mark.
func (m *Memory) release(to *[parts]int) {
	for i, p := range m.parts() {
		p.release(to[i])
	}
}

// Forget lets go of the texts that were parsed, and of more memory than usual
// texts need.
func (m *Memory) Forget() {
	for _, p := range m.parts() {
		p.forget()
	}
}

const (
	chunkSize  = 32 // elements that a slab grows by
	keptChunks = 64
	keptList   = 4 << 10 // elements
)

// slab hands out elements whose addresses never change.
type slab[T any] struct {
	chunks [][]T
	used   int // elements
	most   int // of them, ever in use since all was forgotten
}

// take gives a zero element.
func (s *slab[T]) take() *T {
	at := s.used
	if at == len(s.chunks)*chunkSize {
		s.chunks = append(s.chunks, make([]T, chunkSize))
	}
	element := &s.chunks[at/chunkSize][at%chunkSize]
	if s.used++; s.used > s.most {
		s.most = s.used
	} else {
		var zero T
		*element = zero
	}
	return element
}

func (s *slab[T]) mark() int      { return s.used }
func (s *slab[T]) release(to int) { s.used = to }

func (s *slab[T]) forget() {
	if len(s.chunks) > keptChunks {
		clear(s.chunks[keptChunks:])
		s.chunks = s.chunks[:keptChunks]
	}
	for i := 0; i*chunkSize < s.most && i < len(s.chunks); i++ {
		clear(s.chunks[i])
	}
	s.used, s.most = 0, 0
}

// lists builds lists, one within the other, and keeps those that are complete.
type lists[T any] struct {
	open     []T // elements of the lists being built, the innermost last
	complete []T
}

// begin begins a list; end takes what it gives.
func (l *lists[T]) begin() int { return len(l.open) }

// add puts an element at the end of the innermost list.
func (l *lists[T]) add(element T) { l.open = append(l.open, element) }

// end gives the list that was begun, nil if nothing was added.
func (l *lists[T]) end(begun int) []T {
	n := len(l.open) - begun
	if n == 0 {
		return nil
	}
	from := len(l.complete)
	if from+n > cap(l.complete) { // lists that are handed out stay where they are
		l.complete = make([]T, from, max(2*chunkSize, from+n, 2*cap(l.complete)))
	}
	l.complete = append(l.complete, l.open[begun:]...)
	l.open = l.open[:begun]
	return l.complete[from:len(l.complete):len(l.complete)]
}

func (l *lists[T]) mark() int { return len(l.complete) }

func (l *lists[T]) release(to int) {
	l.open, l.complete = l.open[:0], l.complete[:to]
}

func (l *lists[T]) forget() {
	if cap(l.open)+cap(l.complete) > keptList {
		*l = lists[T]{}
	}
	clear(l.open[:cap(l.open)])
	clear(l.complete[:cap(l.complete)])
	l.open, l.complete = l.open[:0], l.complete[:0]
}
