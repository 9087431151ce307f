package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// app is what every command starts from.
type app struct {
	root   string
	json   bool
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	// envToken is PINTA_ENROLLMENT_TOKEN, taken out of the environment.
	envToken settings.Secret
	layout   settings.Layout
	settings *settings.Settings
}

// open finds the layout and loads the settings.
func (a *app) open() error {
	layout, err := settings.NewLayout(a.root)
	if err != nil {
		return err
	}
	if a.settings, err = settings.Load(layout); err != nil {
		return err
	}
	a.layout = layout.WithHookDir(a.settings.Text(settings.KeyHookDir))
	return nil
}

// level is the configured log level.
func (a *app) level() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.settings.Text(settings.KeyLogLevel))); err != nil {
		return slog.LevelInfo
	}
	return level
}

// logger writes what a command has to say besides its result to stderr: only
// warnings, unless debugging is configured.
func (a *app) logger() *slog.Logger {
	level := a.level()
	if level == slog.LevelInfo {
		level = slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// print shows a result: one line of JSON with --json, else what text writes.
func (a *app) print(v any, text func(p *page)) error {
	if a.json {
		return json.NewEncoder(a.stdout).Encode(v)
	}
	p := &page{w: a.stdout, color: a.colors(a.stdout), width: columns(a.stdout)}
	text(p)
	return p.err
}

func (a *app) colors(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(f.Fd()))
}

// columns is the width of a terminal, 0 where w is none: what is piped is read
// by programs and keeps one line a fact.
func columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// page is readable output: titles, aligned rows, marked lines.
type page struct {
	w     io.Writer
	color bool
	width int // of the terminal; 0 wraps nothing
	err   error
}

// wrap breaks text that starts at column indent at blanks, so that it fits the
// terminal. A word that is longer than a line, a path say, stays whole.
func (p *page) wrap(indent int, text string) string {
	pad := "\n" + strings.Repeat(" ", indent)
	if p.width <= indent {
		return strings.ReplaceAll(text, "\n", pad)
	}
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteString(pad)
		}
		at := indent
		for j, word := range strings.Split(line, " ") {
			n := utf8.RuneCountInString(word)
			switch {
			case j == 0:
			case at+1+n > p.width:
				b.WriteString(pad)
				at = indent
			default:
				b.WriteByte(' ')
				at++
			}
			b.WriteString(word)
			at += n
		}
	}
	return b.String()
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *page) paint(code, s string) string {
	if !p.color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// title starts a block.
func (p *page) title(s string) { p.printf("%s\n", p.paint("1", s)) }

// row is one aligned "name  value" line; an empty value is left out.
func (p *page) row(name, format string, args ...any) {
	if value := fmt.Sprintf(format, args...); value != "" {
		p.printf("  %-14s %s\n", name, p.wrap(17, value))
	}
}

// The marks of lines that are judged.
const (
	markOK   = "ok"
	markInfo = "info"
	markWarn = "warn"
	markFail = "fail"
)

// mark is a line with a verdict in front.
func (p *page) mark(kind, format string, args ...any) {
	color := map[string]string{markOK: "32", markInfo: "2", markWarn: "33", markFail: "31"}[kind]
	p.printf("  %s %s\n", p.paint(color, fmt.Sprintf("%-4s", kind)), p.wrap(7, fmt.Sprintf(format, args...)))
}

// note is a line below a marked one.
func (p *page) note(format string, args ...any) {
	p.printf("       %s\n", p.wrap(7, fmt.Sprintf(format, args...)))
}
