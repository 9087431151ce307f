package model

import (
	"bytes"
	"strings"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// claude maps a name that PascalCase registrations see to the runtime's own, where they differ by more than case and
// underscores (host.md). No map: its making would cost every run three page faults.
func claude(event string) string {
	switch event {
	case "Read":
		return "view"
	case "Write":
		return "create"
	case "Agent":
		return "task"
	case "AskUserQuestion":
		return "ask_user"
	case "TodoWrite":
		return "update_todo"
	}
	return ""
}

// sameTool compares the runtime's name of a tool with the event's.
func sameTool(runtime, event string) bool {
	if runtime == event && runtime != "" {
		return true
	}
	if claude(event) == runtime && runtime != "" || event == "Bash" && runtime == "powershell" {
		return true
	}
	// Bash, Edit, Grep, Glob, WebFetch, WebSearch
	return event != "" && event[0] >= 'A' && event[0] <= 'Z' && strings.EqualFold(event, strings.ReplaceAll(runtime, "_", ""))
}

// sameArgs compares two tool inputs; either may be the JSON text of the object (up to 1.0.73).
func sameArgs(a, b []byte) bool {
	a, b = object(a), object(b)
	if a == nil || b == nil {
		return false
	}
	for i, j := rawjson.Skip(a, 0), rawjson.Skip(b, 0); ; {
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		ka, ea := rawjson.Token(a, i)
		kb, eb := rawjson.Token(b, j)
		if ka != kb || !bytes.Equal(a[i:ea], b[j:eb]) && !(ka == '"' && sameString(a[i:ea], b[j:eb])) {
			return false
		}
		i, j = rawjson.Skip(a, ea), rawjson.Skip(b, eb)
	}
}

// object returns the text of the object that raw is or holds, nil if there is none.
func object(raw []byte) []byte {
	if rawjson.Kind(raw) == '"' {
		text, ok := rawjson.Unquote(raw)
		if !ok {
			return nil
		}
		raw = []byte(text)
	}
	if rawjson.Kind(raw) != '{' || !rawjson.Valid(raw) {
		return nil
	}
	return raw
}

func sameString(a, b []byte) bool {
	s, ok := rawjson.Unquote(a)
	t, ok2 := rawjson.Unquote(b)
	return ok && ok2 && s == t
}
