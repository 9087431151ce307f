// Package detect finds secrets and personal numbers in text: gitleaks' rules on
// an engine of its own, and detectors with checks of their own (checks.go). It
// judges nothing and keeps nothing of what it reads.
//
// One Aho–Corasick pass over the text gives the offsets of literals that were
// derived from the expressions themselves. From these offsets a small lazy
// automaton says where the expression could match; only there the expression
// itself, compiled on first use, runs on a window, and of most rules not even it
// but its part after the literal (prefixed.go). Entropy, allowlists and stop
// words decide as the rules say. A text without any literal costs the one pass;
// one that is made of near-secrets costs some microseconds for each.
package detect

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/pinta-ai/pinta-agent/guard/literal"
)

// Detector is one kind of finding.
type Detector struct {
	ID          string // gitleaks' rule id, or ours
	Category    string // the kind in answers and markers: github_token
	Description string
	Groups      []string // further names by which a rule may ask for it

	pattern  *pattern
	keywords []string // lower case; one must be in the text
	group    int      // capture group of the secret, 0 the first that is not empty
	entropy  float64  // Shannon entropy that the secret must exceed, in bits
	generic  bool     // gives way to a specific finding in the same line
	allow    []*allowlist
	valid    func(secret string) bool                      // nil: no check
	scan     func(text string, found func(start, end int)) // instead of a pattern
}

// Finding is one secret in a text, its offsets in bytes.
type Finding struct {
	Detector, Category string
	Secret             string
	Start, End         int
	line               int // offset of the begin of its line
	generic            bool
}

// Set holds detectors ready to scan. It is safe for concurrent use.
type Set struct {
	list    []*Detector
	names   map[string][]int // id, category, group → indexes
	literal *literal.Set
	use     []use // by literal
	always  []int // detectors to run on every text
}

// use says what an occurrence of a literal means.
type use struct {
	detector int
	branch   int // -1: a keyword only
}

var (
	standardOnce sync.Once
	standard     *Set
)

// Standard is the set of all built-in detectors, made on first use.
func Standard() *Set {
	standardOnce.Do(func() {
		list, _, err := loadGitleaks()
		if err != nil {
			panic("detect: " + err.Error()) // the file is embedded and tested
		}
		standard = newSet(append(own(), list...))
	})
	return standard
}

func newSet(list []*Detector) *Set {
	s := &Set{list: list, names: map[string][]int{}}
	var texts []string
	add := func(text string, u use) {
		texts = append(texts, text)
		s.use = append(s.use, u)
	}
	for i, d := range list {
		names := append([]string{"secrets", d.ID}, d.Groups...)
		if d.Category != d.ID {
			names = append(names, d.Category)
		}
		for _, n := range names {
			s.names[n] = append(s.names[n], i)
		}
		if d.scan != nil {
			s.always = append(s.always, i)
			continue
		}
		implied := len(d.pattern.branches) > 0
		for j := range d.pattern.branches {
			b := &d.pattern.branches[j]
			implied = implied && b.implies(d.keywords)
			for _, w := range b.words {
				add(w, use{i, j})
			}
		}
		if implied {
			d.keywords = nil
		}
		for _, k := range d.keywords {
			add(k, use{i, -1})
		}
		if dense(d) && len(d.keywords) == 0 {
			s.always = append(s.always, i)
		}
	}
	s.literal = literal.New(texts)
	return s
}

// Selection is a choice of detectors of one set.
type Selection []bool

// Select resolves ids, categories and groups; "secrets" is every detector.
func (s *Set) Select(names ...string) (Selection, error) {
	sel := make(Selection, len(s.list))
	for _, n := range names {
		list, ok := s.names[n]
		if !ok {
			return nil, fmt.Errorf("unknown detector %q; use secrets, a group or an id from the list of detectors", n)
		}
		for _, i := range list {
			sel[i] = true
		}
	}
	return sel, nil
}

// Names lists every name that Select knows, sorted.
func (s *Set) Names() []string {
	names := make([]string, 0, len(s.names))
	for n := range s.names {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// All is the selection of every detector.
func (s *Set) All() Selection {
	sel := make(Selection, len(s.list))
	for i := range sel {
		sel[i] = true
	}
	return sel
}

// Has says whether any of the names (an id, a category) is of a selection. A
// name that no detector has, a marker of another program's, is of every
// selection that is not a choice.
func (s *Set) Has(sel Selection, names ...string) bool {
	known := false
	for _, n := range names {
		for _, i := range s.names[n] {
			if known = true; sel[i] {
				return true
			}
		}
	}
	return !known && !slices.Contains(sel, false)
}

// MaxFindings bounds what one scan returns.
const MaxFindings = 4096

// Scan returns the findings of text in order of their offsets. On a done
// context it stops early with the context's error and what it has so far.
func (s *Set) Scan(ctx context.Context, text string, sel Selection) ([]Finding, error) {
	starts := make([][]int32, 0, 16) // by touched branch
	index := map[use]int{}
	var last use
	lastAt := -1
	keyword := map[int]bool{}
	seen := 0
	s.literal.Scan(text, func(word, at int) bool {
		if seen++; seen&0xfff == 0 && ctx.Err() != nil {
			return false
		}
		u := s.use[word]
		if !sel[u.detector] {
			return true
		}
		if u.branch < 0 {
			keyword[u.detector] = true
			return true
		}
		if u != last || lastAt < 0 {
			i, ok := index[u]
			if !ok {
				i = len(starts)
				index[u] = i
				starts = append(starts, nil)
			}
			last, lastAt = u, i
		}
		starts[lastAt] = append(starts[lastAt], int32(at))
		return true
	})

	// By detector: the windows of all branches, or the whole text.
	windows, candidates := map[int][]window{}, map[int][]candidate{}
	for k, i := range index {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		d := s.list[k.detector]
		if len(d.keywords) > 0 && !keyword[k.detector] {
			continue
		}
		if !slices.IsSorted(starts[i]) {
			slices.Sort(starts[i])
		}
		b := &d.pattern.branches[k.branch]
		if d.pattern.prefixed != nil {
			if list, ok := b.candidates(text, starts[i]); ok {
				candidates[k.detector] = list
				continue
			}
		}
		windows[k.detector] = append(windows[k.detector], b.windows(text, starts[i])...)
	}
	for i := range keyword {
		if d := s.list[i]; dense(d) {
			windows[i] = d.pattern.branches[0].windows(text, nil)
		}
	}
	var found []Finding
	for _, i := range s.always {
		d := s.list[i]
		if !sel[i] {
			continue
		}
		if d.scan == nil {
			windows[i] = d.pattern.branches[0].windows(text, nil)
			continue
		}
		d.scan(text, func(start, end int) {
			if len(found) < MaxFindings {
				found = append(found, Finding{Detector: d.ID, Category: d.Category, Secret: text[start:end],
					Start: start, End: end, line: lineStart(text, start)})
			}
		})
	}
	for i, list := range windows {
		found = s.list[i].match(ctx, text, merged(list), nil, found)
	}
	for i, list := range candidates {
		found = s.list[i].match(ctx, text, nil, list, found)
	}
	return settle(found), ctx.Err()
}

// dense says that a detector has no literal to start from.
func dense(d *Detector) bool { return len(d.pattern.branches[0].words) == 0 }

// automaton lends the branch's automaton to do, or a new one while another scan
// has it; do is not called if there is none.
func (b *branch) automaton(do func(*dfa)) {
	if b.mu.TryLock() {
		defer b.mu.Unlock()
		if b.dfa == nil {
			b.dfa, _ = newDFA(b.tail)
		}
		if b.dfa != nil {
			do(b.dfa)
		}
	} else if d, err := newDFA(b.tail); err == nil {
		do(d)
	}
}

func (b *branch) windows(text string, starts []int32) []window {
	list := []window{{0, len(text)}}
	b.automaton(func(d *dfa) { list = d.sweep(text, starts, b.before) })
	return list
}

// candidates are the starts from which the automaton accepts. It gives up on a
// text whose candidates read the same bytes again and again: windows are linear
// there.
func (b *branch) candidates(text string, starts []int32) (list []candidate, ok bool) {
	b.automaton(func(d *dfa) {
		work := 0
		for i, at := range starts {
			if i > 0 && at == starts[i-1] {
				continue
			}
			end, accepted := d.reach(text, int(at))
			if accepted {
				list = append(list, candidate{int(at), end})
			}
			if work += end - int(at); work > 4*len(text)+maxWindow {
				return
			}
		}
		ok = true
	})
	return list, ok
}

// merged sorts windows and joins those that overlap.
func merged(list []window) []window {
	slices.SortFunc(list, func(a, b window) int { return a.from - b.from })
	out := list[:0]
	for _, w := range list {
		if n := len(out); n > 0 && w.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, w.to)
		} else {
			out = append(out, w)
		}
	}
	return out
}

// match runs the expression on the windows, or on the candidates of a prefixed
// one; what a match is worth is decided the way gitleaks does.
func (d *Detector) match(ctx context.Context, text string, windows []window, candidates []candidate, found []Finding) []Finding {
	type place struct {
		match string
		line  int
	}
	refused := map[place]bool{} // so that a match repeated a thousand times is judged once
	lines := lineBegins{text: text}
	judge := func(start, end int) bool {
		whole := text[start:end]
		match := strings.Trim(whole, "\n")
		start += strings.Index(whole, match)
		f := Finding{Detector: d.ID, Category: d.Category, generic: d.generic, line: lines.begin(start)}
		here := place{match, f.line}
		if refused[here] || ctx.Err() != nil {
			return ctx.Err() == nil
		}
		from, to := 0, len(match)
		if groups := d.groups(match, start, candidates); len(groups) >= 4 {
			if d.group > 0 {
				from, to = groups[2*d.group], groups[2*d.group+1]
			} else {
				for g := 2; g < len(groups); g += 2 {
					if groups[g] >= 0 && groups[g+1] > groups[g] {
						from, to = groups[g], groups[g+1]
						break
					}
				}
			}
		}
		if from < 0 || from == to {
			return true
		}
		f.Secret, f.Start, f.End = match[from:to], start+from, start+to
		if d.entropy != 0 && Entropy(f.Secret) <= d.entropy || d.valid != nil && !d.valid(f.Secret) {
			refused[here] = true
			return true
		}
		line := text[f.line:lineEnd(text, start+len(match))]
		if slices.ContainsFunc(d.allow, func(a *allowlist) bool { return a.allows(f.Secret, match, line) }) {
			refused[here] = true
			return true
		}
		found = append(found, f)
		return len(found) < MaxFindings
	}
	if candidates != nil {
		d.pattern.prefixed.each(text, 0, candidates, judge)
		return found
	}
	re := d.pattern.compiled()
	for _, w := range windows {
		for _, m := range re.FindAllStringIndex(text[w.from:w.to], -1) {
			if !judge(w.from+m[0], w.from+m[1]) {
				return found
			}
		}
	}
	return found
}

// groups are the offsets of the expression's groups in one match of it, which
// stands at start.
func (d *Detector) groups(match string, start int, candidates []candidate) []int {
	if candidates != nil {
		return d.pattern.prefixed.groups(match, start, candidates)
	}
	return d.pattern.compiled().FindStringSubmatchIndex(match)
}

// settle orders findings, drops a generic one where a specific finding of the
// same line holds it, and a repeated one.
func settle(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		if a.End != b.End {
			return b.End - a.End
		}
		return strings.Compare(a.Detector, b.Detector)
	})
	specific := map[int][]string{}
	for _, f := range found {
		if !f.generic {
			specific[f.line] = append(specific[f.line], f.Secret)
		}
	}
	out := found[:0]
	for _, f := range found {
		if f.generic && slices.ContainsFunc(specific[f.line], func(s string) bool { return strings.Contains(s, f.Secret) }) {
			continue
		}
		if n := len(out); n > 0 && out[n-1] == f {
			continue
		}
		out = append(out, f)
	}
	return out
}

// maxLine bounds how far a line is followed to either side: a text may be one
// line of a megabyte with a thousand findings.
const maxLine = 8 << 10

func lineStart(text string, at int) int {
	low := max(0, at/maxLine-1) * maxLine
	return low + strings.LastIndexByte(text[low:at], '\n') + 1
}

// lineBegins is lineStart for offsets that mostly ascend.
type lineBegins struct {
	text     string
	at, line int // the last answer
}

func (l *lineBegins) begin(at int) int {
	same := at >= l.at && at/maxLine == l.at/maxLine // and the last answer reaches as far back
	if !same || strings.IndexByte(l.text[l.at:at], '\n') >= 0 {
		l.line = lineStart(l.text, at)
	}
	l.at = at
	return l.line
}

func lineEnd(text string, at int) int {
	high := min(len(text), at+maxLine)
	if i := strings.IndexByte(text[at:high], '\n'); i >= 0 {
		return at + i
	}
	return high
}

// Entropy is Shannon's, in bits a character.
func Entropy(s string) float64 {
	var ascii [128]int
	var wide map[rune]int
	for _, r := range s {
		if r < 128 {
			ascii[r]++
			continue
		}
		if wide == nil {
			wide = map[rune]int{}
		}
		wide[r]++
	}
	e, inverse := 0.0, 1/float64(len(s))
	add := func(n int) {
		if n > 0 {
			f := float64(n) * inverse
			e -= f * math.Log2(f)
		}
	}
	for _, n := range ascii {
		add(n)
	}
	for _, n := range wide {
		add(n)
	}
	return e
}
