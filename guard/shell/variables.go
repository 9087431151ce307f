package shell

import "slices"

// variables are what a script sets, as far as the script itself gives it. After a
// branch that may not be taken a variable has several: what depends on it is
// looked at for each of them.
type variables struct {
	now     map[string]value
	before  []change // to what a scope may go back, in order
	scopes  int
	several []string // read, with more values than the first, since somebody asked
	process int      // shells that a shell has started
}

// exportsAll is the name of a variable that is set after set -a.
const exportsAll = "set -a"

// echoEscapes is the name of a variable that says whether echo is always echo -e: it
// is in dash and zsh, not in bash.
const echoEscapes = "echo -e"

// value is what a variable holds; the zero value is one that only a running shell
// would know, if any.
type value struct {
	text     string
	known    bool
	others   []string // known, like text
	unknown  bool     // perhaps it is none of these
	exported bool
	process  int // sees it though it isn't exported
}

type change struct {
	name string
	value
}

const (
	maxOthers = 32 // further values of a variable
	maxRuns   = 64 // times that a statement is looked at for values
	maxPasses = 3  // times that a loop's body is looked at for the values that it sets
)

// constants are what each script begins with.
func constants() variables {
	v := variables{now: make(map[string]value, 8)}
	for name, text := range map[string]string{"HOME": "~", "PWD": ".", "IFS": " \t\n", "SHELL": "sh", "BASH": "bash", "0": "bash"} {
		v.now[name] = value{text: text, known: true, exported: true}
	}
	v.now[echoEscapes] = value{known: true, others: []string{"1"}, exported: true}
	return v
}

func (v *variables) get(name string) (text string, known bool) {
	x, ok := v.now[name]
	if ok && (len(x.others) > 0 || x.unknown || v.hidden(x)) {
		v.several = append(v.several, name)
	}
	return x.text, x.known
}

// hidden says that a variable belongs to a shell further out: whoever exported it
// may have done so unseen.
func (v *variables) hidden(x value) bool { return x.known && !x.exported && x.process != v.process }

// set gives a variable one value, in place of all that it has.
func (v *variables) set(name, text string) {
	all := v.now[exportsAll]
	exported := v.now[name].exported || all.known && !all.unknown
	v.put(name, value{text: text, known: true, unknown: unknownLength(text) > 0, exported: exported, process: v.process})
}

// perhaps says that a variable may hold another value as well.
func (v *variables) perhaps(name string) {
	x := v.now[name]
	x.unknown = true
	v.put(name, x)
}

func (v *variables) unset(name string) { v.put(name, value{}) }

func (v *variables) export(name string) {
	if x, ok := v.now[name]; ok && !x.exported {
		x.exported = true
		v.put(name, x)
	}
}

func (v *variables) put(name string, x value) {
	old, ok := v.now[name]
	if !ok && !x.known {
		return
	}
	if v.scopes > 0 {
		v.before = append(v.before, change{name, old})
	}
	if x.known {
		v.now[name] = x
	} else {
		delete(v.now, name)
	}
}

// scope begins what can be undone; end or undo must follow.
func (v *variables) scope() (mark int) {
	v.scopes++
	return len(v.before)
}

// end keeps what was set since the scope began.
func (v *variables) end() {
	if v.scopes--; v.scopes == 0 {
		v.before = v.before[:0]
	}
}

// undo gives back what the variables held when the scope began, and returns what
// was set since.
func (v *variables) undo(mark int) (set map[string]value) {
	if len(v.before) > mark {
		set = map[string]value{}
	}
	for _, c := range slices.Backward(v.before[mark:]) {
		if _, seen := set[c.name]; !seen {
			set[c.name] = v.now[c.name]
		}
		v.back(c)
	}
	v.before = v.before[:mark]
	v.end()
	return set
}

func (v *variables) back(c change) {
	if c.known {
		v.now[c.name] = c.value
	} else {
		delete(v.now, c.name)
	}
}

// sometimes ends a scope that may have been left at any point: variables have all
// values that they had since it began. It tells whether they are too many.
func (v *variables) sometimes(mark int) (full bool) {
	var held map[string]value
	if len(v.before) > mark {
		held = map[string]value{}
	}
	for _, c := range slices.Backward(v.before[mark:]) {
		all, seen := held[c.name]
		if !seen {
			all = v.now[c.name].several()
		}
		full = all.add(c.value) || full
		held[c.name] = all
		v.back(c)
	}
	v.before = v.before[:mark]
	for name, all := range held {
		v.put(name, all)
	}
	v.end()
	return full
}

// join gives variables the values of each of several ways that were gone, and
// those that they have if perhaps none was. It tells whether they are too many, or
// more than before.
func (v *variables) join(ways []map[string]value, none bool) (full, more bool) {
	type joined struct {
		value
		ways int
	}
	var all map[string]joined
	for _, way := range slices.Backward(ways) {
		if len(way) > 0 && all == nil {
			all = make(map[string]joined, len(way))
		}
		for name, x := range way {
			one, seen := all[name]
			if !seen {
				one.value = x.several()
			} else {
				full = one.add(x) || full
			}
			one.ways++
			all[name] = one
		}
	}
	for name, one := range all {
		before := v.now[name]
		if none || one.ways < len(ways) {
			full = one.add(before) || full
		}
		more = more || one.count() > before.count()
		v.put(name, one.value)
	}
	return full, more
}

// several is a copy that takes further values.
func (x value) several() value {
	x.others = slices.Clone(x.others)
	x.unknown = x.unknown || !x.known
	return x
}

func (x value) count() int {
	n := len(x.others)
	if x.known {
		n++
	}
	if x.unknown && x.known {
		n++
	}
	return n
}

// add makes the values of y values of x as well; full if they are too many.
func (x *value) add(y value) (full bool) {
	if !y.known {
		x.unknown = true
		return false
	}
	if !x.known {
		*x = y.several()
		x.unknown = true
		return false
	}
	x.unknown = x.unknown || y.unknown
	x.exported = x.exported && y.exported
	x.process = min(x.process, y.process)
	for _, text := range append([]string{y.text}, y.others...) {
		switch {
		case text == x.text || slices.Contains(x.others, text):
		case len(x.others) == maxOthers:
			full = true
		default:
			x.others = append(x.others, text)
		}
	}
	return full
}

// each are the values that a variable may have, each of them alone. One that only
// a running shell would know is nothing, or something.
func (v *variables) each(name string) (list []value) {
	x := v.now[name]
	if !x.known {
		return []value{{known: true, process: v.process}, {text: unknownValue, known: true, process: v.process}}
	}
	one := func(text string) value {
		return value{text: text, known: true, exported: x.exported, process: v.process}
	}
	list = append(list, one(x.text))
	for _, text := range x.others {
		list = append(list, one(text))
	}
	if x.unknown || v.hidden(x) {
		list = append(list, value{})
	}
	return list
}

// saved gives variables back what they hold now.
func (v *variables) saved(names ...string) (restore func()) {
	held := make([]value, len(names))
	for i, name := range names {
		held[i] = v.now[name]
	}
	return func() {
		for i, name := range slices.Backward(names) {
			v.put(name, held[i])
		}
	}
}
