package main

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func here(t *testing.T) radar {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return radar{checkout: dir, out: io.Discard}
}

// TestHostsDocument: docs/hosts.md is what the recorded results generate.
func TestHostsDocument(t *testing.T) {
	r := here(t)
	results, err := r.results()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(r.checkout, "docs", "hosts.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := document(results); !bytes.Equal(got, want) {
		t.Errorf("docs/hosts.md is not what is recorded; run `go run ./e2e/radar -document`")
	}
}

// pinned are the versions that are looked at for each release: all they do is
// foreseen.
var pinned = []string{"1.0.49", "1.0.57", "1.0.73", "1.0.88", "1.0.102"}

// TestEveryOutcomeHasARow: the pinned versions are recorded, every outcome of
// theirs has a row and a good value or a residual, no scenario failed; and in no
// version, seen by whomever, did a fault end in a denied tool.
func TestEveryOutcomeHasARow(t *testing.T) {
	known := map[string]row{}
	for _, part := range rows {
		for _, r := range part.rows {
			known[r.key] = r
		}
	}
	results, err := here(t).results()
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	for _, r := range results {
		recorded[r.Version] = true
		for key, outcome := range r.Scenarios {
			if strings.HasPrefix(key, "fault.") && strings.Contains(outcome, "denied") {
				t.Errorf("%s: %s ended in a denied tool", r.Version, key)
			}
			row, ok := known[key]
			switch {
			case !slices.Contains(pinned, r.Version):
			case !ok:
				t.Errorf("%s: outcome %s has no row", r.Version, key)
			case key != "events" && !slices.Contains(good, outcome) && row.residual == "":
				t.Errorf("%s: %s is %q, and no residual says why", r.Version, key, outcome)
			}
		}
		for key := range known {
			if _, ok := r.Scenarios[key]; !ok && slices.Contains(pinned, r.Version) {
				t.Errorf("%s: nothing is recorded of %s", r.Version, key)
			}
		}
		if len(r.Failed) > 0 && slices.Contains(pinned, r.Version) {
			t.Errorf("%s was recorded with failed scenarios: %v", r.Version, r.Failed)
		}
	}
	for _, v := range pinned {
		if !recorded[v] {
			t.Errorf("version %s is not recorded; run `go run ./e2e/radar %s`", v, v)
		}
	}
}

func TestCompare(t *testing.T) {
	was := Result{Scenarios: map[string]string{"same": "runs", "gone": "runs", "other": "enforced"},
		Host: map[string]string{"preToolUse/exit-1": "runs", "preToolUse/ask": "runs", "preToolUse/answer-then-time-limit": "runs"}}
	is := Result{Scenarios: map[string]string{"same": "runs", "new": "runs", "other": "not enforced"},
		Host: map[string]string{"preToolUse/exit-1": "denied", "preToolUse/ask": "denied", "preToolUse/answer-then-time-limit": "denied"}}
	want := []difference{
		{"scenarios", `- gone: was "runs", is not seen any more`},
		{"scenarios", `+ new: "runs"`},
		{"scenarios", `~ other: was "enforced", is "not enforced"`},
		{"time limits", `~ preToolUse/answer-then-time-limit: was "runs", is "denied"`},
		{"outputs", `~ preToolUse/ask: was "runs", is "denied"`},
		{"exit codes", `~ preToolUse/exit-1: was "runs", is "denied"`},
	}
	if got := compare(was, is); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := compare(is, is); got != nil {
		t.Errorf("equal results differ: %q", got)
	}
}

func TestComparePayloads(t *testing.T) {
	was := map[string][]byte{
		"preToolUse.camel.json": []byte(`{"toolName":"bash","toolArgs":"{}","old":1}`), "preToolUse.camel.bash.json": []byte(`{"toolName":"bash","toolArgs":"{}","old":1}`),
		"gone.camel.json": []byte(`{"source":"new"}`), "_env.preToolUse.json": []byte(`{"COPILOT_CLI":"1","HOME":"/h","COPILOT_HOME":"x"}`),
		"preCompact.camel.manual.json": []byte(`{"trigger":"manual"}`)}
	is := map[string][]byte{
		"preToolUse.camel.json": []byte(`{"toolName":"Bash","toolArgs":{"command":"x"}}`), "preToolUse.camel.Bash.json": []byte(`{"toolName":"Bash"}`),
		"new.camel.json": []byte(`{"a":true}`), "_env.preToolUse.json": []byte(`{"COPILOT_CLI":"2","COPILOT_NEW":"1"}`)}
	want := []difference{
		{"events", "- gone.camel: not seen any more"},
		{"events", "+ new.camel: a bool"},
		{"events", "+ preToolUse.camel.Bash"},
		{"events", "- preToolUse.camel.bash: not seen any more"},
		{"spellings", "~ preToolUse.camel toolName: was bash, is Bash"},
		{"fields", "- old: was number, in preToolUse.camel"},
		{"fields", "~ toolArgs: was string, is object, in preToolUse.camel"},
		{"fields", "+ toolArgs.command: string, in preToolUse.camel"},
		{"environment", "+ COPILOT_NEW: set, in _env.preToolUse"},
	}
	if got := comparePayloads(was, is); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	many := map[string][]byte{}
	for i := range 8 {
		many[string(rune('a'+i))+".camel.json"] = []byte(`{}`)
	}
	more := maps.Clone(many)
	for name := range many {
		more[name] = []byte(`{"late":null}`)
	}
	if got := comparePayloads(many, more); len(got) != 1 || got[0].text != "+ late: null, in a.camel, b.camel, c.camel, d.camel, e.camel, and 3 more" {
		t.Errorf("got %q", got)
	}
	if got := comparePayloads(is, is); got != nil {
		t.Errorf("equal payloads differ: %q", got)
	}
}

// TestReport: the report names every kind of change, and what was left out.
func TestReport(t *testing.T) {
	var out bytes.Buffer
	report(&out, map[string]bool{"scenarios": true, "host": true}, []difference{{"outputs", "~ x"}, {"exit codes", "+ y"}, {"outputs", "- z"}})
	want := `   scenarios: nothing changed
   exit codes:
     + y
   time limits: nothing changed
   outputs:
     ~ x
     - z
   events: not looked at
   spellings: not looked at
   fields: not looked at
   environment: not looked at
`
	if out.String() != want {
		t.Errorf("got\n%s", &out)
	}
}

func TestBaseline(t *testing.T) {
	all := []Result{{Version: "1.0.49"}, {Version: "1.0.88"}, {Version: "1.0.102"}}
	for version, want := range map[string]string{"1.0.102": "1.0.102", "1.0.90": "1.0.88", "1.0.103": "1.0.102", "1.0.72-1": "1.0.49", "1.0.88-4": "1.0.49", "1.0.89-0": "1.0.88", "0.9.0": "", "2.0.0": "1.0.102"} {
		base, known := baseline(all, version)
		if base.Version != want || known != (want == version) {
			t.Errorf("%s is compared with %q, known %v", version, base.Version, known)
		}
	}
	for _, bad := range []string{"", "latest", "1.0", "1.0.x", "../1.0.2", "1.0.2/x"} {
		if isVersion(bad) {
			t.Errorf("%q is taken for a version", bad)
		}
	}
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		event, stdin, out string
		exit              int
	}{
		{"preToolUse", `{"toolArgs":{"command":": CASE:preToolUse/exit-2"}}`, "", 2},
		{"preToolUse", `{"toolArgs":{"command":": CASE:PreToolUse/exit-2"}}`, "", 0},
		{"preToolUse", `{}`, "", 0},
		{"postToolUse", `CASE:postToolUse/answer`, `{"modifiedResult":{"resultType":"success","textResultForLlm":"MODIFIED"}}` + "\n", 0},
	} {
		var out bytes.Buffer
		if exit := answer([]string{c.event}, strings.NewReader(c.stdin), &out, io.Discard); exit != c.exit || out.String() != c.out {
			t.Errorf("%s %s: exit %d, %q", c.event, c.stdin, exit, out.String())
		}
	}
}

func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		told string
		ran  bool
		want string
	}{
		{"TOOL-OUTPUT\n<shellId: 3 completed with exit code 0>", true, "runs"},
		{"TOOL-OUTPUT\n<exited with exit code 0>", true, "runs"},
		{"MODIFIED", true, "runs; the model gets: MODIFIED"},
		{"CHANGED\n<shellId: 3 completed with exit code 0>", false, "runs with the changed arguments"},
		{"Denied by\n preToolUse hook", false, "denied; the model gets: Denied by preToolUse hook"},
	} {
		if got := outcome(c.told, c.ran); got != c.want {
			t.Errorf("%q: %q, want %q", c.told, got, c.want)
		}
	}
}
