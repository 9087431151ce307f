package detect

import (
	"regexp/syntax"
	"slices"
	"unsafe"
)

// dfa decides quickly whether a branch could match from a word on. It takes
// every position assertion as true and every byte of a longer rune as one that
// may repeat, so it may say yes where the regular expression says no, never the
// reverse. Its states are made as texts need them and thrown away when they are
// too many. Not safe for concurrent use.
type dfa struct {
	prog    *syntax.Prog
	class   [256]uint8
	width   int
	sample  []rune // a rune of each class; the last class is everything from 0x80 on
	states  [][]uint32
	accept  []bool
	next    []int32 // state × (classes + 1): the last column injects the start
	index   map[string]int32
	start   []uint32
	mark    []bool
	scratch []uint32
}

const (
	dead      = 0
	unknown   = -1
	maxStates = 256
)

func newDFA(tail string) (*dfa, error) {
	tree, err := syntax.Parse(tail, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	d := &dfa{prog: prog, mark: make([]bool, len(prog.Inst))}
	d.classes()
	d.start = d.closure(nil, uint32(prog.Start))
	d.clear()
	d.reset()
	return d, nil
}

// classes joins the bytes that no instruction tells apart.
func (d *dfa) classes() {
	var edge [129]bool
	for i := range d.prog.Inst {
		inst := &d.prog.Inst[i]
		switch inst.Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			was := false
			for r := rune(0); r < 128; r++ {
				if is := inst.MatchRune(r); is != was {
					edge[r], was = true, is
				}
			}
		}
	}
	at := -1
	for r := rune(0); r < 128; r++ {
		if edge[r] || r == 0 {
			at++
			d.sample = append(d.sample, r)
		}
		d.class[r] = uint8(at)
	}
	for c := 128; c < 256; c++ {
		d.class[c] = uint8(at + 1)
	}
	d.sample = append(d.sample, 0x80)
	d.width = len(d.sample) + 1
}

func (d *dfa) reset() {
	d.states, d.accept, d.next = d.states[:0], d.accept[:0], d.next[:0]
	d.index = map[string]int32{}
	d.state(nil) // dead
}

// closure adds what pc reaches without reading to set; marks tell what is in it.
func (d *dfa) closure(set []uint32, pc uint32) []uint32 {
	if d.mark[pc] {
		return set
	}
	d.mark[pc] = true
	set = append(set, pc)
	switch inst := &d.prog.Inst[pc]; inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		return d.closure(d.closure(set, inst.Out), inst.Arg)
	case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
		return d.closure(set, inst.Out)
	}
	return set
}

func (d *dfa) clear() { clear(d.mark) }

// state gives the number of a set of instructions.
func (d *dfa) state(set []uint32) int32 {
	kept := set[:0:0]
	accept := false
	for _, pc := range set {
		switch d.prog.Inst[pc].Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			kept = append(kept, pc)
		case syntax.InstMatch:
			kept = append(kept, pc)
			accept = true
		}
	}
	slices.Sort(kept)
	key := ""
	if len(kept) > 0 {
		key = string(unsafe.Slice((*byte)(unsafe.Pointer(&kept[0])), 4*len(kept)))
	}
	if s, ok := d.index[key]; ok {
		return s
	}
	s := int32(len(d.states))
	d.index[key] = s
	d.states = append(d.states, kept)
	d.accept = append(d.accept, accept)
	for range d.width {
		d.next = append(d.next, unknown)
	}
	if s == dead {
		for c := range d.width - 1 {
			d.next[c] = dead
		}
	}
	return s
}

// move computes the state that column leads to from s.
func (d *dfa) move(s int32, column int) int32 {
	if len(d.states) > maxStates {
		kept := slices.Clone(d.states[s])
		d.reset()
		s = d.state(kept)
	}
	set := d.scratch[:0]
	if column == d.width-1 {
		for _, pc := range d.states[s] {
			set = d.closure(set, pc)
		}
		for _, pc := range d.start {
			set = d.closure(set, pc)
		}
	} else {
		r := d.sample[column]
		for _, pc := range d.states[s] {
			inst := &d.prog.Inst[pc]
			if inst.Op == syntax.InstMatch {
				continue
			}
			if r < 0x80 {
				if inst.MatchRune(r) {
					set = d.closure(set, inst.Out)
				}
			} else if beyondASCII(inst) {
				set = d.closure(d.closure(set, inst.Out), pc)
			}
		}
	}
	to := d.state(set)
	d.next[int(s)*d.width+column] = to
	d.scratch = set
	d.clear()
	return to
}

// beyondASCII says whether an instruction takes any rune of more than one byte.
func beyondASCII(inst *syntax.Inst) bool {
	switch inst.Op {
	case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	n := len(inst.Rune)
	if n == 0 {
		return false
	}
	return inst.Rune[n-1] >= 0x80 || n == 1 && syntax.Flags(inst.Arg)&syntax.FoldCase != 0
}

// window is a part of the text that must hold every match that begins at one of
// the words in it.
type window struct{ from, to int }

// sweep runs the automaton from every start (ascending offsets in text; nil is
// every offset) at once and gives a window for each stretch in which it
// accepted. Its time is linear in the text however dense the starts are.
func (d *dfa) sweep(text string, starts []int32, before int) (to []window) {
	every := starts == nil
	for i, at := 0, 0; every && at < len(text) || i < len(starts); {
		first := at
		if !every {
			first = int(starts[i])
		}
		s, pos, accepted := int32(dead), first, false
		for {
			if every || i < len(starts) && int(starts[i]) == pos {
				for i < len(starts) && int(starts[i]) == pos {
					i++
				}
				t := d.next[int(s)*d.width+d.width-1]
				if t < 0 {
					t = d.move(s, d.width-1)
				}
				s = t
			}
			accepted = accepted || d.accept[s]
			if s == dead || pos >= len(text) || pos-first >= maxWindow {
				break
			}
			t := d.next[int(s)*d.width+int(d.class[text[pos]])]
			if t < 0 {
				t = d.move(s, int(d.class[text[pos]]))
			}
			s = t
			pos++
			if every && s == dead {
				break
			}
		}
		at = max(pos, at+1)
		if accepted {
			to = append(to, window{max(0, first-before-4), min(len(text), pos+4)})
		}
	}
	return to
}

// reach runs the automaton from one offset: whether it accepts somewhere, and
// the offset after the byte that ended it.
func (d *dfa) reach(text string, at int) (end int, accepted bool) {
	s := d.next[d.width-1] // from the dead state, the start put in
	if s < 0 {
		s = d.move(dead, d.width-1)
	}
	end = at
	for {
		accepted = accepted || d.accept[s]
		if s == dead || end >= len(text) || end-at >= maxWindow {
			return end, accepted
		}
		t := d.next[int(s)*d.width+int(d.class[text[end]])]
		if t < 0 {
			t = d.move(s, int(d.class[text[end]]))
		}
		s = t
		end++
	}
}
