package shell

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// unknownValue stands for what only a running shell would know.
const unknownValue = "$?"

// piece is a part of a word; white space of a part that splits ends a field, in
// a list apart does so in any case.
type piece struct {
	text  string
	split bool
	list  bool
}

// apart stands between the elements of "$@" and of arrays.
const apart = "\x00"

// text is a word without field splitting; known is false if a part of it
// depends on more than the script's own text.
func (w *walker) text(word *syntax.Word) (text string, known bool) {
	if word == nil {
		return "", true
	}
	if text, ok := plainWord(word); ok {
		return text, true
	}
	known = true
	list := w.evaluate(word, &known)
	text, _ = whole(list, true)
	w.spare = list[:0]
	return text, known
}

// evaluate is the pieces of a word, in memory that w.spare is to get back.
func (w *walker) evaluate(word *syntax.Word, known *bool) []piece {
	room := w.spare
	w.spare = nil // a word within the word takes memory of its own
	before := *known
	*known = true
	list := w.pieces(room, word.Parts, false, known)
	if !*known {
		delimit(list)
	}
	*known = *known && before
	return list
}

// delimit writes an unknown $x as ${x} where it would seem to be the start of a
// longer name.
func delimit(list []piece) {
	next := ""
	for i := len(list) - 1; i >= 0; i-- {
		p := &list[i]
		if n := nameLength(strings.TrimPrefix(p.text, "$")); n > 0 && n == len(p.text)-1 && nameLength(next) > 0 {
			p.text = "${" + p.text[1:] + "}"
		}
		if p.text != "" {
			next = p.text
		}
	}
}

// whole is the text of pieces; not ok if there may be several fields and they
// are not to be joined.
func whole(list []piece, join bool) (text string, ok bool) {
	var b strings.Builder
	for _, p := range list {
		if p.list {
			p.text = strings.ReplaceAll(p.text, apart, " ")
		}
		switch {
		case (p.split || p.list) && !join:
			return "", false
		case p.text == "":
		case text == "":
			text = p.text
		default:
			if b.Len() == 0 {
				b.WriteString(text)
			}
			b.WriteString(p.text)
		}
	}
	if b.Len() > 0 {
		text = b.String()
	}
	return text, true
}

// plainWord is the text of the words that most words are: one literal, or one
// quoted literal.
func plainWord(word *syntax.Word) (string, bool) {
	if len(word.Parts) != 1 {
		return "", false
	}
	switch p := word.Parts[0].(type) {
	case *syntax.Lit:
		return p.Value, !holds(p.Value, '\\', '{')
	case *syntax.SglQuoted:
		return p.Value, !p.Dollar
	case *syntax.DblQuoted:
		if len(p.Parts) == 1 {
			if lit, ok := p.Parts[0].(*syntax.Lit); ok {
				return lit.Value, strings.IndexByte(lit.Value, '\\') < 0
			}
		}
	}
	return "", false
}

// holds is strings.ContainsAny of two bytes: words are short and many.
func holds(s string, a, b byte) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == a || s[i] == b {
			return true
		}
	}
	return false
}

// fields appends the words that a word becomes.
func (w *walker) fields(word *syntax.Word, list []string) []string {
	known := true
	return w.known(word, list, &known)
}

// known is fields that clears known if a part of them depends on more than the
// script's own text.
func (w *walker) known(word *syntax.Word, list []string, known *bool) []string {
	if text, ok := plainWord(word); ok {
		return append(list, text)
	}
	// A word whose braces are split stays so, should it be evaluated again.
	if !slices.ContainsFunc(word.Parts, isBraces) && !syntax.SplitBraces(word) {
		return w.split(word, list, known)
	}
	for _, one := range w.braces(word) {
		list = w.split(one, list, known)
	}
	return list
}

func isBraces(p syntax.WordPart) bool {
	_, is := p.(*syntax.BraceExp)
	return is
}

// sequences says that a word's braces only count: {1..9}.
func sequences(word *syntax.Word) bool {
	return !slices.ContainsFunc(word.Parts, func(p syntax.WordPart) bool {
		b, is := p.(*syntax.BraceExp)
		return is && !b.Sequence
	}) && slices.ContainsFunc(word.Parts, isBraces)
}

func (w *walker) braces(word *syntax.Word) (words []*syntax.Word) {
	for one, err := range expand.BracesSeq(nil, word) {
		if err != nil || len(words) == 64 {
			w.out.Limited = w.out.Limited || err != nil || !sequences(word) // of {1..100} the first say enough
			break
		}
		words = append(words, one)
	}
	return words
}

// split appends the fields of a word that holds no braces.
func (w *walker) split(word *syntax.Word, list []string, known *bool) []string {
	pieces := w.evaluate(word, known)
	defer func() { w.spare = pieces[:0] }()
	if text, ok := whole(pieces, false); ok && len(pieces) > 0 {
		return append(list, text)
	}
	var b strings.Builder
	begun := false
	separators, _ := w.vars.get("IFS")
	for _, p := range pieces {
		if !p.split && !p.list {
			b.WriteString(p.text)
			begun = true
			continue
		}
		for i := 0; i < len(p.text); i++ {
			switch c := p.text[i]; {
			case p.list && c == apart[0], p.split && (c == ' ' || c == '\t' || c == '\n' || strings.IndexByte(separators, c) >= 0):
				if begun {
					list = append(list, b.String())
					b.Reset()
					begun = false
				}
			default:
				b.WriteByte(c)
				begun = true
			}
		}
	}
	if begun {
		list = append(list, b.String())
	}
	return list
}

// pieces appends the parts of a word, evaluated.
func (w *walker) pieces(list []piece, parts []syntax.WordPart, quoted bool, known *bool) []piece {
	unknown := func(text string) piece {
		*known = false
		return piece{text: text}
	}
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if p.Value != "" || quoted { // {,} is no word at all
				list = append(list, piece{text: unquoteLit(p.Value, quoted)})
			}
		case *syntax.SglQuoted:
			text := p.Value
			if p.Dollar {
				text = unescape(text)
			}
			list = append(list, piece{text: text})
		case *syntax.DblQuoted:
			list = w.pieces(append(list, piece{}), p.Parts, true, known)
		case *syntax.ParamExp:
			text, ok := w.parameter(p)
			if !ok {
				list = append(list, unknown(text))
			} else {
				list = append(list, piece{text: text, split: !quoted, list: elements(p)})
			}
		case *syntax.CmdSubst:
			if text, ok := w.substitute(p.Stmts); ok {
				list = append(list, piece{text: strings.TrimRight(text, "\n"), split: !quoted})
			} else {
				list = append(list, unknown(unknownValue))
			}
		case *syntax.ProcSubst:
			if len(p.Stmts) == 0 { // nothing, in bash
				list = append(list, unknown(unknownValue))
				continue
			}
			if text, ok := w.substitute(p.Stmts); ok && p.Op == syntax.CmdIn {
				file := "/dev/fd/" + strconv.Itoa(63+len(w.files))
				w.put(file, text)
				list = append(list, piece{text: file})
			} else {
				list = append(list, unknown("/dev/fd/"+unknownValue))
			}
		case *syntax.ExtGlob:
			list = append(list, unknown(p.Op.String()+p.Pattern.Value+")"))
		case *syntax.BraceExp: // not expanded where a single word is meant
			for _, elem := range p.Elems {
				list = w.pieces(list, elem.Parts, quoted, known)
			}
			*known = false
		case *syntax.ArithmExp:
			w.inner(p)
			list = append(list, unknown(unknownValue))
		default:
			w.inner(part)
			list = append(list, unknown(unknownValue))
		}
	}
	return list
}

// substitute looks at the statements of a substitution and gives what they print,
// if that is plain from the script.
func (w *walker) substitute(list []*syntax.Stmt) (text string, known bool) {
	w.apartFrom(func() {
		w.stmts(list)
		if len(list) == 1 {
			text, known = w.output(list[0], nil)
		}
	})
	return text, known
}

// withoutUnknown are the words of a command if what is unknown at its front is
// empty: $x rm, ${x}rm and $(:) rm run rm then. Nil if nothing is unknown.
func withoutUnknown(words []string) []string {
	if !strings.HasPrefix(words[0], "$") {
		return nil
	}
	for len(words) > 0 {
		word := words[0]
		for n := unknownLength(word); n > 0; n = unknownLength(word) {
			word = word[n:]
		}
		if word != "" {
			return append([]string{word}, words[1:]...)
		}
		words = words[1:]
	}
	return nil
}

// unknownLength is the length of the unknown value that a word begins with.
func unknownLength(word string) int {
	switch {
	case len(word) < 2 || word[0] != '$':
		return 0
	case word[1] == '{':
		if n := nameLength(word[2:]); n > 0 && strings.HasPrefix(word[2+n:], "}") {
			return n + 3
		}
		return 0
	case strings.IndexByte("?@*#!$-", word[1]) >= 0:
		return 2
	}
	if n := nameLength(word[1:]); n > 0 {
		return n + 1
	}
	return 0
}

// nameLength is how many letters, digits and underscores a text begins with.
func nameLength(text string) int {
	for i := 0; i < len(text); i++ {
		if c := text[i] | 0x20; text[i] != '_' && (c < 'a' || c > 'z') && (text[i] < '0' || text[i] > '9') {
			return i
		}
	}
	return len(text)
}

// parameter is the value of $x where the script itself gives it.
func (w *walker) parameter(p *syntax.ParamExp) (text string, known bool) {
	if p.Param == nil {
		w.inner(p)
		return unknownValue, false
	}
	name := p.Param.Value
	if wholeArray(p) {
		name += "[@]"
	}
	value, ok := w.vars.get(name)
	if !wholeArray(p) {
		switch i := w.index(p.Index); {
		case i == "":
			ok = false
		case !ok || i != "0":
			value, ok = w.element(name, i)
		}
	}
	if sliced, is := w.slice(p, name); is {
		return sliced, true
	}
	if p.Excl && wholeArray(p) && ok { // the indexes
		return strings.Join(indexes(w.listOf(name)), apart), true
	}
	if wholeArray(p) && !elements(p) { // "${a[*]}" is one word
		value = strings.ReplaceAll(value, apart, " ")
	}
	if w.expanded += len(value); len(value) > maxValue || w.expanded > maxExpanded {
		w.out.Limited = true
		return "$" + name, false
	}
	plain := !p.Excl && !p.Length && !p.Width && p.Slice == nil && p.Repl == nil && p.Names == 0
	switch {
	case plain && p.Exp == nil && ok:
		return value, true
	case plain && p.Exp != nil && (p.Exp.Op == syntax.DefaultUnset || p.Exp.Op == syntax.DefaultUnsetOrNull ||
		p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull):
		byDefault, defined := w.text(p.Exp.Word)
		if ok && value != "" {
			return value, true
		}
		if defined && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull) {
			w.vars.set(name, byDefault)
		}
		return byDefault, defined
	}
	if p.Exp != nil && (p.Exp.Op == syntax.AlternateUnset || p.Exp.Op == syntax.AlternateUnsetOrNull) && !ok {
		w.vars.several = append(w.vars.several, name)
	}
	w.inner(p)
	if ok && (!plain || p.Exp != nil) {
		if w.expanded += w.bound(p); w.expanded > maxExpanded {
			w.out.Limited = true
			return "$" + name, false
		}
		if text, err := expand.Literal(w.constants(), &syntax.Word{Parts: []syntax.WordPart{p}}); err == nil && len(text) <= maxValue {
			return text, true
		}
	}
	return "$" + name, false
}

// wholeArray is ${a[@]} or ${a[*]}.
func wholeArray(p *syntax.ParamExp) bool {
	index, ok := p.Index.(*syntax.Word)
	return ok && (index.Lit() == "@" || index.Lit() == "*")
}

// bound is how long what a parameter expands to may get, and everything on the way
// to it: each part of a value may be replaced by a word of other values.
func (w *walker) bound(p *syntax.ParamExp) int {
	if p.Param == nil {
		return 0
	}
	name := p.Param.Value
	if wholeArray(p) {
		name += "[@]"
	}
	value := w.vars.now[name]
	n := len(value.text)
	if p.Excl {
		n += len(w.vars.now[value.text].text)
	}
	inner := 0
	walk(p, func(x syntax.Node) bool {
		if lit, ok := x.(*syntax.Lit); ok {
			inner += len(lit.Value)
		}
		if other, ok := x.(*syntax.ParamExp); ok && other != p {
			inner += w.bound(other)
			return false
		}
		return true
	})
	if p.Repl != nil {
		return min(maxExpanded, (n+1)*(inner+1))
	}
	return min(maxExpanded, n+inner) + 1
}

// index is the index of ${a[1]} or ${a[key]}, the first one's if there is none, or
// "" if it isn't plain.
func (w *walker) index(x syntax.ArithmExpr) string {
	if x == nil {
		return "0"
	}
	word, ok := x.(*syntax.Word)
	if !ok {
		if n, ok := w.number(x); ok {
			return strconv.Itoa(n)
		}
		return ""
	}
	text, known := w.operand(word)
	if n, ok := w.numeric(text); ok && known {
		return strconv.Itoa(n)
	}
	if !known {
		return ""
	}
	return text
}

// operand is a word of an expression. What runs commands isn't looked at here: it
// is once already.
func (w *walker) operand(word *syntax.Word) (text string, known bool) {
	if substitutes(word) {
		return "", false
	}
	return w.text(word)
}

// numeric is the number that an operand is or that the variable of its name holds.
func (w *walker) numeric(text string) (n int, ok bool) {
	if syntax.ValidName(text) {
		if text, ok = w.vars.get(text); !ok {
			return 0, false
		}
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// number is the value of an expression that is a number, a variable's name or a
// sum.
func (w *walker) number(x syntax.ArithmExpr) (n int, ok bool) {
	switch x := x.(type) {
	case *syntax.Word:
		if text, known := w.operand(x); known {
			return w.numeric(text)
		}
	case *syntax.UnaryArithm:
		n, ok = w.number(x.X)
		return -n, ok && x.Op == syntax.Minus
	case *syntax.ParenArithm:
		return w.number(x.X)
	case *syntax.BinaryArithm:
		a, known := w.number(x.X)
		b, too := w.number(x.Y)
		switch ok = known && too; x.Op {
		case syntax.Add:
			return a + b, ok
		case syntax.Sub:
			return a - b, ok
		}
	}
	return 0, false
}

// element is the element of an array that has an index.
func (w *walker) element(name, index string) (text string, ok bool) {
	list := w.listOf(name + "[@]")
	n, err := strconv.Atoi(index)
	if n < 0 {
		n += len(list)
	}
	if err == nil && 0 <= n && n < len(list) {
		return list[n], true
	}
	if text, ok = w.vars.get(name + "[" + index + "]"); !ok && err != nil && len(list) > 0 {
		return list[0], true // the index is a variable that isn't set
	}
	return text, ok
}

// slice is "${@:2}" or "${a[@]:1:2}": some of the elements.
func (w *walker) slice(p *syntax.ParamExp, name string) (text string, ok bool) {
	if p.Slice == nil || !elements(p) {
		return "", false
	}
	list := w.listOf(name)
	from, known := w.number(p.Slice.Offset)
	n := len(list)
	if p.Slice.Length != nil {
		var too bool
		n, too = w.number(p.Slice.Length)
		known = known && too
	}
	if name == "@" && from > 0 { // the one before the first is $0
		from--
	}
	if from < 0 {
		from += len(list)
	}
	if !known || list == nil || from < 0 || n < 0 {
		return "", false
	}
	from = min(from, len(list))
	return strings.Join(list[from:min(len(list), from+n)], apart), true
}

func indexes(list []string) []string {
	numbers := make([]string, len(list))
	for i := range list {
		numbers[i] = strconv.Itoa(i)
	}
	return numbers
}

// elements is $@ or ${a[@]}, whose elements stay apart also within quotes.
func elements(p *syntax.ParamExp) bool {
	index, ok := p.Index.(*syntax.Word)
	return p.Param.Value == "@" || ok && index.Lit() == "@"
}

// constants lets package expand evaluate what needs only the script's own values.
func (w *walker) constants() *expand.Config {
	return &expand.Config{Env: expand.FuncEnviron(func(name string) string {
		text, _ := w.vars.get(name)
		return strings.ReplaceAll(text, apart, " ")
	})}
}

// unquoteLit removes backslashes of an unquoted or double-quoted literal.
func unquoteLit(s string, quoted bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		next := s[i+1]
		switch {
		case next == '\n':
			i++
		case quoted && !strings.ContainsRune("$`\"\\", rune(next)):
			b.WriteByte('\\')
		default:
			b.WriteByte(next)
			i++
		}
	}
	return b.String()
}
