// Package event reads one hook event: the JSON object on stdin, its name, its
// kind, the host's surface and the fields that the rest of the hook asks for
// (hook.md 2). It decides nothing and reaches no disk or network.
package event

import (
	"strings"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// Event is one parsed event. It is never nil after Parse succeeded.
type Event struct {
	// Members are the top-level members in payload order; of repeated keys the
	// last value stands where the key stood first.
	Members []rawjson.Member
	// Name is the event's name in its own spelling, "" if nobody gave one.
	Name string
	Kind Kind
}

// Parse reads one JSON object, as Input.Object or Decode returned it. binding
// is the name under which the host registered this run, "" if unknown.
func Parse(data []byte, binding string) (*Event, error) {
	if rawjson.Kind(data) != '{' {
		return nil, ErrNotJSON
	}
	members, err := rawjson.Members(data)
	if err != nil {
		return nil, ErrNotJSON
	}
	e := &Event{Members: lastWins(members)}
	e.Name = e.firstName()
	e.Kind = KindOf(e.Name)
	if binding = strings.TrimSpace(binding); e.Name == "" || e.Kind == Unknown && KindOf(binding).Guarded() {
		e.Name, e.Kind = binding, KindOf(binding)
	}
	return e, nil
}

// fewKeys is how many members are compared pair by pair: quicker than a map,
// which only an unusually wide payload needs.
const fewKeys = 32

func lastWins(in []rawjson.Member) []rawjson.Member {
	out := in[:0:len(in)]
	var at map[string]int
	if len(in) > fewKeys {
		at = make(map[string]int, len(in))
	}
	for _, m := range in {
		i := -1
		if at != nil {
			if j, ok := at[m.Key]; ok {
				i = j
			} else {
				at[m.Key] = len(out)
			}
		} else {
			for j := range out {
				if out[j].Key == m.Key {
					i = j
				}
			}
		}
		if i >= 0 {
			out[i].Value = m.Value
			continue
		}
		out = append(out, m)
	}
	return out
}

// IsDiscriminator says whether key names the event rather than describing it.
func IsDiscriminator(key string) bool {
	return key == "hook_event_name" || key == "hookEventName" || key == "hookName"
}

func (e *Event) firstName() string {
	for _, key := range [...]string{"hook_event_name", "hookEventName", "hookName"} {
		if s, ok := e.String(key); ok {
			if s = strings.TrimSpace(s); s != "" {
				return s
			}
		}
	}
	return ""
}

// Raw returns the value of a top-level key, nil if there is none.
func (e *Event) Raw(key string) []byte {
	for i := range e.Members {
		if e.Members[i].Key == key {
			return e.Members[i].Value
		}
	}
	return nil
}

// String returns the string under key; ok is false for any other value.
func (e *Event) String(key string) (s string, ok bool) {
	raw := e.Raw(key)
	if rawjson.Kind(raw) != '"' {
		return "", false
	}
	return rawjson.Unquote(raw)
}

// first returns the first key that holds a non-blank string.
func (e *Event) first(keys ...string) string {
	for _, key := range keys {
		if s, ok := e.String(key); ok && strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

// Session is the session's id, "" if the payload names none.
func (e *Event) Session() string { return e.first("session_id", "sessionId") }

// Tool is the tool's name as the payload spells it.
func (e *Event) Tool() string { return e.first("tool_name", "toolName") }

// IsInput says whether key holds a tool's input, IsOutput a tool's result.
func IsInput(key string) bool {
	return key == "tool_input" || key == "toolArgs" || key == "toolInput"
}

func IsOutput(key string) bool {
	return key == "tool_result" || key == "toolResult" || key == "tool_response"
}

// IsTool says whether key holds a tool's name, input or result.
func IsTool(key string) bool {
	return key == "tool_name" || key == "toolName" || IsInput(key) || IsOutput(key)
}

// Internal says whether the event is about one of the host's own tools, which
// are never guarded: every tool-name key present has to say so (hook.md 2.4).
func (e *Event) Internal() bool {
	found := false
	for _, key := range [...]string{"tool_name", "toolName"} {
		if e.Raw(key) == nil {
			continue
		}
		s, ok := e.String(key)
		if !ok || s != "report_intent" && s != "ask_user" && s != "AskUserQuestion" {
			return false
		}
		found = true
	}
	return found
}

// Guarded says whether the guard has to be asked about the event.
func (e *Event) Guarded() bool { return e.Kind.Guarded() && !e.Internal() }

// Native says whether the event carries a result in the CLI's own shape.
func (e *Event) Native() bool {
	return e.Raw("tool_result") != nil || e.Raw("toolResult") != nil
}

// Output returns the text that a tool's result puts before the model: the
// text_result_for_llm of a native result, or tool_response. What is no string
// comes as compact JSON. ok is false without a result.
func (e *Event) Output() (text string, ok bool) {
	for _, key := range [...]string{"tool_result", "toolResult"} {
		if raw := e.Raw(key); raw != nil {
			return textOf(innerText(raw)), true
		}
	}
	if raw := e.Raw("tool_response"); raw != nil {
		return textOf(raw), true
	}
	return "", false
}

func innerText(result []byte) []byte {
	if rawjson.Kind(result) == '{' {
		var text []byte
		if members, err := rawjson.Members(result); err == nil {
			for _, m := range members {
				if m.Key == "text_result_for_llm" || m.Key == "textResultForLlm" {
					text = m.Value
				}
			}
		}
		if text != nil {
			return text
		}
	}
	return result
}

func textOf(raw []byte) string {
	if rawjson.Kind(raw) == '"' {
		if s, ok := rawjson.Unquote(raw); ok {
			return s
		}
	}
	return string(rawjson.AppendCompact(nil, raw))
}
