package shell

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// commentRounds is how often comments are put right: each time may bring others
// to light.
const commentRounds = 8

// rightComments gives a text of which the parser takes for comments what a shell
// does. Left alone it goes on in the next line after a backslash, and within
// parentheses it takes # for one right after a quote or an expansion: both hide
// commands, as in "(echo 'a'#b; rm x\n)". Not right is a text that wants it too
// often.
func rightComments(ctx context.Context, text string) (better string, right bool) {
	for range commentRounds {
		if !doubtful(text) {
			return text, true
		}
		edits := misread(ctx, text)
		if len(edits) == 0 {
			return text, true
		}
		var b strings.Builder
		done := 0
		for _, e := range edits {
			b.WriteString(text[done:e.at])
			b.WriteString(e.put)
			done = e.at + e.over
		}
		b.WriteString(text[done:])
		text = b.String()
	}
	return text, false
}

// doubtful says whether there is a # that may be misread.
func doubtful(text string) bool {
	goesOn := strings.Contains(text, "\\\n")
	for from := 0; ; {
		n := strings.IndexByte(text[from:], '#')
		if n < 0 {
			return false
		}
		at := from + n
		if goesOn || at > 0 && !strings.ContainsRune(" \t\n;|&", rune(text[at-1])) {
			return true
		}
		from = at + 1
	}
}

// continued is the offset of the backslash that ends a line, -1 if none does.
func continued(text string, at int) int {
	line, _, more := strings.Cut(text[at:], "\n")
	if more && strings.HasSuffix(line, "\\") {
		return at + len(line) - 1
	}
	return -1
}

// edit puts a text over some bytes.
type edit struct {
	at, over int
	put      string
}

// misread finds the comments that are none, which a backslash then says, and
// those that seem to go on in the next line.
func misread(ctx context.Context, text string) (edits []edit) {
	f, _ := syntax.NewParser(bash, syntax.KeepComments(true), syntax.RecoverErrors(32)).Parse(&shallow{ctx: ctx, text: text}, "")
	if f == nil {
		return nil
	}
	var comments []int
	words := map[int]bool{} // where expansions end
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Comment:
			comments = append(comments, int(n.Hash.Offset()))
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ArithmExp, *syntax.ExtGlob, *syntax.ArrayExpr:
			words[int(n.End().Offset())] = true
		}
		return true
	})
	for _, at := range comments {
		if at >= len(text) || text[at] != '#' {
			continue
		}
		if at > 0 && (!strings.ContainsRune(" \t\n;|&()", rune(text[at-1])) || text[at-1] == ')' && words[at]) {
			edits = append(edits, edit{at, 0, `\`})
		} else if end := continued(text, at); end >= 0 {
			edits = append(edits, edit{end, 1, " "})
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	return slices.CompactFunc(edits, func(a, b edit) bool { return a.at == b.at })
}
