package plain

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// full is what the full parser makes of a text, up to an error.
func full(text string) (list []*syntax.Stmt, err error) {
	for st, fault := range syntax.NewParser(syntax.Variant(syntax.LangBash)).StmtsSeq(strings.NewReader(text)) {
		if fault != nil {
			err = fault
			continue
		}
		list = append(list, st)
	}
	return list, err
}

// same fails unless what is plain in a text is what the full parser makes of
// it, and what is left means the same alone as within the text. It says how
// many statements were plain, and whether all were.
func same(t *testing.T, text string) (taken int, all bool) {
	t.Helper()
	want, fault := full(text)
	var m Memory
	rest := m.Statements(text, func(st *syntax.Stmt) {
		if taken == len(want) {
			t.Fatalf("%q: plain finds more than %d statements: %s (the other: %v)", text, taken, printed(st), fault)
		}
		if !reflect.DeepEqual(st, want[taken]) {
			t.Fatalf("%q: statement %d\nplain %s\nfull  %s", text, taken, dump(st), dump(want[taken]))
		}
		taken++
	})
	if rest == len(text) {
		if fault != nil || taken < len(want) {
			t.Fatalf("%q: all plain, but the full parser finds %d of %d statements and %v", text, taken, len(want), fault)
		}
		return taken, true
	}
	left, again := full(text[rest:])
	if (again == nil) != (fault == nil) || len(left) != len(want)-taken {
		t.Fatalf("%q: after %q %d statements and %v, alone %d and %v", text, text[:rest], len(want)-taken, fault, len(left), again)
	}
	for i, st := range left {
		if printed(st) != printed(want[taken+i]) {
			t.Fatalf("%q: after %q\nwithin %s\nalone  %s", text, text[:rest], printed(want[taken+i]), printed(st))
		}
	}
	return taken, false
}

func dump(n syntax.Node) string {
	var b strings.Builder
	if err := syntax.DebugPrint(&b, n); err != nil {
		return err.Error()
	}
	return b.String()
}

func printed(n syntax.Node) string {
	var b strings.Builder
	if err := syntax.NewPrinter().Print(&b, n); err != nil {
		return fmt.Sprintf("%v %s", err, dump(n))
	}
	return b.String()
}

// plainTexts are taken as a whole.
var plainTexts = []string{
	"", "\n", " # comment", "a", "a b  c\n", "a;b", "a &\nb", "a && b || c", "a &&\n\n# why\nb", "! a", "! a | b", "a | b | c", "a |& b", "a |\n b",
	"echo 'it''s' \"x\" y\"z\"'w'", "echo \"$a ${b} $1 $@ ${10} ${@} $$ $? $- $! $#\"", "echo $a$b ${c}d", "grep 'foo$' \"bar$\" baz$ 5$ \"$ x\"", "echo \"a\\\"b\\$c\" d\\ e \\'",
	"a=1", "a=1 b=\"x y\" c", "a+=b", "a= b", "a=$x", "a=x\"y\"$z", "a=$(b c)", "PATH=/x:$PATH make -j4", "a=~/b c=d=e f", "a=[x]", "a=b[c]", ">a b=1 if", "a=1 if",
	"echo $(a; b) \"$(c \"$(d)\")\"", "$(a)", "echo $()", "echo \"$(# nothing\n)\"",
	"a > b", "a >b 2>&1 < c", "> a", "a >> b", "a &> b", "a &>> b", "a >| b", "a <> b", "a 2>/dev/null", "3<a b", "a <<< \"$b\"", "a <<<b", "a >&2", "a 1>&-", "> a b", "a>b",
	"(a; b)", "( a )", "(a) > b", "{ a; b; }", "{ a; } 2>&1 | b", "(a) && { b; }", "(a)# b", "( (a) )",
	"if a; then b; fi", "if a\nthen\n b\nelif c; d; then e\nelse f; fi > g", "if ! a; then b; else c; fi", "if [ -f x ]; then b; fi", "if (a) then (b) fi",
	"while a; do b; done", "until a\ndo b\ndone < c", "for x in a b \"$c\"; do d \"$x\"; done", "for x\ndo a\ndone", "for x; do a; done", "for x do a; done", "for x in; do a; done", "for f in *.go\ndo a $f; done | b &",
	"export A=b C", "export A", "declare -r x=1 > y", "local a b=$c", "export A && b", "export \"$x\" a\"b\"", "readonly x='a b'; y", "export",
	"ls foo[0-9] [ab]* {a,b} x{1..3}", "a 'x\ny' \"x\ny\"\nb", "a # b\nc # d", "a;# b\nc", "echo a#b", "a \\\n  b", "a && \\\n b", "echo }", "echo { a }", "echo if then", "else", "in", "a\\;b", "\\if", "ä 'ö' \"ü\" $é",
	"find . -name '*.go' -exec grep -l x {} \\;", "cd /srv/app && git log --oneline -5 | head -3; for f in src/*.go; do gofmt -l \"$f\" >> out.txt; done; kubectl get pods -n prod | grep web",
	"sudo -u bob env A=b bash -c 'rm -rf \"$HOME\"'", "echo \"a\tb\"", "test a = b", "a \"\" ''", "x=\"\" y", "echo a=b", "a 2 > b", "a 2b>c", "echo a{x}>b", "a \"x\"2>b", "if a; then b; fi; c",
}

// oddTexts are left to the full parser, at least in part.
var oddTexts = []string{
	"f() { a; }", "function f { a; }", "case a in b) c;; esac", "[[ a = b ]]", "a <<E\nb\nE\n", "a <<-E\n\tb\nE\n", "a `b`", "\"`a`\"", "echo $((1+2))", "((a))", "a=(b c)", "a[1]=b", "a+=(b)", "echo ${a:-b}",
	"echo ${#a}", "echo ${!a}", "echo $'a'", "echo $\"a\"", "echo $[1]", "diff <(a) <(b)", "a >(b)", "time a", "coproc a", "let a=1", "select x in a; do b; done", "for ((;;)); do a; done", "for x in a; { b; }",
	"ls !(a)", "ls *(a)", "!(a)", "ls @(a|b)", "a=*(b)", "{x}>a b", "a 'b", "a \"b", "a &&", "a |", "| a", "; a", "a ;; b", "a )", "( a", "{ a", "{ a }", "if a; fi", "if a; then; fi", "while a; do b", "for x in a b", "for in", "!", "! ! a", "! | a",
	"a \x00b", "a\rb", "a\r\nb", "a \xff", "a\\\nb", "'a\\\nb'", "\"a\\\nb\"", "a $b\\\nc", "\"a\"#b", "$a#b", "a b (c)", "a (b)", "a=b (c)", "(a) b", "{ a; } b", "a > ", "a > ;", "a >> | b", "a >>| b", "a &>| b", "> a { b; }", "> a export b", ">a if b; then c; fi", "> a (b)", "}", "fi", "done", "then",
	"a\n}", "echo a # b \\\nc", "a \\", "a | ! b", "a;&b", "a;;", "export a[1]=b", "export 1=2", "export a=(b)", "export (a)", "a | { b; c", "a={b,c}[d]", "a=#b", "a==(b", "=(a)", "a =(b)", "for x in a; do b; done c", "if a; then b; fi c", "${ a; }", "${a", "$(a", "${@1}", "${1a}", "a <<", "a <<<", "<", "&", "a & & b", "a && && b",
}

func TestTree(t *testing.T) {
	for _, text := range plainTexts {
		if _, all := same(t, text); !all {
			t.Errorf("%q isn't taken", text)
		}
	}
	for _, text := range oddTexts {
		if _, all := same(t, text); all {
			t.Errorf("%q is taken", text)
		}
	}
	// Each after and before each other.
	texts := append(plainTexts[:len(plainTexts):len(plainTexts)], oddTexts...)
	for i, a := range texts {
		for j, b := range texts {
			if same(t, a+"\n"+b); (i+j)%7 == 0 {
				same(t, a+"; "+b)
				same(t, "("+a+"\n"+b+")")
				same(t, "if "+a+"\nthen "+b+"\nfi")
				same(t, "echo \"$("+a+")"+b)
				same(t, a+b)
			}
		}
	}
}

// FuzzTree holds the promise of the package's comment.
func FuzzTree(f *testing.F) {
	for _, text := range append(plainTexts, oddTexts...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { same(t, text) })
}
