package shell

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestSeesWhatValuesRun: whichever way through a script bash takes, a command
// whose name is a variable's value is among the commands.
func TestSeesWhatValuesRun(t *testing.T) {
	scripts, r := atRandom(300)
	texts := map[string]string{}
	limited := 0
	for i := range scripts {
		texts[fmt.Sprintf("%05d", i)] = (&author{rand: r}).list(2)
	}
	marks := 0
	for file, out := range printedByBash(t, texts) {
		s := Posix(context.Background(), texts[file], new(Room))
		if s.Limited {
			limited++
			continue
		}
		for mark := range bytes.FieldsSeq(out) {
			marks++
			if !slices.ContainsFunc(s.Commands, func(c *Command) bool { return c.Name == "echo" && slices.Contains(c.Argv, string(mark)) }) {
				t.Errorf("%s\nruns echo %s, which isn't seen", texts[file], mark)
			}
		}
	}
	t.Logf("%d scripts, %d of them limited, %d marks", scripts, limited, marks)
	if marks < scripts/2 || limited > scripts/10 {
		t.Error("the scripts say too little")
	}
}

// author writes scripts whose commands are the values of variables.
type author struct {
	rand       *rand.Rand
	marks      int
	inFunction bool
}

func (a *author) one(list ...string) string { return list[a.rand.IntN(len(list))] }

func (a *author) name() string { return a.one("x", "y", "z") }

func (a *author) value() string {
	return a.one("echo", "echo", ":", "true", "''", "$"+a.name(), "ec", "'echo echo'", "$(echo $"+a.name()+")")
}

func (a *author) condition() string {
	n := a.name()
	return a.one("true", "false", "! true", `[ "$`+n+`" ]`, `[ -z "$`+n+`" ]`, `! test -n "${`+n+`:-}"`, "[[ -n $"+n+" ]]", "[ -n $"+n+" ]", "[ $"+a.name()+" = echo ]", "read "+a.name()+" <<<echo")
}

func (a *author) list(depth int) string {
	var lines []string
	for range 1 + a.rand.IntN(3) {
		lines = append(lines, a.statement(depth))
	}
	return strings.Join(lines, "\n") + "\n"
}

func (a *author) mark() int {
	a.marks++
	return a.marks
}

func (a *author) call() string {
	a.marks++
	n := a.name()
	return fmt.Sprintf(a.one("$%[1]s M%[3]d", `"$%[1]s" M%[3]d`, "$%[1]s $%[2]s M%[3]d", "${%[1]s:-echo} M%[3]d", "${%[1]s:+echo} M%[3]d", "${%[1]s}ho M%[3]d",
		"eval $%[1]s M%[3]d", "eval '$%[1]s M%[3]d'", "bash -c '$%[1]s echo M%[3]d'", "bash -c \"$%[1]s echo M%[3]d\"", `"${a[@]}" M%[3]d`, "$(echo $%[1]s) M%[3]d",
		"%[1]s=echo eval '$%[1]s M%[3]d'", "%[1]s=echo bash -c '$%[1]s M%[3]d'", "bash <<E\n$%[1]s M%[3]d\nE", "echo \"$%[1]s M%[3]d\" | bash", "$1 M%[3]d", "${%[1]s:=echo} M%[3]d",
		"${a[0]} M%[3]d", "${a[1]} M%[3]d", "${a[-1]} M%[3]d", `"${a[@]:1}" M%[3]d`, `"${@:2}" M%[3]d`, `"$@" M%[3]d`, "$2 M%[3]d", "${a[k]} M%[3]d", "${!%[1]s} M%[3]d",
		"k1 M%[3]d", "g() { echo $%[1]s; }; $(g) M%[3]d", "bash 4<<<\"$%[1]s M%[3]d\" <&4", "g() { echo \"$%[1]s M%[3]d\"; }; g | bash", "trap '$%[1]s M%[3]d' EXIT",
		"for v; do $v M%[3]d; done", "for v in \"${a[@]}\"; do $v M%[3]d; done", "for v in \"${!a[@]}\"; do ${a[$v]} M%[3]d; done", "g() { shift; \"$@\" M%[3]d; }; g a $%[1]s"),
		n, a.name(), a.marks)
}

func (a *author) statement(depth int) string {
	if depth == 0 || a.rand.IntN(5) < 2 {
		switch n := a.name(); a.rand.IntN(9) {
		case 0, 1, 2:
			return n + "=" + a.value()
		case 3:
			return a.one("export "+n, "unset "+n, n+"+=ho", "set -- "+a.value(), "a=("+a.value()+")", "a+=("+a.value()+" "+a.value()+")", "a["+a.one("0", "1", "k", "$"+n)+"]="+a.value(), "shift", "set -- "+a.value()+" "+a.value()+" "+a.value(),
				"read -a a <<<"+a.value(), "read <<<"+a.value()+"; "+n+"=$REPLY", "IFS=, read "+n+" "+a.name()+" <<<"+a.value()+",echo", "mapfile -t a <<<"+a.value(),
				"alias "+a.one("k1", "k2")+"="+a.value(), "read "+n+" <<<"+a.value(), "printf -v "+n+" %s "+a.value(),
				"export "+n+"="+a.value(), "declare "+n+"="+a.value(), "set -a")
		default:
			return a.call()
		}
	}
	list := func() string { return a.list(depth - 1) }
	part := func() string { return "{ " + a.statement(depth-1) + "\n}" }
	switch a.rand.IntN(20) {
	case 0:
		return "if " + a.condition() + "\nthen " + list() + "fi"
	case 1:
		return "if " + a.condition() + "\nthen " + list() + "else " + list() + "fi"
	case 2:
		return "if " + a.condition() + "\nthen " + list() + "elif " + a.condition() + "\nthen " + list() + "else " + list() + "fi"
	case 18: // what it found out holds where it goes on
		n := a.name()
		return a.one(`[ -z "$`+n+`" ] && exit`, `[[ $`+n+` ]] || { `+list()+`exit; }`, `if [ -n "$`+n+`" ]; then `+list()+"exit; fi", `test "$`+n+`" || return`, `[ -z "$`+n+`" ] && exit 1 2`) + "\n" + a.call()
	case 3:
		return part() + " && " + part() + a.one("", " && "+part(), " || "+part())
	case 4:
		return a.condition() + a.one(" && ", " || ") + part() + a.one("", " && "+part(), " || "+part())
	case 5:
		return "( " + list() + ")"
	case 6:
		return "for " + a.name() + " in " + a.value() + " " + a.value() + a.one("", " $"+a.name()) + "\ndo " + list() + a.one("", "break\n", "continue\n", "eval break\n") + "done"
	case 7:
		return "for i in 1 2\ndo " + list() + "done"
	case 8:
		return "n=; while [ \"$n\" != 11 ]\ndo n=1$n\n" + list() + "done"
	case 9:
		return "case $" + a.name() + " in echo) " + list() + a.one(";;", ";&", ";;&") + "\n:) " + list() + ";;\n" + a.one("*) "+list()+";;\n", "") + "esac"
	case 10:
		if a.inFunction { // it might call itself
			return list()
		}
		a.inFunction = true
		text := "f() { " + a.one("", "local "+a.name()+"="+a.value()+"\n", "local "+a.name()+"\n") + list() + "}\n"
		a.inFunction = false
		return text + a.one("f", "f "+a.value(), a.name()+"="+a.value()+" f", a.name()+"="+a.value()+"; f", ":") + a.one("", "; f", "\n"+a.statement(0)+"\nf")
	case 11:
		return part() + " | " + part()
	case 12:
		return part() + " & wait"
	case 14:
		return "until " + a.one("true", "[ $"+a.name()+" = echo ]", a.name()+"=echo") + "\ndo " + list() + "break\ndone"
	case 15:
		return "select " + a.name() + " in echo :\ndo " + list() + "break\ndone <<<1"
	case 16:
		return "for i in 1 2\ndo bash <<E\n$" + a.name() + fmt.Sprintf(" M%d", a.mark()) + "\nE\n" + list() + "done"
	case 17:
		return "if " + a.condition() + "\nthen echo '" + a.name() + "=echo' > f; else echo : > f\nfi\n. ./f\n" + list()
	case 13:
		return a.name() + "=$( { " + list() + "} >&3)" // what it prints would be unknown
	default:
		return "trap '" + a.name() + "=" + strings.ReplaceAll(a.value(), "'", "") + "' " + "EXIT"
	}
}
