package span

import (
	"strings"

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

// Redact replaces secrets and, wherever they stand, the values that m masks.
func (s *Span) Redact(m *redact.Masker) {
	for i := range s.Attrs {
		if a := &s.Attrs[i]; a.From == "" {
			a.Value.Text = m.Hide(a.Value.Text)
		}
	}
	s.rewrite(m, 0)
}

// cleanResource redacts what the resource says of a host that may have said anything.
func (s *Span) cleanResource(m *redact.Masker, rules redact.Rules) {
	for i := range s.Resource {
		switch a := &s.Resource[i]; a.Key {
		case "service.version", "process.owner", "host.name":
			a.Value.Text = m.Clean(a.Value.Text, rules)
		}
	}
}

// Judged returns a copy of the span with secrets replaced as far as the guard
// need not see them (hook.md 4.1): the form that leaves the machine by TCP.
func (s *Span) Judged() *Span {
	c := *s
	c.Attrs = append([]Attr(nil), s.Attrs...)
	c.Resource = append([]Attr(nil), s.Resource...)
	c.rewrite(redact.NewMasker(nil), redact.Judged)
	return &c
}

func (s *Span) rewrite(m *redact.Masker, rules redact.Rules) {
	s.cleanResource(m, rules)
	renamed := false
	for i := range s.Attrs {
		a := &s.Attrs[i]
		if a.From == "" {
			continue
		}
		// The payload's key by itself: the prefix would hide where it begins.
		key := strings.TrimPrefix(a.Key, prefix)
		if clean := m.Clean(key, rules); clean != key {
			a.Key, renamed = prefix+clean, true
		}
		a.rewrite(m, rules)
	}
	if renamed {
		s.distinct()
	}
}

// unreadable stands for a value whose redaction failed: it can neither be sent
// as it is nor cost the guard its question.
const unreadable = "[REDACTED:error]"

func (a *Attr) rewrite(m *redact.Masker, rules redact.Rules) {
	defer func() {
		if recover() != nil {
			a.Value = Value{String, unreadable}
		}
	}()
	if event.IsInput(a.From) || event.IsOutput(a.From) {
		rules |= redact.Tool
	}
	switch v := &a.Value; v.Kind {
	case JSON: // JSON text is cleaned within its strings, and stays JSON
		v.Text = m.Clean(v.Text, rules)
	case String:
		if a.identifies() {
			v.Text = m.Hide(v.Text)
		} else {
			v.Text = m.Clean(v.Text, rules)
		}
	default: // a number that was detected is no number any more
		if text := m.Hide(v.Text); text != v.Text {
			*v = Value{String, text}
		}
	}
}

// identifies says whether the attribute is a string that is never redacted.
func (a *Attr) identifies() bool {
	for _, key := range identifiers {
		if a.From == key {
			return true
		}
	}
	return false
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
