package shell

import (
	"path"
	"slices"
	"strings"
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
		w.readInto(c.Args, in)
	case "mapfile", "readarray":
		if text, ok := w.read(in); n > 0 && ok {
			w.vars.set(c.Args[n-1]+"[@]", strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", apart))
		} else if n > 0 {
			w.vars.unset(c.Args[n-1] + "[@]")
		}
	case "getopts":
		if n > 1 {
			w.vars.unset(c.Args[1])
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
			w.vars.unset(name)
		}
	case "printf":
		if len(c.Argv) > 2 && c.Argv[0] == "-v" {
			if text, ok := formatted(c.Argv[2], c.Argv[3:]); ok {
				w.vars.set(c.Argv[1], text)
			}
		}
	}
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
func (w *walker) readInto(names []string, in *input) {
	text, ok := w.read(in)
	line, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(line)
	for i, name := range names {
		w.vars.unset(name + "[@]")
		switch {
		case !ok || i >= len(words):
			w.vars.unset(name)
		case i == len(names)-1:
			w.vars.set(name, strings.Join(words[i:], " "))
		default:
			w.vars.set(name, words[i])
		}
	}
}
