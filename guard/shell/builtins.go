package shell

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// builtin does what a command does to variables and files.
func (w *walker) builtin(c *Command, in *input) {
	w.remember(c)
	switch n := len(c.Args); c.Name {
	case "tee":
		if text, ok := w.read(in); ok {
			for _, f := range c.Args {
				w.put(path.Clean(f), text)
			}
		}
	case "cp", "mv", "ln", "install":
		if n == 2 {
			w.copied(c.Args[0], c.Args[1])
		}
	case "read":
		w.readInto(c, in)
	case "mapfile", "readarray":
		name := "MAPFILE"
		if n > 0 {
			name = c.Args[n-1]
		}
		if !variable(name) {
			return
		}
		w.vars.unset(name)
		if text, ok := w.read(in); ok {
			w.vars.set(name+"[@]", strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", apart))
		} else {
			w.vars.unset(name + "[@]")
		}
	case "break", "continue", "return":
		w.left++
	case "shift":
		by := 1
		if n > 0 {
			by, _ = strconv.Atoi(c.Args[0])
		}
		w.shift(by)
	case "alias":
		for _, definition := range c.Args {
			if name, text, ok := strings.Cut(definition, "="); ok {
				w.alias(name, text)
			}
		}
	case "getopts":
		if n > 1 && variable(c.Args[1]) {
			w.vars.unset(c.Args[1])
			w.optionsValue(c.Args[2:])
		}
	case "set":
		w.position(1, operandsOfSet(c.Argv))
		if i := slices.Index(c.Argv, "allexport"); slices.Contains(c.Flags, "a") || i > 0 && c.Argv[i-1] == "-o" {
			w.vars.set(exportsAll, "")
		} else if slices.Contains(c.Argv, "+a") || i > 0 {
			w.vars.unset(exportsAll)
		}
	case "unset":
		for _, name := range c.Args {
			if variable(name) {
				w.vars.unset(name)
			}
		}
	case "printf":
		if len(c.Argv) > 2 && c.Argv[0] == "-v" && variable(c.Argv[1]) {
			if text, ok := formatted(c.Argv[2], c.Argv[3:]); ok {
				w.vars.set(c.Argv[1], text)
			}
		}
	}
}

// variable says whether a shell takes a name for a variable's or an element's. What
// else variables holds, as the function in force, no script sets by its name.
func variable(name string) bool {
	array, index, is := strings.Cut(name, "[")
	return syntax.ValidName(array) && (!is || strings.HasSuffix(index, "]"))
}

// optionsValue makes OPTARG what getopts may find among words.
func (w *walker) optionsValue(words []string) {
	if len(words) == 0 {
		words = w.listOf("@")
	}
	all := value{process: w.vars.process}
	for _, word := range words {
		if len(word) > 2 && word[0] == '-' {
			word = word[2:]
		}
		w.out.Limited = all.add(value{text: word, known: true, process: w.vars.process}) || w.out.Limited
	}
	w.vars.put("OPTARG", all)
}

// operandsOfSet are the words that become positional parameters.
func operandsOfSet(words []string) []string {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == "--" || w == "-":
			return words[i+1:]
		case len(w) < 2 || w[0] != '-' && w[0] != '+':
			return words[i:]
		case w[len(w)-1] == 'o':
			i++
		}
	}
	return nil
}

// readInto is the builtin read: a word of the first line for each name, the
// rest for the last.
func (w *walker) readInto(c *Command, in *input) {
	text, ok := w.read(in)
	separators, _ := w.vars.get("IFS")
	for _, e := range c.Env {
		if name, value, _ := strings.Cut(e, "="); name == "IFS" {
			separators = value
		}
	}
	names, array, end := optionsOfRead(c.Argv)
	if slices.ContainsFunc(names, func(name string) bool { return !variable(name) }) {
		return // a shell reads nothing then
	}
	line := text
	if end != "" {
		line, _, _ = strings.Cut(text, end)
	}
	if array {
		w.vars.unset(names[0])
		if ok {
			words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(separators, r) })
			w.vars.set(names[0]+"[@]", strings.Join(words, apart))
		} else {
			w.vars.unset(names[0] + "[@]")
		}
		return
	}
	for i, name := range names {
		w.vars.unset(name + "[@]")
		word := trimmed(line, separators)
		if i < len(names)-1 {
			word, line = firstOf(word, separators)
		}
		if word == "" {
			w.vars.unset(name)
			continue
		}
		w.vars.set(name, word)
		if !ok { // what isn't known may hold separators
			w.vars.perhaps(name)
		}
	}
}

const blanks = " \t\n"

// trimmed is a line without the blanks around it that separate words.
func trimmed(line, separators string) string {
	return strings.TrimFunc(line, func(r rune) bool { return strings.ContainsRune(blanks, r) && strings.ContainsRune(separators, r) })
}

// firstOf cuts the first word off: one separator that is no blank ends it, with
// blanks around.
func firstOf(line, separators string) (word, rest string) {
	at := strings.IndexAny(line, separators)
	if at < 0 {
		return line, ""
	}
	word, rest = line[:at], trimmed(line[at:], separators)
	if rest != "" && strings.IndexByte(separators, rest[0]) >= 0 {
		rest = rest[1:]
	}
	return word, rest
}

// optionsOfRead are the names that read is given, whether the only one is an
// array's, and what ends the line.
func optionsOfRead(words []string) (names []string, array bool, end string) {
	end = "\n"
	for i := 0; i < len(words); i++ {
		word := words[i]
		if len(word) < 2 || word[0] != '-' || word == "--" {
			names = append(names, word)
			continue
		}
		at := strings.IndexAny(word, "adinNptu")
		if at < 0 {
			continue
		}
		value := word[at+1:]
		if value == "" && i+1 < len(words) {
			i++
			value = words[i]
		}
		switch word[at] {
		case 'a':
			return []string{value}, true, end
		case 'd':
			end = value[:min(1, len(value))]
		}
	}
	if names = slices.DeleteFunc(names, func(name string) bool { return name == "--" }); len(names) == 0 {
		names = []string{"REPLY"}
	}
	return names, false, end
}

// alias defines a name as a function is that takes what stands behind the name.
func (w *walker) alias(name, text string) {
	file, err := syntax.NewParser(bash).Parse(&shallow{ctx: w.ctx, text: text + ` "$@"`}, "")
	if err != nil || len(file.Stmts) == 0 {
		return
	}
	if !calls(file, name) { // it is no alias within itself
		w.define(name, &syntax.Stmt{Cmd: &syntax.Block{Stmts: file.Stmts}})
	}
}
