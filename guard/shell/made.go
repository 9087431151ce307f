package shell

import (
	"path"
	"strings"
)

// remember notes who has put something unknown into a file, should it be run later.
func (w *walker) remember(c *Command) {
	files := c.Writes
	if fetched := fetches(c); len(fetched) > 0 {
		files = append(fetched, files...)
	}
	for _, f := range files {
		if w.made == nil {
			w.made = map[string]string{}
		}
		w.made[path.Clean(f)] = c.Name
	}
}

// copied notes that a file has a second name, or another one.
func (w *walker) copied(file, as string) {
	if by := w.made[path.Clean(file)]; by != "" {
		w.made[path.Clean(as)] = by
	}
	if text := w.written(file); text != "" {
		w.put(path.Clean(as), text)
	}
}

// runMade adds what a script is that another program has printed into a file:
// after "curl u > f", "sh f" is "sh <(curl u)".
func (w *walker) runMade(c *Command, file string) {
	name := c.Name
	switch {
	case len(w.made) == 0:
		return
	case interprets(c.Name):
		if len(c.Args) == 0 {
			return
		}
		file = c.Args[0]
	case file == "":
		return
	case strings.Contains(c.Path, "/") && !programs[c.Name].shell: // by its path, if that says that it is a script
		if !scripts[path.Ext(file)] {
			return
		}
		name = "sh"
	}
	if by := w.made[path.Clean(file)]; by != "" {
		run := w.room.command([]string{name, "/dev/fd/" + unknownValue})
		run.Via, run.From = c.Via, []string{by}
		w.add(run)
	}
}

// scripts are the endings of files that some shell or interpreter runs.
var scripts = map[string]bool{".sh": true, ".bash": true, ".zsh": true, ".ksh": true, ".py": true, ".pl": true, ".rb": true, ".js": true, ".php": true}

// interprets says that a program runs the file that it is given, other than a shell.
func interprets(name string) bool {
	switch name {
	case "perl", "ruby", "node", "php", "deno", "bun":
		return true
	}
	version, python := strings.CutPrefix(name, "python")
	return python && strings.Trim(version, "0123456789.") == ""
}

// fetches are the files that a program is told to put a download into.
func fetches(c *Command) (files []string) {
	var letter byte
	var long string
	switch c.Name {
	case "curl":
		letter, long = 'o', "--output"
	case "wget":
		letter, long = 'O', "--output-document"
	default:
		return nil
	}
	byURL := c.Name == "wget"
	for i, w := range c.Argv {
		next := ""
		if i+1 < len(c.Argv) {
			next = c.Argv[i+1]
		}
		option, value, _ := strings.Cut(w, "=")
		switch at := strings.IndexByte(w, letter); {
		case option == long && value != "":
			files, byURL = append(files, value), false
		case w == long:
			files, byURL = append(files, next), false
		case strings.HasPrefix(w, "--"):
			byURL = byURL || w == "--remote-name" || w == "--remote-name-all"
		case w == "" || w[0] != '-':
		case at > 0 && at == len(w)-1:
			files, byURL = append(files, next), false
		case at == 1: // -oFILE
			files, byURL = append(files, w[2:]), false
		default:
			byURL = byURL || letter == 'o' && strings.IndexByte(w, 'O') > 0
		}
	}
	if byURL {
		for _, url := range c.Args {
			url, _, _ = strings.Cut(url, "?")
			files = append(files, path.Base(url))
		}
	}
	return files
}
