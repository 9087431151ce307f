// Package literal finds many fixed strings in one pass over a text, letter case
// of ASCII ignored. It is the prefilter of the guard's rules and detectors; it
// knows nothing of either, and it is no regular-expression engine.
package literal

// Set is an Aho–Corasick automaton over byte classes. It is immutable and safe
// for concurrent use.
type Set struct {
	class  [256]uint8 // byte → column; 0 = in no word
	width  int32      // columns of a row
	next   []int32    // row offset → row offset; complemented when the target row ends words
	out    []int32    // row → first entry of its chain in link, -1 none
	link   []entry
	words  int
	length []int32
}

type entry struct {
	word int32
	next int32 // further word that ends here, -1 none
}

// Fold is the case folding of the set: ASCII letters to lower case.
func Fold(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// New builds the automaton of words; a word's id is its index. Empty words
// never match.
func New(words []string) *Set {
	s := &Set{words: len(words), length: make([]int32, len(words))}
	columns := 1
	for i, w := range words {
		s.length[i] = int32(len(w))
		for j := 0; j < len(w); j++ {
			c := Fold(w[j])
			if s.class[c] == 0 && columns < 256 {
				s.class[c] = uint8(columns)
				columns++
			}
		}
	}
	for c := byte('A'); c <= 'Z'; c++ {
		s.class[c] = s.class[Fold(c)]
	}
	s.width = int32(columns)

	// The trie: row 0 is the root, 0 as a child means none yet.
	trie := make([]int32, columns)
	ends := []int32{-1}
	for i, w := range words {
		if w == "" {
			continue
		}
		at := int32(0)
		for j := 0; j < len(w); j++ {
			cell := at*s.width + int32(s.class[w[j]])
			if trie[cell] == 0 {
				trie[cell] = int32(len(ends))
				ends = append(ends, -1)
				trie = append(trie, make([]int32, columns)...)
			}
			at = trie[cell]
		}
		s.link = append(s.link, entry{int32(i), ends[at]})
		ends[at] = int32(len(s.link) - 1)
	}

	// Breadth first: fill the missing transitions from the failure row and
	// chain its words after the row's own, so that a scan never walks back.
	fail := make([]int32, len(ends))
	queue := make([]int32, 0, len(ends))
	for c := range s.width {
		if t := trie[c]; t != 0 {
			queue = append(queue, t)
		}
	}
	for len(queue) > 0 {
		row := queue[0]
		queue = queue[1:]
		if ends[row] < 0 {
			ends[row] = ends[fail[row]]
		} else {
			last := ends[row]
			for s.link[last].next >= 0 {
				last = s.link[last].next
			}
			s.link[last].next = ends[fail[row]]
		}
		for c := range s.width {
			cell := row*s.width + c
			beyond := trie[fail[row]*s.width+c]
			if t := trie[cell]; t != 0 {
				fail[t] = beyond
				queue = append(queue, t)
			} else {
				trie[cell] = beyond
			}
		}
	}
	for i, t := range trie {
		trie[i] = t * s.width
		if ends[t] >= 0 {
			trie[i] = ^trie[i]
		}
	}
	s.next, s.out = trie, ends
	return s
}

// Len is the number of words.
func (s *Set) Len() int { return s.words }

// Scan calls found for each occurrence in text with the word's id and the
// offset of its first byte, in the order of the last bytes, until found says
// false. Overlapping words are all reported.
func (s *Set) Scan(text string, found func(word, at int) bool) {
	state := int32(0)
	for i := 0; i < len(text); i++ {
		state = s.next[state+int32(s.class[text[i]])]
		if state >= 0 {
			continue
		}
		state = ^state
		for e := s.out[state/s.width]; e >= 0; e = s.link[e].next {
			word := s.link[e].word
			if !found(int(word), i+1-int(s.length[word])) {
				return
			}
		}
	}
}

// Any says whether one of the words is in text.
func (s *Set) Any(text string) (any bool) {
	s.Scan(text, func(int, int) bool { any = true; return false })
	return any
}
