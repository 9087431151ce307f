package guard

import (
	"strings"
	"testing"
)

// TestBuiltinRules runs every case beside the built-in rules, by the whole set.
func TestBuiltinRules(t *testing.T) {
	a, err := ParsePolicy("builtin", "builtin:protection")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range a.Warnings {
		t.Error(w)
	}
	results, err := a.Test(a.Fixtures)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.Pass {
			t.Errorf("%s %s: %s", r.Where, r.Name, r.Reason)
		}
	}
	if len(results) < 200 {
		t.Errorf("only %d cases", len(results))
	}
	t.Logf("%d rules, %d cases", len(a.Rules), len(results))

	// Each rule has a case that it decides, a message with a remedy, and tags.
	decided := map[string]int{}
	for _, f := range a.Fixtures {
		decided[f.Rule]++
	}
	for _, r := range a.Rules {
		if decided[r.ID] < 2 || len(r.Tags) == 0 || !strings.Contains(r.Message, ".") {
			t.Errorf("rule %s: %d cases, tags %v, message %q", r.ID, decided[r.ID], r.Tags, r.Message)
		}
	}
}
