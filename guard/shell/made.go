package shell

import (
	"path"
	"regexp"
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
	case interpreter.MatchString(c.Name):
		if len(c.Args) == 0 {
			return
		}
		file = c.Args[0]
	case strings.Contains(c.Path, "/") && !programs[c.Name].shell: // by its path, if that says that it is a script
		if !script.MatchString(file) {
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

var (
	script      = regexp.MustCompile(`\.(sh|bash|zsh|ksh|py|pl|rb|js|php)$`)
	interpreter = regexp.MustCompile(`^(python[0-9.]*|perl|ruby|node|php|deno|bun)$`)
)

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
