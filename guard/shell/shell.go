// Package shell says what a command line would run: each simple command with
// its words, however it is quoted, wrapped, nested or piped. It parses by
// mvdan.cc/sh, plain statements by guard/shell/plain, and evaluates only what
// needs no variable from outside; it runs nothing, reads no file, and judges
// nothing. What only an interpreter other than a shell would find out stays
// unseen: threat-model.md, R17.
package shell

import (
	"path"
	"strings"
)

// Command is one simple command that the line would run.
type Command struct {
	Name   string   // base name without directory and .exe; empty for a bare assignment or redirection
	Path   string   // the first word as it stands after quotes are removed
	Argv   []string // every word after the first
	Args   []string // those that are no flags; all after "--"
	Flags  []string // without dashes: -rf gives r, f and rf, --force=x gives force
	Env    []string // NAME=value before the command, or assigned by it
	Reads  []string // files redirected to its input
	Writes []string // files that its output is redirected to
	Via    []string // what it is run by, outermost first: sudo, bash, xargs
	From   []string // names of the commands whose output it takes: pipes and substitutions
	To     []string // names of the commands that take its output by pipes

	Targets []string // for the caller: what it changes, once that is worked out
}

// Script is what a text runs, in order.
type Script struct {
	Commands []*Command
	Partial  bool // a part could not be parsed and was cut into words roughly
	Limited  bool // a limit or the context ended the analysis: more may run than is listed
	fault    any  // what the analysis panicked with
}

const (
	maxCommands = 1 << 17 // commands of one script, inner ones included
	maxSteps    = 1 << 18 // statements looked at, those evaluated again included
	leastRound  = 256     // bytes that a loop's body counts for
	neighbours  = 16      // stages of a pipeline that From and To look at to either side
	maxNesting  = 12      // scripts within scripts: bash -c "bash -c …"
	maxFrames   = 6000    // stack frames of the parser, some 4 MiB
	maxTraps    = 16      // scripts that are looked at again at the end
	maxValue    = 4 << 10 // bytes of a variable's value
	maxExpanded = 1 << 20 // bytes of all values put in
)

// command splits words into flags and operands.
func (r *Room) command(words []string) *Command {
	c := &r.commands.take(1)[:1][0]
	c.Path, c.Name, c.Argv = words[0], baseName(words[0]), words[1:]
	for i, w := range c.Argv {
		option := len(w) > 1 && (w[0] == '-' || w[0] == '/' && len(w) <= 4 && slashFlags[strings.ToLower(c.Name)])
		if !option {
			if c.Flags != nil {
				if len(c.Args) == cap(c.Args) {
					c.Args = append(r.list(len(c.Argv)), c.Args...)
				}
				c.Args = append(c.Args, w)
			} else { // no option so far: the operands are the words themselves
				c.Args = c.Argv[: i+1 : i+1]
			}
			continue
		}
		if c.Flags == nil {
			c.Flags = r.list(4)
		}
		switch {
		case w == "--":
			c.Args = append(c.Args, c.Argv[i+1:]...)
			return c
		case w[0] == '/':
			c.Flags = append(c.Flags, strings.ToLower(w[1:]))
		case w[1] == '-':
			name, _, _ := strings.Cut(w[2:], "=")
			c.Flags = append(c.Flags, name)
		case cmdlet(c.Name):
			c.Flags = append(c.Flags, w[1:])
		default:
			c.Flags = shortFlags(w[1:], c.Flags)
		}
	}
	return c
}

// shortFlags appends each letter of a cluster, and the cluster as a whole, for
// some programs write long options with one dash.
func shortFlags(w string, flags []string) []string {
	whole, _, _ := strings.Cut(w, "=")
	if len(whole) == 1 {
		return append(flags, whole)
	}
	for i := 0; i < len(whole) && i < 16; i++ {
		if c := whole[i] | 0x20; c < 'a' || c > 'z' {
			break
		}
		flags = append(flags, whole[i:i+1])
	}
	return append(flags, whole)
}

// cmdlet says whether a name is Verb-Noun, as only PowerShell's are: there an
// option is always one word.
func cmdlet(name string) bool {
	verb, noun, ok := strings.Cut(name, "-")
	return ok && noun != "" && cmdletVerbs[strings.ToLower(verb)]
}

var cmdletVerbs = map[string]bool{
	"add": true, "clear": true, "copy": true, "disable": true, "enable": true, "export": true, "format": true, "foreach": true, "get": true,
	"import": true, "initialize": true, "invoke": true, "move": true, "new": true, "out": true, "remove": true, "rename": true, "restart": true,
	"set": true, "start": true, "stop": true, "test": true, "uninstall": true, "write": true,
}

// slashFlags are commands of cmd.exe, which write /s.
var slashFlags = map[string]bool{
	"del": true, "erase": true, "rd": true, "rmdir": true, "format": true, "taskkill": true, "reg": true, "cmd": true,
	"schtasks": true, "icacls": true, "takeown": true, "vssadmin": true, "attrib": true, "robocopy": true, "xcopy": true, "copy": true, "move": true,
}

func baseName(word string) string {
	if strings.IndexByte(word, '.') < 0 && !holds(word, '/', '\\') {
		return word
	}
	word = strings.ReplaceAll(word, `\`, "/")
	base := path.Base(word)
	if word == "" || base == "/" {
		return word
	}
	if n := len(base) - 4; n > 0 && strings.EqualFold(base[n:], ".exe") {
		base = base[:n]
	}
	return base
}
