package shell

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"path"
	"slices"
	"strings"
	"unicode/utf16"
)

// PowerShell analyses a text that PowerShell or cmd.exe would run: commands
// separated by ; | & && || and line ends, blocks opened, quotes and backticks
// removed. Names are given in lower case, as PowerShell ignores case. It knows
// no variables. The commands are put into room.
func PowerShell(ctx context.Context, text string, room *Room) Script {
	return powershell(ctx, text, nil, 0, room)
}

func powershell(ctx context.Context, text string, via []string, nesting int, room *Room) (out Script) {
	if nesting >= maxNesting {
		return Script{Limited: true}
	}
	commands := tokenize(text, '`')
	var begun []string // names of the pipeline so far
	first := 0
	made := map[string]string{} // files: the command whose output they hold
	type place struct{ depth, index int }
	var outer []place
	for _, t := range commands {
		if len(out.Commands) >= maxCommands || len(out.Commands)&63 == 63 && ctx.Err() != nil {
			out.Limited = true
			break
		}
		if !t.piped {
			begun, first = nil, len(out.Commands)
		}
		words := t.words
		for len(words) > 0 && (words[0] == "&" || words[0] == "." || words[0] == "call" || words[0] == "return") {
			words = words[1:]
		}
		if len(words) == 0 {
			if len(t.writes) > 0 {
				out.Commands = append(out.Commands, &Command{Writes: t.writes, Via: via})
			}
			continue
		}
		c := room.command(words)
		c.Name = strings.ToLower(c.Name)
		c.Via, c.From, c.Writes, c.Reads = slices.Clone(via), slices.Clone(begun), t.writes, t.reads
		for i, f := range c.Flags {
			c.Flags[i] = strings.ToLower(strings.TrimSuffix(f, ":"))
		}
		if name, value, ok := strings.Cut(words[0], "="); ok && strings.HasPrefix(strings.ToLower(name), "$env:") {
			c = &Command{Env: []string{name[5:] + "=" + value}, Via: c.Via}
		} else if len(words) > 2 && words[1] == "=" && strings.HasPrefix(strings.ToLower(words[0]), "$env:") {
			c = &Command{Env: []string{words[0][5:] + "=" + words[2]}, Via: c.Via}
		}
		for i := max(first, len(out.Commands)-neighbours); i < len(out.Commands) && c.Name != ""; i++ {
			out.Commands[i].To = append(out.Commands[i].To, c.Name)
		}
		for len(outer) > 0 && outer[len(outer)-1].depth >= t.depth {
			outer = outer[:len(outer)-1]
		}
		if len(outer) > 0 && c.Name != "" { // an expression in parentheses gives its result to what is around it
			around := out.Commands[outer[len(outer)-1].index]
			around.From = append(around.From, c.Name)
		}
		outer = append(outer, place{t.depth, len(out.Commands)})
		out.Commands = append(out.Commands, c)
		if c.Name != "" {
			if begun = append(begun, c.Name); len(begun) > neighbours {
				begun = begun[1:]
			}
		}
		for _, f := range append(downloads(c), c.Writes...) {
			made[slashed(f)] = c.Name
		}
		if by := made[slashed(c.script())]; by != "" { // as by a pipe
			run := room.command([]string{"iex", unknownValue})
			run.Via, run.From = c.Via, []string{by}
			out.Commands = append(out.Commands, run)
		}
		run := c.runs()
		switch c.Name {
		case "invoke-expression", "iex":
			run = inner{script: strings.Join(c.Argv, " "), powershell: true}
		case "start-process", "saps", "invoke-command", "icm":
			run = inner{script: quoteAll(c.Args), powershell: true}
		}
		var more Script
		inside := append(slices.Clone(c.Via), c.Name)
		switch {
		case run.script != "" && run.powershell:
			more = powershell(ctx, run.script, inside, nesting+1, room)
		case run.script != "":
			more = Posix(ctx, run.script, room)
			for i := range more.Commands {
				more.Commands[i].Via = append(slices.Clone(inside), more.Commands[i].Via...)
			}
		case run.words != nil:
			more = powershell(ctx, quoteAll(run.words), inside, nesting+1, room)
		}
		out.Commands = append(out.Commands, more.Commands...)
		out.Partial = out.Partial || more.Partial
		out.Limited = out.Limited || more.Limited
	}
	return out
}

// downloads are the files that a command is told to put a download into.
func downloads(c *Command) []string {
	for i, w := range c.Argv[:max(0, len(c.Argv)-1)] {
		switch strings.ToLower(w) {
		case "-outfile", "-outf", "-o", "-destination", "--output":
			switch c.Name {
			case "invoke-webrequest", "iwr", "invoke-restmethod", "irm", "start-bitstransfer", "curl", "wget":
				return c.Argv[i+1 : i+2]
			}
		}
	}
	return nil
}

// script is the file of a script that a command runs, if it runs one.
func (c *Command) script() string {
	words := []string{c.Path}
	if c.Name == "powershell" || c.Name == "pwsh" {
		words = c.Args
	}
	for _, w := range words {
		switch strings.ToLower(path.Ext(w)) {
		case ".ps1", ".bat", ".cmd":
			return w
		}
	}
	return ""
}

func slashed(file string) string {
	return path.Clean(strings.ReplaceAll(strings.ToLower(file), `\`, "/"))
}

// powershellRuns: powershell -NoProfile -Command TEXT… | -EncodedCommand BASE64.
func powershellRuns(words []string) inner {
	for i, w := range words {
		if len(w) < 2 || w[0] != '-' && w[0] != '/' {
			if i == 0 || !strings.HasPrefix(words[i-1], "-") {
				return inner{script: strings.Join(words[i:], " "), powershell: true} // the default of Windows PowerShell
			}
			continue
		}
		option := strings.ToLower(w[1:])
		switch {
		case option == "c" || len(option) > 3 && strings.HasPrefix("command", option):
			return inner{script: strings.Join(words[i+1:], " "), powershell: true}
		case option == "ec" || strings.HasPrefix("encodedcommand", option) && i+1 < len(words):
			if i+1 >= len(words) {
				return inner{}
			}
			data, err := base64.StdEncoding.DecodeString(words[i+1])
			if err != nil {
				return inner{}
			}
			units := make([]uint16, len(data)/2)
			for j := range units {
				units[j] = binary.LittleEndian.Uint16(data[2*j:])
			}
			return inner{script: string(utf16.Decode(units)), powershell: true}
		}
	}
	return inner{}
}

// token is one command of a text that is only cut into words.
type token struct {
	words         []string
	writes, reads []string
	piped         bool // takes the output of the one before
	depth         int  // of parentheses around it
}

// tokenize cuts a text at separators outside quotes. escape is the character
// that takes the next one literally.
func tokenize(text string, escape byte) (list []token) {
	var cur token
	var word strings.Builder
	begun := false
	redirect := byte(0)
	end := func() {
		if begun {
			switch w := word.String(); redirect {
			case '>':
				cur.writes = append(cur.writes, w)
			case '<':
				cur.reads = append(cur.reads, w)
			default:
				cur.words = append(cur.words, w)
			}
			redirect = 0
		}
		word.Reset()
		begun = false
	}
	depth := 0
	flush := func(piped bool) {
		end()
		if len(cur.words)+len(cur.writes)+len(cur.reads) > 0 {
			list = append(list, cur)
		}
		cur = token{piped: piped, depth: depth}
	}
	for i := 0; i < len(text) && len(list) < maxCommands; i++ {
		switch c := text[i]; c {
		case escape:
			if i+1 < len(text) {
				i++
				if text[i] != '\n' && text[i] != '\r' {
					word.WriteByte(text[i])
					begun = true
				}
			}
		case '\'', '"':
			begun = true
			j := i + 1
			for ; j < len(text); j++ {
				if text[j] == c {
					if j+1 < len(text) && text[j+1] == c && escape == '`' {
						word.WriteByte(c)
						j++
						continue
					}
					break
				}
				if text[j] == escape && c == '"' && j+1 < len(text) {
					j++
				}
				word.WriteByte(text[j])
			}
			i = j
		case ' ', '\t', '\r', ',':
			end()
		case '(':
			depth++
			flush(false)
		case ')':
			depth = max(0, depth-1)
			flush(false)
		case '\n', ';', '{', '}':
			flush(false)
		case '|':
			if i+1 < len(text) && text[i+1] == '|' {
				i++
				flush(false)
			} else {
				flush(true)
			}
		case '&':
			if i+1 < len(text) && text[i+1] == '&' {
				i++
			}
			flush(false)
		case '>', '<':
			if s := word.String(); s == "1" || s == "2" || s == "*" {
				word.Reset()
				begun = false
			}
			end()
			if i+1 < len(text) && text[i+1] == c {
				i++
			}
			if i+1 < len(text) && text[i+1] == '&' { // 2>&1
				for i++; i+1 < len(text) && '0' <= text[i+1] && text[i+1] <= '9'; i++ {
				}
				continue
			}
			redirect = c
		case '#':
			if begun || escape == '\\' && i > 0 && !strings.ContainsRune(" \t\n;|&()", rune(text[i-1])) {
				word.WriteByte(c)
				begun = true
				continue
			}
			for i < len(text) && text[i] != '\n' {
				i++
			}
			flush(false)
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	flush(false)
	return list
}
