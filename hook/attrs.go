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
func guardAttrs(v *verdict.Verdict, rtt time.Duration, kind event.Kind, m *redact.Masker) []span.Attr {
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
	put("pinta.guard.matched_rule", verdict.Tidy(m.Text(v.Reason)))
	put("pinta.guard.fail_open_reason", v.FailOpen)
	put("pinta.guard.evaluation_id", verdict.Tidy(m.Text(v.EvaluationID)))
	out = append(out, span.Num("pinta.client.rtt_ms", rtt.Milliseconds()), span.Str("pinta.client.op", "guard"))
	if kind == event.PostToolUse {
		put("pinta.guard.target", "tool_output")
	}
	return out
}
