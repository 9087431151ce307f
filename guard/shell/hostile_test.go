package shell

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestHostileScripts: no script takes longer than its context allows.
func TestHostileScripts(t *testing.T) {
	for name, text := range map[string]string{
		"fun":       "f() { f \"$@\" a; f \"$@\" b; }; f x",
		"fun2":      "f() { g \"$@\"; g \"$@\"; g $1; }; g() { f \"$@\"; f $1; f \"$@\"; }; f x",
		"fun3":      "f() { " + strings.Repeat("echo $1; ", 3000) + " }; " + strings.Repeat("f x; ", 3000),
		"cats":      "echo a > f; " + strings.Repeat("cat f f f > g; cat g g g > f; ", 2000) + "sh f",
		"blocks":    strings.Repeat("{ ", 3000) + "echo a" + strings.Repeat("; } | cat", 3000),
		"blocks2":   strings.Repeat("{ echo a; ", 300) + strings.Repeat("; } | sh", 300),
		"arr":       strings.Repeat("a=(${a[@]} ${a[@]} x); ", 3000),
		"read":      strings.Repeat("read a <<< \"$a $a x\"; ", 3000),
		"self":      "echo '. f' > f; echo '. f' >> f; echo '. f; . f; . f' >> f; . f",
		"self2":     strings.Repeat("echo '. f' >> f\n", 2000) + ". f",
		"set":       strings.Repeat("set -- \"$@\" \"$@\" a; ", 3000) + "$@",
		"pos":       "bash -c '" + strings.Repeat("$0 $1 ", 1000) + "' \"bash -c x\" \"$(bash -c y)\"",
		"psub":      strings.Repeat("cat <(", 70000),
		"psub2":     strings.Repeat("cat <(echo ", 2000) + strings.Repeat(")", 2000),
		"psub3":     "x=$(" + strings.Repeat("cat <(echo ", 200) + strings.Repeat(")", 200) + ")",
		"pat":       "a=" + strings.Repeat("x", 4000) + "; " + strings.Repeat("b=${a//*x*x*x*x/y}; ", 2000),
		"pat2":      "a=" + strings.Repeat("x", 4000) + "; " + strings.Repeat("b=${a//+(x|xx|xxx)/y}; ", 500),
		"heredocs":  strings.Repeat("<<a\n", 50000),
		"heredocs2": strings.Repeat("cat <<a; ", 50000) + "\n",
		"pipes":     strings.Repeat("echo a | base64 -d | ", 20000) + "sh",
		"tees":      strings.Repeat("echo a | tee f | ", 20000) + "sh; sh f",
		"subst":     strings.Repeat("$(echo ", 5000) + strings.Repeat(")", 5000),
		"dq":        strings.Repeat("\"$(echo ", 3000) + strings.Repeat(")\"", 3000),
		"alias":     strings.Repeat("alias a='alias b=\"alias c=d\"'; ", 20000),
		"trap":      strings.Repeat("trap 'eval \"bash -c ls\"' EXIT; ", 20000),
		"braces":    strings.Repeat("echo {a,b}{c,d}{e,f}{g,h}{i,j}{k,l} | sh; ", 2000),
		"indirect":  "a=b; b=a; " + strings.Repeat("c=${!a}; ", 20000),
		"arith":     "a=1; " + strings.Repeat("b=${a:$((1<<60)):9}; ", 5000),
		"xargs":     "echo " + strings.Repeat("a ", 50000) + "| xargs " + strings.Repeat("xargs ", 5000),
		"elifs":     "if a; then v=1\n" + numbered(20000, "elif a; then v%d=1\n") + "fi",
		"ifs":       numbered(1500, "if a; then v%d=1\n") + strings.Repeat("fi\n", 1500),
		"ands":      "a" + numbered(20000, " && v%d=1"),
		"ors":       "a" + numbered(20000, " || v%d=1"),
		"items":     "case a in\n" + numbered(20000, "%[1]d) v%[1]d=1;;\n") + "esac",
		"falling":   "case a in\n" + numbered(5000, "%[1]d) v%[1]d=1;&\n") + "esac",
		"choices":   numbered(40, "a && x%[1]d=a; b && x%[1]d=b\n") + "$(( " + numbered(40, "x%d +") + " 1)) " + numbered(40, "$x%d"),
		"growing":   strings.Repeat("while a; do b && x=$x$y; c && y=$y$x\n", 30) + "echo $x $y\n" + strings.Repeat("done\n", 30),
		"loops":     "a && x=b\n" + strings.Repeat("for i in $x $y $i; do b && y=$x$i\n", 30) + "echo $x $y\n" + strings.Repeat("done\n", 30),
		"values":    numbered(300, "a && x=%d\n") + strings.Repeat("y=$x$y; z=$y$x\n", 300) + "$x $y $z",
		"scopes":    numbered(3000, "( v%d=1\n") + strings.Repeat(")", 3000),
		"hidden":    numbered(3000, "v%d=1\n") + "bash -c '" + numbered(3000, "$v%d;") + "'",
		"defined":   strings.Repeat("f() { $1 x; }; f a; ", 20000),
		"locals":    "f() { " + numbered(3000, "local v%d; ") + " }; " + strings.Repeat("f; ", 3000),
		"indexes":   "a=(1 0); echo " + strings.Repeat("${a[", 200) + "0" + strings.Repeat("]}", 200),
		"indexes2":  "a=(1 0); echo " + strings.Repeat("${a[1+", 100) + "0" + strings.Repeat("]}", 100) + strings.Repeat("; a[$(a[1]=$(", 100) + strings.Repeat("))]=1", 100),
		"resuming":  "case a in\n" + numbered(3000, "%[1]d) v%[1]d=1;;&\n") + "esac",
		"shifts":    "set -- " + strings.Repeat("a ", 2000) + "\n" + strings.Repeat("shift\n", 2000),
		"elements":  numbered(3000, "a[%d]=x\n") + strings.Repeat("a+=(x)\n", 3000),
		"aliases":   numbered(300, "alias a%[1]d='a0; a1; a2'\n") + "a0",
		"printing":  "f() { echo $(f; f); f | f; }; f | f",
		"crontab":   "crontab - <<E\n" + strings.Repeat("* * * * * crontab - \n", 20000) + "E\n",
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
		start := time.Now()
		s := Posix(ctx, text, new(Room))
		d := time.Since(start)
		cancel()
		t.Logf("%s: %v, %d commands", name, d.Round(time.Millisecond), len(s.Commands))
		if d > 15*time.Second || s.fault != nil {
			t.Errorf("%s: %v, %d commands, fault %v", name, d, len(s.Commands), s.fault)
		}
	}
}

// TestReplacementsAreBounded: values that replace parts of values, again and again,
// take no more memory than other values do.
func TestReplacementsAreBounded(t *testing.T) {
	value := "x=" + strings.Repeat("a", 66) + "\n"
	for _, text := range []string{
		value + "echo ${x//a/${x//a/${x//a/$x}}}", value + "echo ${x#${x//a/${x//a/${x//a/$x}}}}", value + "y=x; echo ${!y//a/${x//a/${x//a/$x}}}",
		"a && x=" + strings.Repeat("a", 4000) + "\n" + strings.Repeat("echo ${x//a/$x}\n", 100),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := Posix(context.Background(), text, new(Room))
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 20 || !s.Limited {
			t.Errorf("%.80q: %d MiB, limited %v", text, n, s.Limited)
		}
	}
}

// numbered is a format again and again, with the numbers up to n.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestNestedSubstitutionsEnd: what is evaluated again is bounded, by the context and without it.
func TestNestedSubstitutionsEnd(t *testing.T) {
	text := strings.Repeat("echo $(", 300) + strings.Repeat(")", 300)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	for name, ctx := range map[string]context.Context{"context": ctx, "steps": context.Background()} {
		begun := time.Now()
		out := Posix(ctx, text, new(Room))
		if took := time.Since(begun); !out.Limited || took > 20*time.Second {
			t.Errorf("%s: limited %v after %v", name, out.Limited, took)
		}
	}
}
