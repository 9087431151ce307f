package hook

import (
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/redact"
	"github.com/pinta-ai/pinta-agent/hook/span"
	"github.com/pinta-ai/pinta-agent/hook/verdict"
)

// guardAttrs says on the span what the guard decided (hook.md 6).
func guardAttrs(v *verdict.Verdict, rtt time.Duration, kind event.Kind) []span.Attr {
	clean := cleaner(v)
	out := make([]span.Attr, 0, 8)
	put := func(key, value string) {
		if value != "" {
			out = append(out, span.Str(key, value))
		}
	}
	put("pinta.guard.decision", strings.ToLower(string(v.Decision)))
	if d, ok := span.ValueOf([]byte(v.Duration)); ok {
		out = append(out, span.Attr{Key: "pinta.guard.duration_ms", Value: d})
	}
	put("pinta.guard.matched_rule", verdict.Tidy(clean(v.Reason)))
	put("pinta.guard.fail_open_reason", v.FailOpen)
	put("pinta.guard.evaluation_id", verdict.Tidy(clean(v.EvaluationID)))
	out = append(out, span.Num("pinta.client.rtt_ms", rtt.Milliseconds()), span.Str("pinta.client.op", "guard"))
	if kind == event.PostToolUse {
		put("pinta.guard.target", "tool_output")
	}
	return out
}

// cleaner takes the values that the guard detected, and secrets that it may
// not know, out of text.
func cleaner(v *verdict.Verdict) verdict.Cleaner {
	return func(s string) string {
		if s == "" {
			return s
		}
		return redact.Text(hide(v, s))
	}
}
