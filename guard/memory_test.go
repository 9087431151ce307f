package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evaluations.jsonl")
	m := NewMemory(path, 10)
	for i := range 25 {
		m.Add(Verdict{EvaluationID: fmt.Sprintf("01J%02d", i), Rule: "r", Excerpt: "masked"})
	}
	if _, ok := m.Find("01J03"); ok {
		t.Error("the memory is not bounded")
	}
	if v, ok := m.Find("01j24"); !ok || v.Rule != "r" {
		t.Error("the last is forgotten, or letter case counts")
	}
	if v, err := FindEvaluation(path, "01J24"); err != nil || v.Excerpt != "masked" {
		t.Errorf("in the file: %v %v", v, err)
	}
	if _, err := FindEvaluation(path, "nothing"); err == nil {
		t.Error("found nothing")
	}
	if again := NewMemory(path, 10); again.ring == nil {
		t.Error("a restart forgets")
	} else if _, ok := again.Find("01J24"); !ok {
		t.Error("a restart forgets the last")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v %v", info.Mode(), err)
	}

	// A damaged file costs its damaged lines; the file stays bounded.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, "{broken")
	f.Close()
	m = NewMemory(path, 10)
	for i := range 400 {
		m.Add(Verdict{EvaluationID: fmt.Sprintf("02J%03d", i), Excerpt: strings.Repeat("x", 4000)})
	}
	if info, err := os.Stat(path); err != nil || info.Size() > memoryBytes {
		t.Errorf("%v %v", info.Size(), err)
	}
	if v, err := FindEvaluation(path, "02J399"); err != nil || v.Excerpt == "" {
		t.Error(err)
	}
}

// TestExcerptIsMasked: nothing that any detector or redaction knows stays in
// what is remembered.
func TestExcerptIsMasked(t *testing.T) {
	e := loaded(t, examplePolicy+`
  - {id: deny_curl, on: tool_input, tools: [shell], when: "commands.exists(c, c.name == 'curl')", action: deny}
  - {id: deny_out, on: tool_output, when: "output.contains('forbidden')", action: deny}
`, Options{})
	secrets := []string{"ghp_" + strings.Repeat("aB3dE6", 6), "AKIAQ3EGRIVMTFXW7ZC5", "s3cr3t-Pass-w0rd", "4111 1111 1111 1111", "hunter2-pw"}
	command := fmt.Sprintf("MY_PASSWORD=%s curl https://me:%s@h -H 'x: %s' https://h/?k=%s -d '%s'", secrets[2], secrets[4], secrets[0], secrets[1], secrets[3])
	for _, p := range []string{
		payload(t, "Bash", map[string]any{"command": command}, nil),
		payload(t, "Bash", map[string]any{"command": "rm -rf /srv; " + command}, nil),
		payload(t, "Bash", map[string]any{"command": "x"}, command),
		payload(t, "Bash", map[string]any{"command": "x"}, "forbidden "+command),
		payload(t, "Bash", map[string]any{"command": command}, "forbidden"),
	} {
		a := ask(t, e, p)
		v, ok := e.Why(fmt.Sprint(a["evaluationId"]))
		if !ok || v.Excerpt == "" {
			t.Errorf("%v: nothing to explain", a)
		}
		for _, s := range secrets {
			if strings.Contains(v.Excerpt, s) {
				t.Errorf("%s: the excerpt holds %s: %s", v.Rule, s, v.Excerpt)
			}
		}
	}
}
