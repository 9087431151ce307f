package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// row is one line of the table of what is enforced.
type row struct {
	key   string
	title string
	// residual is the number in docs/threat-model.md of what holds where the
	// outcome is not the good one.
	residual string
}

// rows are the scenarios in reading order.
var rows = []struct {
	title string
	rows  []row
}{
	{"Verdicts, with the user's hooks", []row{
		{"allow", "an allowed shell call runs, its output unchanged", ""},
		{"allow.view", "an allowed read runs", ""},
		{"deny.shell", "a denied shell call does not run; the model gets the policy's text", ""},
		{"deny.write", "a denied write does not happen", ""},
		{"deny.mcp", "a denied MCP call does not happen", ""},
		{"deny.subagent", "a subagent's call is denied", ""},
		{"parallel.deny", "of parallel calls the denied one does not run", ""},
		{"parallel.allow", "of parallel calls the allowed ones run", ""},
		{"deny.permission", "a denial at permissionRequest", ""},
		{"deny.own-files", "the guard's own files can't be written by a tool", ""},
		{"mask.shell", "a secret in a shell's output arrives masked", "R11"},
		{"mask.failing", "the same for a command that exits with 3", "R11"},
		{"mask.mcp", "a secret in an MCP result arrives masked", "R11"},
		{"parallel.mask", "of parallel calls one output is masked", "R11"},
		{"withhold", "an output is withheld", "R11"},
		{"changed.arguments", "a trusted repository's hook changes the arguments: the changed command is denied at permissionRequest", "R3"},
		{"changed.plain", "calls beside it run", ""},
		{"disabled.user", "a trusted repository sets disableAllHooks: user hooks", "R12"},
		{"disabled.runs", "calls run then", ""},
		{"hostile.deny", "hostile inherited environment (before 1.0.73 without an exported function `echo`: R16): denials", ""},
		{"hostile.mask", "hostile inherited environment: masking", "R11"},
		{"hostile.allow", "hostile inherited environment: allowed calls run", ""},
		{"bashenv.deny", "BASH_ENV that prints: denials", ""},
		{"bashenv.allow", "BASH_ENV that prints: allowed calls run", ""},
		{"awkward-home.deny", "a home with blanks, quotes and non-ASCII, socket path too long for an address", ""},
		{"awkward-home.deny-2", "the same with another home", ""},
	}},
	{"Machine policy beside the user's hooks", []row{
		{"machine.policy", "the policy file is read", "R4"},
		{"machine.deny", "denials", ""},
		{"machine.mask", "masking", "R11"},
		{"machine.allow", "allowed calls run", ""},
		{"machine.once", "machine and user entry together: how often a call is judged", "R13"},
		{"machine.disableAllHooks", "a trusted repository's disableAllHooks changes nothing", "R4"},
		{"machine.hostile-deny", "the same hostile environment, another COPILOT_HOME, BASH_ENV that prints: denials", "R4"},
		{"machine.hostile-allow", "the same: allowed calls run", ""},
	}},
	{"Faults: a call is never denied by one", []row{
		{"fault.agent-killed", "agent killed in mid-session", ""},
		{"fault.guard-down", "its socket gone", ""},
		{"fault.guard-slow", "guard answers a byte at a time", ""},
		{"fault.guard-hanging", "guard never answers", ""},
		{"fault.guard-broken", "guard answers nonsense", ""},
		{"fault.guard-error", "guard answers status 500", ""},
		{"fault.guard-closing", "guard closes the connection", ""},
		{"fault.agent-back", "agent back in the same session: denials again", ""},
		{"fault.hook-missing", "hook binary missing", ""},
		{"fault.hook-root-missing", "its folder missing", ""},
		{"fault.hook-not-executable", "hook binary not executable", ""},
		{"fault.hook-corrupt", "corrupt", ""},
		{"fault.hook-truncated", "truncated", ""},
		{"fault.hook-empty", "empty", ""},
		{"fault.hook-interpreter", "a script without its interpreter", ""},
		{"fault.hook-segv", "dies of SIGSEGV", ""},
		{"fault.hook-killed", "killed", ""},
		{"fault.hook-exit1", "exits 1", ""},
		{"fault.hook-exit2", "exits 2", ""},
		{"fault.hook-directory", "a directory in its place", ""},
		{"fault.hook-repaired", "repaired in the same session: denials again", ""},
		{"fault.machine-killed", "machine entries: agent killed", ""},
		{"fault.machine-missing", "machine entries: hook binary and folder missing", ""},
		{"fault.machine-mode", "machine entries: not executable", ""},
		{"fault.machine-corrupt", "machine entries: corrupt", ""},
		{"fault.machine-segv", "machine entries: dies of SIGSEGV", ""},
		{"fault.machine-exit2", "machine entries: exits 2", ""},
		{"fault.machine-repaired", "machine entries: repaired, denials again", ""},
	}},
	{"Events", []row{{"events", "events whose spans arrived in one session", ""}}},
}

// good are the outcomes that need no residual.
var good = []string{"enforced", "runs", "read", "once"}

func (r radar) writeDocument() error {
	results, err := r.results()
	if err != nil {
		return err
	}
	path := filepath.Join(r.checkout, "docs", "hosts.md")
	if err := os.WriteFile(path, document(results), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(r.out, "wrote", path)
	return nil
}

// document is docs/hosts.md.
func document(results []Result) []byte {
	var b bytes.Buffer
	b.WriteString("# What is enforced on which host\n\n" +
		"Generated by `go run ./e2e/radar VERSION…` from what it recorded in `e2e/radar/testdata`; do not edit. Every cell comes from the real\n" +
		"Copilot CLI of that version on Linux, run offline against the built programs by the tests in `e2e/copilot`. R numbers are the\n" +
		"residuals of [threat-model.md](threat-model.md). Versions that are not listed were not looked at: add one by the same command.\n\n")
	for _, part := range rows {
		fmt.Fprintf(&b, "## %s\n\n", part.title)
		table(&b, "", results, len(part.rows), func(i int) (string, func(Result) string) {
			row := part.rows[i]
			return row.title, func(r Result) string { return cell(row, r.Scenarios) }
		})
	}
	unlisted(&b, results)
	hostFacts(&b, results)
	b.WriteString("## VS Code Local\n\n" +
		"Not run here. `e2e/vscode` runs the registered commands in dash as the editor's sources say it does, with constructed payloads: a denial\n" +
		"of PreToolUse is nested and honoured; a denied output stops the run (`continue: false`) and can't be masked (R7); what the editor does\n" +
		"with that is the editor's. VS Code Agent Host runs the CLI's runtime: see the tables above.\n")
	return b.Bytes()
}

// unlisted writes what a version did that the tables above don't foresee:
// outcomes without a row, and scenarios that failed.
func unlisted(b *bytes.Buffer, results []Result) {
	more := map[string]bool{}
	failed := false
	for _, r := range results {
		failed = failed || len(r.Failed) > 0
		for key := range r.Scenarios {
			more[key] = true
		}
	}
	for _, part := range rows {
		for _, row := range part.rows {
			delete(more, row.key)
		}
	}
	if keys := sorted(more); len(keys) > 0 {
		b.WriteString("## Other outcomes\n\n")
		table(b, "", results, len(keys), func(i int) (string, func(Result) string) {
			return keys[i], func(r Result) string { return cell(row{key: keys[i]}, r.Scenarios) }
		})
	}
	if failed {
		b.WriteString("## Scenarios that failed\n\n")
		for _, r := range results {
			if len(r.Failed) > 0 {
				fmt.Fprintf(b, "- %s: `%s`\n", r.Version, strings.Join(r.Failed, "`, `"))
			}
		}
		b.WriteByte('\n')
	}
}

func cell(r row, outcomes map[string]string) string {
	got, ok := outcomes[r.key]
	switch {
	case !ok:
		return "–"
	case r.residual != "" && !slices.Contains(good, got):
		return got + " (" + r.residual + ")"
	}
	return got
}

// table writes one line a row and one column a version.
func table(b *bytes.Buffer, head string, results []Result, n int, line func(int) (string, func(Result) string)) {
	fmt.Fprintf(b, "| %s |", head)
	for _, r := range results {
		fmt.Fprintf(b, " %s |", r.Version)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(results)) + "\n")
	for i := range n {
		title, value := line(i)
		fmt.Fprintf(b, "| %s |", escape(title))
		for _, r := range results {
			fmt.Fprintf(b, " %s |", escape(value(r)))
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}

// hostFacts writes what the host makes of any hook's end and output.
func hostFacts(b *bytes.Buffer, results []Result) {
	keys := map[string]string{}
	for _, r := range results {
		for k := range r.Host {
			keys[k] = ""
		}
	}
	list := sorted(keys)
	b.WriteString("## What the host makes of a hook\n\n" +
		"Of a hook that isn't ours: what becomes of a shell call when a hook of that event ends or answers so. \"answer\" is the event's denial\n" +
		"(preToolUse `permissionDecision`, permissionRequest `behavior`, postToolUse `modifiedResult`); the time limit is the registered one.\n\n")
	table(b, "event/case", results, len(list), func(i int) (string, func(Result) string) {
		return list[i], func(r Result) string {
			if v, ok := r.Host[list[i]]; ok {
				return v
			}
			return "–"
		}
	})
}
