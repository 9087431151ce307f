package shell

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Posix analyses a text that bash, sh or zsh would run. A text with a syntax
// error runs up to the line of the error, so what was parsed before counts; the
// rest is cut into words roughly. The commands are put into room.
func Posix(ctx context.Context, text string, room *Room) (out Script) {
	w := &walker{ctx: ctx, room: room, vars: constants()}
	defer func() {
		if w.out.fault = recover(); w.out.fault != nil { // it must not let a command pass unseen
			w.out.Partial, w.out.Limited = true, true
			w.via, w.nesting = nil, maxNesting // only words from here on
			w.rough(text)
		}
		out = w.out
		room.keep(out.Commands)
		out.Commands = slices.Clip(out.Commands)
	}()
	w.out.Commands = room.listing()
	w.script(text)
	w.via = []string{"trap"}
	for _, script := range w.traps {
		w.script(script)
	}
	return w.out
}

type walker struct {
	ctx        context.Context
	out        Script
	vars       variables                   // in the order of the text
	made       map[string]string           // files by clean path: the program whose output they hold
	files      map[string]*strings.Builder // what the script puts into files
	funcs      map[string][]function       // what a name may stand for, of all branches
	traps      []string                    // scripts that read variables when the shell ends
	inFunction int
	left       int      // times that a break, continue or return was seen
	locals     []func() // give variables of a function back what they held
	via        []string
	names      []string // of the commands so far; what a command's own words ran stands behind its mark
	nesting    int
	outputs    int
	steps      int // statements looked at
	expanded   int
	room       *Room
	spare      []piece // memory for the pieces of a word
}

func (w *walker) script(text string) {
	if w.nesting >= maxNesting || w.full() {
		w.out.Limited = true
		return
	}
	w.nesting++
	defer func() { w.nesting-- }()
	if strings.Contains(text, "\r") {
		text = returns.Replace(namedReturn.ReplaceAllString(text, "$1\x01\n"))
	}
	if done := w.room.trees.Statements(text, w.top); done < len(text) {
		w.rest(text[done:])
	}
}

// returns makes carriage returns what they are to a shell: nothing special. To
// the parser they are blanks, "\r# x; rm y" a comment, and "\\\r\n" no end of the
// line. At the end of a line they stay away.
var returns = strings.NewReplacer("\\\r\n", "\\\x01\n", "\r\n", "\n", "\r", "\x01")

// namedReturn is a redirection to a file whose name is the return: without it the
// next line would be the name.
var namedReturn = regexp.MustCompile(`([<>][|&]?[ \t]*)\r\n`)

// top takes a statement that no other one holds.
func (w *walker) top(st *syntax.Stmt) {
	w.stmt(st, nil)
	if w.nesting == 1 { // no statement around takes them
		w.names = w.names[:0]
	}
}

// rest analyses what isn't plain.
func (w *walker) rest(text string) {
	text, right := rightComments(w.ctx, joinParted(text))
	w.out.Limited = w.out.Limited || !right
	done := 0
	var fault error // the iterator may go on after its error and must not be left before it ends
	for st, err := range statements(w.ctx, text) {
		switch {
		case fault != nil:
		case err != nil:
			fault = err
		default:
			w.top(st)
			done = int(st.End().Offset())
		}
	}
	stop, unclosed := unclosedDocument(fault)
	switch {
	case fault == nil:
	case w.ctx.Err() != nil:
		w.out.Limited = true
	case unclosed && w.nesting < maxNesting && strings.Contains(text[done:], "<<"): // a shell takes all there is
		w.nesting++
		w.rest(text[done:] + "\n" + stop + "\n")
		w.nesting--
	default:
		w.out.Partial = true
		w.out.Limited = w.out.Limited || errors.Is(fault, errDeep)
		w.broken(text[min(done, len(text)):])
	}
}

// broken analyses what no parser took. A shell reads what stands between
// backquotes only when it comes to it: its errors are of no harm to the rest.
func (w *walker) broken(text string) {
	outside, between := cutBackquotes(text)
	if len(between) == 0 {
		w.rough(text)
		return
	}
	for _, script := range between {
		w.script(script)
	}
	w.script(outside)
}

// rough cuts what no parser took into words.
func (w *walker) rough(text string) {
	for _, c := range tokenize(text, '\\') {
		n := 0
		for n < len(c.words) && (prefix[c.words[n]] || assigns(c.words[n])) {
			n++
		}
		w.words(c.words[n:], nil, nil, nil)
	}
}

// prefix are the reserved words that a command may follow.
var prefix = map[string]bool{"if": true, "then": true, "elif": true, "else": true, "while": true, "until": true, "do": true, "!": true}

// assigns says whether a word is NAME=VALUE, or NAME[INDEX]=VALUE.
func assigns(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	name = strings.TrimSuffix(name, "+")
	if array, index, is := strings.Cut(name, "["); is && strings.HasSuffix(index, "]") {
		name = array
	}
	return ok && syntax.ValidName(name)
}

// full says that no more commands are taken. Statements count, not what they
// list: substitutions within substitutions are evaluated again and again.
func (w *walker) full() bool {
	if w.steps++; w.steps&63 == 0 && w.ctx.Err() != nil {
		w.steps = maxSteps
	}
	return len(w.out.Commands) >= maxCommands || w.steps >= maxSteps
}
