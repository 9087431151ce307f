package guard

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestPrefilterIsSound: with the prefilter and without it every event gets the
// same verdict, over all built-in rules and cases, also mutated ones.
func TestPrefilterIsSound(t *testing.T) {
	a, err := ParsePolicy("builtin", "builtin:protection")
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{
		"commands.exists(c, c.name == 'rm' && c.flags.exists(f, f == 'r'))", "text.contains('ssh') && !cwd.startsWith('/tmp')",
		"['a', 'push', 'x'].exists(w, w in input)", "'command' in input", "input.exists(k, k == 'path')", "input['command'] == 'ls'",
		"commands.exists(c, c.argv.exists(a, a.lowerAscii().startsWith('-f')))", "paths.exists(p, p.endsWith('.ssh/id_rsa'))",
		"text.split(' ').exists(w, w == 'force')", "user == '' && tool == 'shell' && text.matches(r'(?i)DROP\\s+table|--force')",
		"commands.exists_one(c, c.name == 'git')", "commands.all(c, c.name != 'rm')", "(text.contains('rm') ? cwd : host_tool) == 'Bash'",
		"commands.exists(c, c.via.exists(v, v == 'sudo'))", "writes.exists(w, w.startsWith('/home/dev/repo/'))", "paths.exists(p, p == '~/.ssh/id_rsa')",
		"paths.exists(p, p.matches('^/home/dev/(repo|src)/[a-z]+$')) && text != ''", "writes.exists(w, w in ['/etc', '/etc/passwd', '/'])", "paths.exists(p, p.contains('repo/.git/'))", "commands.exists(c, c.targets.exists(p, p.startsWith('/home/dev/repo/') && p != cwd))", "commands.exists(c, c.targets.exists(p, p in ['/etc', '~', '~/.ssh']))", "commands.exists(c, c.from.exists(f, f in ['curl', 'echo']))",
	} {
		a.Rules = append(a.Rules, Rule{ID: "extra" + string(rune('a'+len(a.Rules)%26)) + strings.Repeat("x", len(a.Rules)), On: "tool_input", When: when, Action: "review"})
	}
	p := a.Policy
	c, err := compile(&p, nil)
	if err != nil {
		t.Fatal(err)
	}
	bare := *c
	loosen := func(list []*rule) (out []*rule) {
		for _, r := range list {
			open := *r
			open.need, open.pathParts = need{}, need{}
			out = append(out, &open)
		}
		return out
	}
	bare.input, bare.output = loosen(c.input), loosen(c.output)
	st, all := &state{Compiled: c, clock: time.Now}, &state{Compiled: &bare, clock: time.Now}
	r := rand.New(rand.NewPCG(7, 8))
	mutations := []string{`"`, `'`, `\`, " ", ";", "$(", ")", "|", "`", "/", "..", "{", "}", "\n", "$HOME", "~", "#", "é", "sudo "}
	judged := 0
	for _, f := range a.Fixtures {
		for i := range 12 {
			data := string(f.Event)
			ev, err := EventFromPayload([]byte(data), "")
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && len(ev.scripts) > 0 {
				s := ev.scripts[0]
				for range 1 + r.IntN(3) {
					at := r.IntN(len(s) + 1)
					s = s[:at] + mutations[r.IntN(len(mutations))] + s[at:]
				}
				data = payload(t, "Bash", map[string]any{"command": s}, nil)
				if ev, err = EventFromPayload([]byte(data), ""); err != nil {
					t.Fatal(err)
				}
			}
			other, _ := EventFromPayload([]byte(data), "")
			got, want := st.judge(t.Context(), ev), all.judge(t.Context(), other)
			judged++
			if id(got) != id(want) {
				t.Errorf("%s: with the prefilter %q, without %q", data, id(got), id(want))
			}
		}
	}
	t.Logf("%d events", judged)
}

func id(o outcome) string {
	if o.rule == nil {
		return ""
	}
	return o.rule.ID
}

// TestPrefilterSkips: most of many rules are never evaluated.
func TestPrefilterSkips(t *testing.T) {
	raw, err := authored(t, manyRules(200)).GuardJSON()
	if err != nil {
		t.Fatal(err)
	}
	p, err := DecodePolicy(raw)
	if err != nil {
		t.Fatal(err)
	}
	c, err := compile(p, builtinProtection())
	if err != nil {
		t.Fatal(err)
	}
	st := &state{Compiled: c, clock: time.Now}
	ev, err := EventFromPayload([]byte(payload(t, "Bash", map[string]any{"command": longCommand(4 << 10)}, nil)), "")
	if err != nil {
		t.Fatal(err)
	}
	there := newActivation(t.Context(), st, ev).there(c.input)
	n := 0
	for _, r := range c.input {
		if r.need.met(there) {
			n++
			t.Logf("passes: %s %.100s", r.ID, r.When)
		}
	}
	if n > 8 {
		t.Errorf("%d of %d rules pass the prefilter", n, len(c.input))
	}
}
