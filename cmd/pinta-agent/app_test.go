package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pinta-ai/pinta-agent/installer"
)

// TestDoctorPage: each page of findings ends in a line that sums them up, fits
// a terminal, and is plain, one line a fact, where it is piped.
func TestDoctorPage(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("some words of detail ", 12))
	finding := func(s installer.Severity, fixable bool) installer.Finding {
		return installer.Finding{ID: "hook-file.absent", Severity: s, User: "dev", Detail: long, Remedy: long, Fixable: fixable}
	}
	for _, tt := range []struct {
		name string
		list []installer.Finding
		last string
	}{
		{"nothing", nil, "ok   all ok: hooks are registered and answered"},
		{"notices", []installer.Finding{finding(installer.Notice, false)}, "ok   all ok: hooks are registered and answered; 0 error(s), 0 warning(s), 1 notice(s)"},
		{"warnings", []installer.Finding{finding(installer.Warning, false), finding(installer.Notice, false)}, "warn 0 error(s), 1 warning(s), 1 notice(s)"},
		{"errors", []installer.Finding{finding(installer.Error, true), finding(installer.Warning, false)}, "fail 1 error(s), 1 warning(s), 0 notice(s); `pinta-agent repair` mends 1 of them"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var piped, terminal strings.Builder
			for _, p := range []*page{{w: &piped}, {w: &terminal, color: true, width: 80}} {
				p.findings(tt.list)
				p.summary(tt.list)
			}
			lines := strings.Split(strings.TrimSuffix(piped.String(), "\n"), "\n")
			if got := strings.TrimSpace(lines[len(lines)-1]); got != tt.last {
				t.Errorf("the last line is %q, want %q", got, tt.last)
			}
			if want := 2*len(tt.list) + 1; len(lines) != want || strings.Contains(piped.String(), "\x1b") {
				t.Errorf("piped: %d lines, want %d without colours:\n%s", len(lines), want, piped.String())
			}
			plain := terminal.String()
			for _, code := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[2m", "\x1b[0m"} {
				plain = strings.ReplaceAll(plain, code, "")
			}
			for line := range strings.Lines(plain) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			if strings.Join(strings.Fields(plain), " ") != strings.Join(strings.Fields(piped.String()), " ") {
				t.Errorf("the terminal shows other words:\n%s", plain)
			}
		})
	}
}
