package verdict

import (
	"strconv"
	"strings"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/rawjson"
	"github.com/pinta-ai/pinta-agent/hook/redact"
)

// Decision is what the guard decided.
type Decision string

const (
	Allow  Decision = "ALLOW"
	Deny   Decision = "DENY"
	Review Decision = "REVIEW"
)

// Reasons for letting a call pass unjudged.
const (
	Timeout = "timeout"
	Refused = "refused"
	Fault   = "error"
)

// Verdict is the guard's answer. Strings are "" when absent.
type Verdict struct {
	Decision     Decision
	Reason       string
	UserMessage  string
	Duration     string // the guard's own milliseconds, as a JSON number; "" if absent
	FailOpen     string
	EvaluationID string
	// Mask says that the answer asked for masking and that Redactions are
	// sound; otherwise a denied output is withheld.
	Mask       bool
	Redactions []redact.Redaction
}

func open(reason string) *Verdict { return &Verdict{Decision: Allow, FailOpen: reason} }

// decode reads an answer's body (hook.md 4.3). Fields of a wrong type count as
// absent; nil means that it is no answer.
func decode(body []byte) *Verdict {
	body = event.Decode(body)
	end, err := rawjson.Value(body, 0)
	if err != nil || rawjson.Kind(body) != '{' {
		return nil
	}
	members, err := rawjson.Members(body[:end])
	if err != nil {
		return nil
	}
	v := &Verdict{}
	action, list := "", []byte(nil)
	for _, m := range members { // of repeated keys the last counts
		switch m.Key {
		case "decision":
			v.Decision = Decision(text(m.Value))
		case "reason":
			v.Reason = text(m.Value)
		case "userMessage":
			v.UserMessage = text(m.Value)
		case "durationMs":
			v.Duration = duration(m.Value)
		case "failOpenReason":
			v.FailOpen = failOpen(text(m.Value))
		case "evaluationId":
			v.EvaluationID = text(m.Value)
		case "outputAction":
			action = text(m.Value)
		case "redactions":
			list = m.Value
		}
	}
	switch v.Decision {
	case Allow, Deny, Review:
	default:
		return nil
	}
	var sound bool
	v.Redactions, sound = redactions(list)
	v.Mask = action == "mask" && sound && len(v.Redactions) > 0
	return v
}

// redactions returns the usable entries, and whether all of them are.
func redactions(list []byte) (out []redact.Redaction, sound bool) {
	if rawjson.Kind(list) != '[' {
		return nil, false
	}
	items, err := rawjson.Elements(list)
	if err != nil {
		return nil, false
	}
	sound = true
	for _, item := range items {
		var value, category []byte
		if rawjson.Kind(item) == '{' {
			members, _ := rawjson.Members(item)
			for _, m := range members {
				switch m.Key {
				case "value":
					value = m.Value
				case "category":
					category = m.Value
				}
			}
		}
		r := redact.Redaction{Value: text(value), Category: text(category)}
		if r.Value == "" || rawjson.Kind(category) != '"' {
			sound = false
		}
		if r.Value != "" {
			out = append(out, r)
		}
	}
	return out, sound
}

// text returns a JSON string's text, "" for anything else.
func text(raw []byte) string {
	if rawjson.Kind(raw) != '"' {
		return ""
	}
	s, _ := rawjson.Unquote(raw)
	return s
}

// duration accepts a number that a span can carry.
func duration(raw []byte) string {
	if rawjson.Kind(raw) != '0' || len(raw) > 64 {
		return ""
	}
	s := strings.TrimSpace(string(raw))
	if f, err := strconv.ParseFloat(s, 64); err != nil || f < 0 {
		return ""
	}
	return s
}

func failOpen(s string) string {
	if s == Timeout || s == Refused || s == Fault {
		return s
	}
	return ""
}

// deniesEarly says whether the beginning of an answer that was cut off holds
// a complete top-level "decision":"DENY" (hook.md 4.1).
func deniesEarly(body []byte) bool {
	body = event.Decode(body)
	pos := rawjson.Skip(body, 0)
	if pos >= len(body) || body[pos] != '{' {
		return false
	}
	for pos++; ; pos++ {
		pos = rawjson.Skip(body, pos)
		if pos >= len(body) || body[pos] != '"' {
			return false
		}
		keyEnd, err := rawjson.Value(body, pos)
		if err != nil {
			return false
		}
		key := text(body[pos:keyEnd])
		if pos = rawjson.Skip(body, keyEnd); pos >= len(body) || body[pos] != ':' {
			return false
		}
		pos = rawjson.Skip(body, pos+1)
		end, err := rawjson.Value(body, pos)
		if err != nil {
			return false
		}
		if key == "decision" && Decision(text(body[pos:end])) == Deny {
			return true
		}
		if pos = rawjson.Skip(body, end); pos >= len(body) || body[pos] != ',' {
			return false
		}
	}
}
