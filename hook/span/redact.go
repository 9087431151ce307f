package span

import (
	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/redact"
)

// identifiers are the payload keys whose top-level strings are never redacted
// (hook.md 7), in both spellings.
var identifiers = [...]string{
	"tool_name", "tool_use_id", "session_id", "transcript_path", "cwd", "permission_mode",
	"agent_id", "agent_type", "agent_name", "agent_display_name", "stop_reason", "notification_type",
	"toolName", "toolUseId", "sessionId", "transcriptPath", "permissionMode",
	"agentId", "agentType", "agentName", "agentDisplayName", "stopReason", "notificationType",
}

// fixed says whether the attribute is never redacted: what the hook itself
// says, and identifiers.
func (a *Attr) fixed() bool {
	if a.From == "" {
		return true
	}
	if a.Value.Kind != String {
		return false
	}
	for _, key := range identifiers {
		if a.From == key {
			return true
		}
	}
	return false
}

// Redact replaces secrets in keys and values.
func (s *Span) Redact() { s.rewrite(0) }

// Judged returns a copy of the span with secrets replaced as far as the guard
// need not see them (hook.md 4.1): the form that leaves the machine by TCP.
func (s *Span) Judged() *Span {
	c := *s
	c.Attrs = append([]Attr(nil), s.Attrs...)
	c.rewrite(redact.Judged)
	return &c
}

func (s *Span) rewrite(rules redact.Rules) {
	renamed := false
	for i := range s.Attrs {
		a := &s.Attrs[i]
		if a.From == "" {
			continue
		}
		if key := rules.Text(a.Key); key != a.Key {
			a.Key, renamed = key, true
		}
		if !a.fixed() {
			a.redact(rules)
		}
	}
	if renamed {
		s.distinct()
	}
}

// unreadable stands for a value whose redaction failed: it can neither be sent
// as it is nor cost the guard its question.
const unreadable = "[REDACTED:error]"

func (a *Attr) redact(rules redact.Rules) {
	defer func() {
		if recover() != nil {
			a.Value = Value{String, unreadable}
		}
	}()
	if event.IsInput(a.From) || event.IsOutput(a.From) {
		rules |= redact.Tool
	}
	switch a.Value.Kind {
	case String:
		a.Value.Text = rules.Text(a.Value.Text)
	case JSON:
		a.Value.Text = string(rules.JSON([]byte(a.Value.Text)))
	}
}

// distinct makes keys unique again that redaction has made equal.
func (s *Span) distinct() {
	seen := make(map[string]struct{}, len(s.Attrs))
	for i := range s.Attrs {
		for {
			if _, taken := seen[s.Attrs[i].Key]; !taken {
				break
			}
			s.Attrs[i].Key += "_"
		}
		seen[s.Attrs[i].Key] = struct{}{}
	}
}
