package verdict

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

const (
	maxText       = 4096 // characters of a denial's text
	maxEvaluation = 256
	// maxLine is the longest line that is printed; the host drops 10 MiB.
	maxLine = 8 << 20

	defaultReason = "guard_deny"
	defaultNotice = "The security policy of this machine withheld the output of this tool."

	afterMask = "Parts of the output were hidden by policy. Work on with what is shown; do not try to recover what is hidden." +
		" If a hidden value is truly needed, ask the user to supply it."
	afterWithhold = "The output was withheld by policy. Do not try to get it another way." +
		" Tell the user what is missing and that policy withheld it."
)

// Form is how a host understands a denial.
type Form uint8

const (
	TopLevel Form = iota // native preToolUse
	Nested               // any other spelling of PreToolUse
	Behavior             // permissionRequest
	Modified             // PostToolUse, the result is replaced
	Stopped              // PostToolUse, VS Code Local: the run is stopped
)

// FormOf picks the form by what the event shows of its host (hook.md 5).
func FormOf(e *event.Event, s event.Surface) Form {
	switch {
	case e.Kind == event.PermissionRequest:
		return Behavior
	case e.Kind == event.PreToolUse && e.Name == "preToolUse":
		return TopLevel
	case e.Kind == event.PreToolUse:
		return Nested
	case e.Native(), s == event.Cloud:
		return Modified
	case e.Raw("tool_response") != nil, s == event.Ext:
		return Stopped
	}
	return Modified
}

// Cleaner takes detected values and secrets out of text that the guard sent.
type Cleaner func(string) string

// Denial is what a denying run prints, in its parts.
type Denial struct {
	form   Form
	text   string // for the model or the user before a tool
	notice string // for the user after it
}

// Plain is the denial that needs nothing but the decision: what is printed
// when a fault keeps the full text from being worded.
func Plain(f Form) []byte {
	d := Denial{form: f, text: defaultReason, notice: defaultNotice}
	return d.Withhold()
}

// Word words the denial of v.
func Word(f Form, v *Verdict, clean Cleaner) *Denial {
	d := &Denial{form: f, notice: tidy(clean, v.UserMessage, maxText)}
	if d.text = d.notice; d.text == "" {
		d.text = tidy(clean, v.Reason, maxText)
	}
	if d.text == "" {
		d.text = defaultReason
	}
	if d.notice == "" {
		d.notice = defaultNotice
	}
	if id := tidy(clean, v.EvaluationID, maxEvaluation); id != "" {
		d.text += " (evaluation " + id + ")"
		d.notice += " (evaluation " + id + ")"
	}
	return d
}

// Masks says whether the denial can carry a masked output at all.
func (d *Denial) Masks() bool { return d.form == Modified }

// Withhold is the line that denies and shows nothing of an output.
func (d *Denial) Withhold() []byte {
	return d.line(d.notice + "\n\n" + afterWithhold)
}

// Mask is the line that shows the masked output; one too long for the host
// withholds it.
func (d *Denial) Mask(output string) []byte {
	if line := d.line(d.notice + "\n\n" + afterMask + "\n\n" + output); len(line) <= maxLine {
		return line
	}
	return d.Withhold()
}

func (d *Denial) line(result string) []byte {
	var b []byte
	quoted := func(before, s string) { b = rawjson.AppendQuote(append(b, before...), s) }
	switch d.form {
	case TopLevel:
		quoted(`{"permissionDecision":"deny","permissionDecisionReason":`, d.text)
		b = append(b, '}')
	case Nested:
		quoted(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":`, d.text)
		b = append(b, "}}"...)
	case Behavior:
		quoted(`{"behavior":"deny","message":`, d.text)
		b = append(b, '}')
	case Stopped:
		quoted(`{"continue":false,"stopReason":`, d.notice)
		b = append(b, '}')
	default:
		quoted(`{"modifiedResult":{"resultType":"success","textResultForLlm":`, result)
		b = append(b, "}}"...)
	}
	return append(b, '\n')
}

// Tidy is how a text of the guard appears on a span: bounded, printable and
// cleaned.
func Tidy(clean Cleaner, s string) string { return tidy(clean, s, maxText) }

// tidy cleans, makes visible, trims, and cuts at limit characters. What is
// dropped between may have parted a secret in two: then it is cleaned again.
func tidy(clean Cleaner, s string, limit int) string {
	s = clean(s)
	if shown := visible(s); shown != s {
		s = visible(clean(shown))
	}
	s = strings.TrimSpace(s)
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n == limit {
			return s[:i]
		}
		n++
	}
	return s
}

// visible drops what a terminal would obey or not show.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200b, r == 0xfeff:
			return -1
		case r == 0x2028, r == 0x2029:
			return '\n'
		}
		return r
	}, s)
}
