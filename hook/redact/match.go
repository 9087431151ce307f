package redact

// matcher finds many values in one pass over a text (Aho and Corasick): time is linear in the text, whatever the values.
type matcher struct {
	nodes  []node
	root   [256]int32
	values []int // the distinct ones, by their first place in the list
	// late is asked now and then whether to give up: one byte may take as many steps as values begin alike.
	late func() bool
}

// often is how many bytes are looked at before the clock is.
const often = 64 << 10

// node is a state: the longest suffix of the text so far that begins a value.
type node struct {
	child, sibling int32
	fail           int32
	suffix         int32 // the next shorter state that ends a value, 0 if none
	value          int32 // the first value that ends here, -1 if none
	length         int32
	b              byte
}

// hit is bytes [start, end) of a text, where value was found.
type hit struct {
	start, end int
	value      int
}

func newMatcher(values []string) *matcher {
	m := &matcher{nodes: []node{{value: -1}}}
	for i, v := range values {
		at := int32(0)
		for j := range len(v) {
			at = m.extend(at, v[j])
		}
		if at != 0 && m.nodes[at].value < 0 {
			m.nodes[at].value = int32(i)
			m.values = append(m.values, i)
		}
	}
	m.link()
	return m
}

// extend returns the state after b, made if need be.
func (m *matcher) extend(at int32, b byte) int32 {
	if next := m.step(at, b); next != 0 {
		return next
	}
	next := int32(len(m.nodes))
	m.nodes = append(m.nodes, node{b: b, value: -1, length: m.nodes[at].length + 1, sibling: m.nodes[at].child})
	m.nodes[at].child = next
	if at == 0 {
		m.root[b] = next
	}
	return next
}

// step returns the child for b, 0 if there is none.
func (m *matcher) step(at int32, b byte) int32 {
	if at == 0 {
		return m.root[b]
	}
	for c := m.nodes[at].child; c != 0; c = m.nodes[c].sibling {
		if m.nodes[c].b == b {
			return c
		}
	}
	return 0
}

// link sets fail and suffix, the shorter states first.
func (m *matcher) link() {
	queue := make([]int32, 0, len(m.nodes))
	queue = append(queue, 0)
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		for c := m.nodes[at].child; c != 0; c = m.nodes[c].sibling {
			queue = append(queue, c)
			if at == 0 {
				continue
			}
			f := m.next(m.nodes[at].fail, m.nodes[c].b)
			m.nodes[c].fail = f
			m.nodes[c].suffix = f
			if m.nodes[f].value < 0 {
				m.nodes[c].suffix = m.nodes[f].suffix
			}
		}
	}
}

// next returns the state after b follows the state at.
func (m *matcher) next(at int32, b byte) int32 {
	for {
		if c := m.step(at, b); c != 0 {
			return c
		}
		if at == 0 {
			return 0
		}
		at = m.nodes[at].fail
	}
}

// each calls yield for the longest value that ends at each place of text, until yield returns false or it is too late. found, if any, learns
// of every value that occurs.
func (m *matcher) each(text string, found []bool, yield func(hit) bool) {
	at := int32(0)
	for i := range len(text) {
		if i%often == often-1 && m.late != nil && m.late() {
			return
		}
		if at == 0 {
			if at = m.root[text[i]]; at == 0 {
				continue
			}
		} else {
			at = m.next(at, text[i])
		}
		end := at
		if m.nodes[end].value < 0 {
			end = m.nodes[end].suffix
		}
		if end == 0 {
			continue
		}
		if found != nil {
			for e := end; e != 0 && !found[m.nodes[e].value]; e = m.nodes[e].suffix {
				found[m.nodes[e].value] = true
			}
		}
		if !yield(hit{i + 1 - int(m.nodes[end].length), i + 1, int(m.nodes[end].value)}) {
			return
		}
	}
}

// ranges lists where values are in text, overlapping ones merged: the one that starts first gives the value, at the same
// start the longer one. Those that only touch stay apart.
//
// Of values that end at the same place the longest contains the others, and the one that begins a merged range is always the
// longest at its end: that each names only those loses nothing.
func (m *matcher) ranges(text string, found []bool) []hit {
	var out []hit
	m.each(text, found, func(h hit) bool {
		for len(out) > 0 && out[len(out)-1].end > h.start {
			if last := out[len(out)-1]; last.start < h.start {
				h.start, h.value = last.start, last.value
			}
			out = out[:len(out)-1]
		}
		out = append(out, h)
		return true
	})
	return out
}
