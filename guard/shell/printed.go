package shell

import (
	"encoding/base64"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// input is a command's standard input, worked out only if somebody reads it.
type input struct {
	text  string
	known bool
	stage *syntax.Stmt // prints it
	in    *input       // that stage's own
}

// read gives the text of an input, if it is plain from the script.
func (w *walker) read(in *input) (string, bool) {
	if in == nil {
		return "", false
	}
	if in.stage == nil {
		return in.text, in.known
	}
	several := len(w.vars.several)
	text, known := w.output(in.stage, in.in)
	if len(w.vars.several) == several { // else another value may give another text
		in.text, in.known, in.stage = text, known, nil
	}
	return text, known
}

// output is what a stage prints, if that is plain from its text.
func (w *walker) output(st *syntax.Stmt, in *input) (string, bool) {
	if b, ok := st.Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.Pipe {
		return w.output(b.Y, &input{stage: b.X, in: in})
	}
	switch cmd := st.Cmd.(type) {
	case *syntax.Block:
		return w.printed(cmd.Stmts, in)
	case *syntax.Subshell:
		return w.printed(cmd.Stmts, in)
	}
	if st.Cmd == nil && len(st.Redirs) == 1 && st.Redirs[0].Op == syntax.RdrIn { // $(<file)
		file, _ := w.text(st.Redirs[0].Word)
		text := w.written(file)
		return text, text != ""
	}
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || w.outputs >= 3 { // its words are evaluated again: never again within again
		return "", false
	}
	switch name := call.Args[0].Lit(); name {
	case "echo", "printf", "cat", "tee", "base64", "xxd", "":
	default:
		if len(w.funcs[name]) == 0 {
			return "", false
		}
	}
	w.outputs++
	defer func() { w.outputs-- }()
	muted, mark := len(w.out.Commands), len(w.names)
	var words []string
	known := true
	for _, a := range call.Args {
		words = w.known(a, words, &known)
	}
	r := w.redirs(st.Redirs)
	w.out.Commands = w.out.Commands[:min(muted, len(w.out.Commands))]
	w.names = w.names[:mark]
	if !known || len(words) == 0 {
		return "", false
	}
	if r.in != nil {
		in = r.in
	}
	c := w.room.command(words)
	if body := w.defined(c.Name); body != nil {
		defer w.position(1, c.Argv)()
		return w.output(body, in)
	}
	switch c.Name {
	case "echo":
		args := c.Argv
		escapes, end := false, "\n"
		for len(args) > 0 && len(args[0]) > 1 && strings.Trim(args[0], "-neE") == "" && args[0][0] == '-' {
			escapes = escapes || strings.Contains(args[0], "e")
			if strings.Contains(args[0], "n") {
				end = ""
			}
			args = args[1:]
		}
		text := strings.Join(args, " ")
		if !escapes && strings.Contains(text, `\`) {
			always, _ := w.vars.get(echoEscapes)
			escapes = always != ""
		}
		if escapes {
			text = unescape(text)
		}
		return text + end, true
	case "printf":
		if len(c.Argv) == 0 {
			return "", false
		}
		return formatted(c.Argv[0], c.Argv[1:])
	case "tee":
		return w.read(in)
	case "cat":
		if len(c.Args) > 0 {
			return w.concatenated(c.Args)
		}
		return w.read(in)
	case "base64":
		if text, ok := w.read(in); ok && (slices.Contains(c.Flags, "d") || slices.Contains(c.Flags, "D") || slices.Contains(c.Flags, "decode")) {
			data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
			return string(data), err == nil
		}
	case "xxd":
		if text, ok := w.read(in); ok && slices.Contains(c.Flags, "r") && (slices.Contains(c.Flags, "p") || slices.Contains(c.Flags, "ps")) {
			data, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
			return string(data), err == nil
		}
	}
	return "", false
}

// formatted is what printf prints: its format again and again for more arguments
// than it takes.
func formatted(format string, args []string) (string, bool) {
	var all strings.Builder
	for {
		text, n, err := expand.Format(nil, format, args)
		if err != nil || all.Len()+len(text) > maxExpanded {
			return "", false
		}
		all.WriteString(text)
		if args = args[min(n, len(args)):]; n == 0 || len(args) == 0 {
			return all.String(), true
		}
	}
}

// printed is what statements print one after the other.
func (w *walker) printed(list []*syntax.Stmt, in *input) (string, bool) {
	var all strings.Builder
	for _, st := range list {
		text, ok := w.output(st, in)
		if !ok || w.full() || all.Len()+len(text) > maxExpanded {
			return "", false
		}
		all.WriteString(text)
	}
	return all.String(), true
}

// concatenated is what the script itself has put into files.
func (w *walker) concatenated(files []string) (string, bool) {
	var all strings.Builder
	for _, f := range files {
		text := w.written(f)
		if text == "" {
			return "", false
		}
		all.WriteString(text)
	}
	return all.String(), true
}

func unescape(text string) string {
	if out, _, err := expand.Format(nil, strings.ReplaceAll(text, "%", "%%"), nil); err == nil {
		return out
	}
	return text
}

// write remembers what a statement puts into files, should they be run later.
func (w *walker) write(st *syntax.Stmt, files []string, in *input) {
	if len(files) == 0 {
		return
	}
	text, ok := w.output(st, in)
	if !ok {
		return
	}
	for _, f := range files {
		w.put(path.Clean(f), text)
	}
}

func (w *walker) put(file, text string) {
	if w.expanded += len(text); w.expanded > maxExpanded {
		w.out.Limited = true
		return
	}
	if w.files == nil {
		w.files = map[string]*strings.Builder{}
	}
	all := w.files[file]
	if all == nil {
		all = new(strings.Builder)
		w.files[file] = all
	}
	all.WriteString(text) // of several writes all may run
}

// written is what the text itself has put into a file that it runs.
func (w *walker) written(file string) string {
	all := w.files[path.Clean(file)]
	if all == nil {
		return ""
	}
	text := all.String()
	if w.expanded += len(text); w.expanded > maxExpanded {
		w.out.Limited = true
		return ""
	}
	return text
}

// scheduled are the commands of a crontab.
func scheduled(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		fields := 5
		if strings.HasPrefix(strings.TrimSpace(line), "@") {
			fields = 1
		}
		for range fields {
			_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
