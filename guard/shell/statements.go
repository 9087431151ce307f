package shell

import (
	"context"
	"errors"
	"io"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// sequence is what the parser gives: statements, then perhaps an error. It has
// to be read to its end.
type sequence = iter.Seq2[*syntax.Stmt, error]

var bash = syntax.Variant(syntax.LangBash)

// statements parses a text whose comments are right.
func statements(ctx context.Context, text string) sequence {
	list := syntax.NewParser(bash).StmtsSeq(&shallow{ctx: ctx, text: text})
	if strings.Contains(text, "<<") {
		list = complete(list)
	}
	return list
}

// shallow feeds the parser in small pieces and stops it when its recursion is
// deep: a stack overflow could not be recovered.
type shallow struct {
	ctx   context.Context
	text  string
	reads int
}

var errDeep = errors.New("nested too deep")

func (r *shallow) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	var one [1]uintptr
	if r.reads++; r.reads%4 == 0 && runtime.Callers(maxFrames, one[:]) > 0 { // it costs as much as 100 bytes of parsing
		return 0, errDeep
	}
	n := copy(p[:min(len(p), 1024)], r.text)
	r.text = r.text[n:]
	return n, nil
}

// complete holds statements back until their here-documents are read: the parser
// gives "bash <<E; true" before it has seen what bash is told.
func complete(list sequence) sequence {
	return func(yield func(*syntax.Stmt, error) bool) {
		var held []*syntax.Stmt
		var open []*syntax.Redirect
		flush := func() {
			for _, st := range held {
				yield(st, nil)
			}
			held, open = nil, nil
		}
		for st, err := range list {
			if err != nil {
				flush()
				yield(st, err)
				continue
			}
			held = append(held, st)
			syntax.Walk(st, func(n syntax.Node) bool {
				if rd, ok := n.(*syntax.Redirect); ok && (rd.Op == syntax.Hdoc || rd.Op == syntax.DashHdoc) {
					open = append(open, rd)
				}
				return true
			})
			if len(open) > 0 && open[0].Hdoc != nil { // a line end has come: all before it are read
				open = slices.DeleteFunc(open, func(rd *syntax.Redirect) bool { return rd.Hdoc != nil })
			}
			if len(open) == 0 { // an empty document stays open, to the end
				flush()
			}
		}
		flush()
	}
}

// unclosedDocument is the word that a here-document ends with, if that it isn't
// there is what ended the parser.
func unclosedDocument(fault error) (stop string, ok bool) {
	var parse syntax.ParseError
	if !errors.As(fault, &parse) {
		return "", false
	}
	quoted, ok := strings.CutPrefix(parse.Text, "unclosed here-document ")
	stop, err := strconv.Unquote(quoted)
	return stop, ok && err == nil
}

// joinParted joins operators that go on in the next line, "$\\\n(", where the
// parser doesn't look for the rest of them; but not where a comment may end with
// the line.
func joinParted(text string) string {
	const goesOn = "\\\n"
	var b strings.Builder
	done := 0
	for at := 0; ; {
		n := strings.Index(text[at:], goesOn)
		if n < 0 {
			break
		}
		begin := at + n
		for at = begin; strings.HasPrefix(text[at:], goesOn); {
			at += len(goesOn)
		}
		if begin == 0 || at == len(text) || strings.IndexByte("$<(", text[begin-1]) < 0 || strings.IndexByte("({<", text[at]) < 0 {
			continue
		}
		if line := text[strings.LastIndexByte(text[:begin], '\n')+1 : begin]; strings.IndexByte(line, '#') < 0 {
			b.WriteString(text[done:begin])
			done = at
		}
	}
	if done == 0 {
		return text
	}
	b.WriteString(text[done:])
	return b.String()
}

// cutBackquotes takes out what stands between backquotes; an unknown value
// stands in its place.
func cutBackquotes(text string) (outside string, between []string) {
	var out strings.Builder
	done, open, quoted := 0, -1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '`' && open < 0:
			open = i
		case c == '`':
			between = append(between, backquoted.Replace(text[open+1:i]))
			out.WriteString(text[done:open])
			out.WriteString("${_}")
			done, open = i+1, -1
		case open >= 0:
		case c == '"':
			quoted = !quoted
		case c == '\'' && !quoted:
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				i = len(text)
			} else {
				i += 1 + end
			}
		}
	}
	out.WriteString(text[min(done, len(text)):])
	return out.String(), between
}

// backquoted takes the backslashes away that a backquote asks for.
var backquoted = strings.NewReplacer("\\`", "`", `\\`, `\`, `\$`, `$`)
