package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Step is one thing that the demo did and checked.
type Step struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Millis int64  `json:"ms"`
	Detail string `json:"detail"`
}

// Report is the demo's outcome; as JSON it is the last line of --json.
type Report struct {
	OK       bool   `json:"ok"`
	Steps    []Step `json:"steps"`
	DeviceID string `json:"deviceId"`
	HookFile string `json:"hookFile"`
	Spans    int    `json:"spans"`
	RepairMs int64  `json:"repairMs"`
	ConfigMs int64  `json:"configMs"`
	Copilot  string `json:"copilot"`
}

// printer shows the run to a person. With --json it goes to stderr, so that
// stdout holds the one line.
type printer struct {
	out   io.Writer
	color bool
}

func (p printer) paint(code, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p printer) title(text string) { fmt.Fprintf(p.out, "%s\n", p.paint("1", text)) }

func (p printer) note(format string, args ...any) {
	fmt.Fprintf(p.out, "  %s\n", p.paint("2", fmt.Sprintf(format, args...)))
}

// shown prints what a host is given, indented and cut to a readable length.
func (p printer) shown(label, text string) {
	text = strings.TrimSpace(text)
	if text == "" {
		text = "(nothing: the call goes on)"
	}
	const most = 900
	if len(text) > most {
		text = text[:most] + " …"
	}
	for i, line := range strings.Split(text, "\n") {
		if i == 0 {
			fmt.Fprintf(p.out, "            %-9s %s\n", label, line)
		} else {
			fmt.Fprintf(p.out, "            %-9s %s\n", "", line)
		}
	}
}

// step prints one line of the result and what was expected.
func (p printer) step(s Step, expected string) {
	mark := p.paint("32;1", "ok  ")
	if !s.OK {
		mark = p.paint("31;1", "FAIL")
	}
	fmt.Fprintf(p.out, "%s %-10s%6d ms  expected: %s\n", mark, s.Name, s.Millis, expected)
	p.shown("happened:", s.Detail)
}

func (p printer) summary(r Report, took time.Duration) {
	passed := 0
	for _, s := range r.Steps {
		if s.OK {
			passed++
		}
	}
	verdict := p.paint("32;1", "all steps ok")
	if !r.OK {
		verdict = p.paint("31;1", "the demo failed")
	}
	fmt.Fprintf(p.out, "\n%s: %d of %d steps, %d spans at the collector, repair in %d ms, a new config in force after %d ms, %.1f s in all\n",
		verdict, passed, len(r.Steps), r.Spans, r.RepairMs, r.ConfigMs, took.Seconds())
}

// WriteJSON writes the report as one line.
func (r Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }
