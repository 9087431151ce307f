package hook

import (
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/redact"
	"github.com/pinta-ai/pinta-agent/hook/span"
	"github.com/pinta-ai/pinta-agent/hook/verdict"
)

// sayVerdict says on the span what the guard decided (hook.md 6).
func sayVerdict(s *span.Span, v *verdict.Verdict, rtt time.Duration, kind event.Kind, m *redact.Masker) {
	s.Say("pinta.guard.decision", strings.ToLower(string(v.Decision)))
	if d, ok := span.ValueOf([]byte(v.Duration)); ok {
		s.SayValue("pinta.guard.duration_ms", d)
	}
	s.Say("pinta.guard.matched_rule", verdict.Tidy(m.Text, v.Reason))
	s.Say("pinta.guard.fail_open_reason", v.FailOpen)
	s.Say("pinta.guard.evaluation_id", verdict.Tidy(m.Text, v.EvaluationID))
	s.SayValue("pinta.client.rtt_ms", span.IntValue(rtt.Milliseconds()))
	s.Say("pinta.client.op", "guard")
	if kind == event.PostToolUse {
		s.Say("pinta.guard.target", "tool_output")
	}
}
