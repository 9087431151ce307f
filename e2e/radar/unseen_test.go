//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNeverSeenVersion: a version that no table knows is examined, compared
// with the nearest one below, and reported, whatever it does; here a CLI that
// refuses to run at all, with scenarios that fail and a scenario of its own.
func TestNeverSeenVersion(t *testing.T) {
	var out bytes.Buffer
	r := radar{checkout: t.TempDir(), work: t.TempDir(), out: &out, parts: map[string]bool{"scenarios": true, "host": true, "payloads": true}}
	if err := os.MkdirAll(filepath.Join(r.checkout, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	const known, unseen = "1.0.102", "9.9.9"
	recorded := here(t)
	for _, dir := range []string{recorded.resultDir(), filepath.Join(recorded.payloadDirs()[0], known)} {
		rel, err := filepath.Rel(recorded.checkout, dir)
		if err == nil {
			err = os.CopyFS(filepath.Join(r.checkout, rel), os.DirFS(dir))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	script := func(path, text string) string {
		t.Helper()
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, v := range []string{unseen, "9.9.8"} {
		script(filepath.Join(r.work, "cli", v, "node_modules", ".bin", "copilot"), "echo unknown option >&2; exit 3\n")
	}
	scenarios := script(filepath.Join(r.work, "scenarios"), `echo '--- FAIL: TestVerdicts (1.00s)'
echo '{"allow":"runs","deny.shell":"not enforced","novel.scenario":"runs"}' >"$PINTA_E2E_RESULTS"
exit 1
`)
	if err := os.MkdirAll(filepath.Join(r.checkout, "e2e", "copilot"), 0o755); err != nil {
		t.Fatal(err)
	}
	with := tools{self: "/bin/true", tests: scenarios}

	// What wasn't looked at is not taken over from another version.
	part := r
	part.parts = map[string]bool{"payloads": true}
	if _, err := part.look(t.Context(), with, "9.9.8", false); err != nil {
		t.Fatal(err)
	}
	results, err := r.results()
	if err != nil {
		t.Fatal(err)
	}
	if last := results[len(results)-1]; last.Version != "9.9.8" || last.Scenarios != nil || last.Host != nil {
		t.Errorf("recorded without a look: %+v", last)
	}
	if err := os.Remove(filepath.Join(r.resultDir(), "9.9.8.json")); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	file := filepath.Join(r.resultDir(), unseen+".json")

	differs, err := r.look(t.Context(), with, unseen, true)
	if _, gone := os.Stat(file); err != nil || !differs || gone == nil {
		t.Fatalf("compared only: differs %v, %v; recorded: %v", differs, err, gone == nil)
	}
	out.Reset()
	if differs, err = r.look(t.Context(), with, unseen, false); err != nil || !differs {
		t.Fatalf("differs %v, %v", differs, err)
	}
	for _, want := range []string{
		"never seen before: compared with " + known, "FAILED TestVerdicts", "+ novel.scenario", `~ deny.shell: was "enforced", is "not enforced"`,
		`is "never called"`, "- preToolUse.camel: not seen any more",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
	if err := r.writeDocument(); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(r.checkout, "docs", "hosts.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" | " + known + " | " + unseen + " |\n", "| not enforced |\n", "| novel.scenario |", "- " + unseen + ": `TestVerdicts`\n"} {
		if !strings.Contains(string(doc), want) {
			t.Errorf("docs/hosts.md lacks %q", want)
		}
	}
	out.Reset()
	if _, err = r.look(t.Context(), with, unseen, false); err != nil || !strings.Contains(out.String(), "compared with what was recorded of it\n") ||
		!strings.Contains(out.String(), "scenarios: nothing changed\n") {
		t.Errorf("the second look: %v\n%s", err, &out)
	}
}
