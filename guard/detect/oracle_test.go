package detect

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"testing"

	oracle "github.com/zricethezav/gitleaks/v8/detect"
)

var scanner = sync.OnceValue(func() *oracle.Detector {
	d, err := oracle.NewDetectorDefaultConfig()
	if err != nil {
		panic(err)
	}
	// A comment in a tool's output must not switch a detector off.
	d.IgnoreGitleaksAllow = true
	return d
})

// theirs is what gitleaks' own scanner finds, ours the same of our engine.
func theirs(text string) []string {
	var list []string
	for _, f := range scanner().DetectString(text) {
		list = append(list, f.RuleID+" "+f.Secret)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

var gitleaksOnly = sync.OnceValue(func() *Set {
	list, _, err := loadGitleaks()
	if err != nil {
		panic(err)
	}
	return newSet(list)
})

func ours(text string) []string {
	s := gitleaksOnly()
	sel, _ := s.Select("secrets")
	found, err := s.Scan(context.Background(), text, sel)
	if err != nil {
		panic(err)
	}
	var list []string
	for _, f := range found {
		if text[f.Start:f.End] != f.Secret {
			panic(fmt.Sprintf("%s: offsets %d–%d hold %q, secret is %q", f.Detector, f.Start, f.End, text[f.Start:f.End], f.Secret))
		}
		list = append(list, f.Detector+" "+f.Secret)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// sample makes a text that an expression matches.
func sample(r *rand.Rand, e *syntax.Regexp) string {
	var b strings.Builder
	var walk func(*syntax.Regexp)
	walk = func(e *syntax.Regexp) {
		times := func(least, most int) {
			if most < 0 || most > least+40 {
				most = least + 40
			}
			for range least + r.IntN(most-least+1) {
				walk(e.Sub[0])
			}
		}
		switch e.Op {
		case syntax.OpLiteral:
			b.WriteString(string(e.Rune))
		case syntax.OpCharClass:
			for {
				i := 2 * r.IntN(len(e.Rune)/2)
				c := e.Rune[i] + r.Int32N(min(e.Rune[i+1]-e.Rune[i], 200)+1)
				if c >= 0x20 && c < 0x7f || r.IntN(50) == 0 {
					b.WriteRune(c)
					return
				}
			}
		case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
			b.WriteByte(byte(' ' + r.IntN(95)))
		case syntax.OpStar:
			times(0, -1)
		case syntax.OpPlus:
			times(1, -1)
		case syntax.OpQuest:
			times(0, 1)
		case syntax.OpRepeat:
			times(e.Min, e.Max)
		case syntax.OpAlternate:
			walk(e.Sub[r.IntN(len(e.Sub))])
		default:
			for _, s := range e.Sub {
				walk(s)
			}
		}
	}
	walk(e)
	return b.String()
}

// TestOracle compares the engine with gitleaks' own scanner: for each rule on
// texts that its expression matches and on broken ones, in source-like text.
func TestOracle(t *testing.T) {
	filler := sourceText(t, 6<<10)
	r := rand.New(rand.NewPCG(1, 2))
	findings, rules := 0, map[string]bool{}
	compare := func(t *testing.T, text string) {
		t.Helper()
		want, got := theirs(text), ours(text)
		findings += len(want)
		for _, w := range want {
			rules[strings.SplitN(w, " ", 2)[0]] = true
		}
		if !slices.Equal(got, want) {
			t.Errorf("text %q:\n only ours   %q\n only theirs %q", text, minus(got, want), minus(want, got))
		}
	}
	for _, d := range gitleaksOnly().list {
		t.Run(d.ID, func(t *testing.T) {
			tree, err := syntax.Parse(d.pattern.source, syntax.Perl)
			if err != nil {
				t.Fatal(err)
			}
			for range 12 {
				text := sample(r, tree)
				if len(d.keywords) > 0 && r.IntN(2) == 0 {
					text += " " + d.keywords[0]
				}
				switch r.IntN(4) {
				case 0: // alone
				case 1: // between lines
					at := r.IntN(len(filler) / 2)
					text = filler[at:at+300] + "\n" + text + "\n" + filler[:200]
				case 2: // glued to neighbours
					text = "x" + text + "é " + text + "\r\n" + sample(r, tree)
				case 3: // damaged
					if len(text) > 2 {
						at := r.IntN(len(text) - 1)
						text = text[:at] + string(rune('!'+r.IntN(80))) + text[at+1:]
					}
				}
				compare(t, text)
			}
		})
	}
	t.Run("all together", func(t *testing.T) {
		var b strings.Builder
		for _, d := range gitleaksOnly().list {
			tree, _ := syntax.Parse(d.pattern.source, syntax.Perl)
			at := r.IntN(len(filler) - 200)
			fmt.Fprintf(&b, "%s\n%s\n", filler[at:at+200], sample(r, tree))
		}
		compare(t, b.String())
	})
	t.Run("source text", func(t *testing.T) { compare(t, sourceText(t, 300<<10)) })
	t.Logf("%d findings of %d rules compared", findings, len(rules))
	if len(rules) < 200 {
		t.Errorf("only %d rules were exercised", len(rules))
	}
}

func minus(a, b []string) (list []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			list = append(list, s)
		}
	}
	return list
}

// sourceText is program text of the Go installation and this module.
func sourceText(t testing.TB, size int) string {
	var b strings.Builder
	files, _ := filepath.Glob("../*/*.go")
	for _, dir := range []string{"net/http", "crypto/tls", "encoding/json", "os", "go/types"} {
		more, _ := filepath.Glob(filepath.Join(goroot(), "src", dir, "*.go"))
		files = append(files, more...)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if b.Write(data); b.Len() >= size {
			return b.String()[:size]
		}
	}
	text := b.String()
	for len(text) < size {
		text += text
	}
	return text[:size]
}
