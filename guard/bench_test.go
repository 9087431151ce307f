package guard

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// manyRules is a policy of n rules of the kinds that companies write.
func manyRules(n int) string {
	var b strings.Builder
	b.WriteString("timeoutMs: 400\nrules:\n")
	verbs := []string{"delete", "destroy", "purge", "drop", "wipe", "reset", "force", "prune"}
	for i := range n {
		verb := verbs[i%len(verbs)]
		when := []string{
			fmt.Sprintf(`commands.exists(c, c.name == 'tool%d' && c.flags.exists(f, f == '%s'))`, i, verb),
			fmt.Sprintf(`text.contains('%s-%d') && !cwd.startsWith('/tmp/')`, verb, i),
			fmt.Sprintf(`commands.exists(c, c.name in ['ctl%d', 'cmd%d'] && '%s' in c.args)`, i, i, verb),
			fmt.Sprintf(`text.matches(r'(?i)\b%s\s+(table|bucket)\s+prod%d\b')`, verb, i),
			fmt.Sprintf(`writes.exists(p, p.startsWith('/srv/app%d/') && p.endsWith('.%s'))`, i, verb),
			fmt.Sprintf(`tool == 'shell' && input.command.contains('host%d.example.com')`, i),
			fmt.Sprintf(`commands.exists(c, c.name == 'git' && c.args.exists(a, a == 'branch%d'))`, i),
			fmt.Sprintf(`commands.exists(c, c.name.startsWith('kube') && c.args.exists(a, a == 'ns%d'))`, i),
		}[i%8]
		fmt.Fprintf(&b, "  - id: rule_%d\n    on: tool_input\n    when: >-\n      %s\n    action: %s\n    message: No.\n", i, when, []string{"deny", "deny", "review"}[i%3])
	}
	b.WriteString("  - {id: mask, on: tool_output, detect: [secrets], action: mask}\n")
	return b.String()
}

// longCommand is a command of about size bytes that an agent really writes.
func longCommand(size int) string {
	line := `cd /srv/app && git log --oneline -5 | head -3; for f in src/*.go; do gofmt -l "$f" >> out.txt; done; kubectl get pods -n prod | grep web` + "\n"
	return strings.Repeat(line, size/len(line)+1)[:size/len(line)*len(line)+len(line)]
}

func body(t testing.TB, tool string, input map[string]any, output any) []byte {
	return question(t, payload(t, tool, input, output))
}

func BenchmarkEvaluate(b *testing.B) {
	e := loaded(b, manyRules(200), Options{})
	for _, size := range []int{400, 4 << 10, 64 << 10} {
		question := body(b, "Bash", map[string]any{"command": longCommand(size)}, nil)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			start := cpuTime()
			for b.Loop() {
				ev, _ := EventFromSpan(question)
				e.Evaluate(b.Context(), ev, 8*time.Second)
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

func BenchmarkLoad1000(b *testing.B) {
	raw, err := authored(b, manyRules(1000)).GuardJSON()
	if err != nil {
		b.Fatal(err)
	}
	e := NewEngine(Options{})
	for b.Loop() {
		if err := e.Load(raw, 1, "g"); err != nil {
			b.Fatal(err)
		}
	}
}
