package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/pinta-ai/pinta-agent/guard/shell"
	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// Event is one call or one output to be judged, the same for every host's
// spelling of it. Build it by EventFromSpan or EventFromPayload.
type Event struct {
	Kind     string // PreToolUse, PermissionRequest, PostToolUse; others are not judged
	Surface  string // cli, ext, cloud
	HostTool string // the tool as the host spells it
	Input    map[string]any
	Text     string // every string of the input, in its order, one a line
	Output   string // the text that the tool's result puts before the model
	Cwd      string
	Model    string
	Session  string
	Source   string // pinta.hook.source: user, machine or empty

	// Set by the caller, never from what the event claims.
	User string // the kernel's view of who called
	Host string // the machine's name

	// Redacted says that the span came over TCP, where the hook has put markers
	// for what it took for secrets.
	Redacted bool

	guarded bool
	keys    []string         // keys of the input's objects
	named   []string         // values under keys that hold a path
	objects []map[string]any // each input that is an object; Input joins them
	scripts []string         // what a shell would run
	size    int

	commands []*shell.Command // parsed on first use
	parsed   bool
	limited  bool // more may run than commands lists
	paths    []string
	writes   []string
	resolved bool
}

// ErrOldForm is the protocol's former request form: a top-level input instead
// of resourceSpans. It is answered with 410.
var ErrOldForm = errors.New("the request has the protocol's old form; send an OTLP span")

var errNoSpan = errors.New("the request is no OTLP JSON with one span of a hook")

const maxInputDepth = 200 // of a tool's input; deeper parts count as text

// EventFromSpan reads the guard question of hook.md 4.1: OTLP JSON with one span.
func EventFromSpan(body []byte) (*Event, error) {
	if end, err := rawjson.Value(body, 0); err != nil || len(bytes.TrimSpace(body[end:])) > 0 || !rawjson.Depth(body, maxInputDepth) {
		return nil, errNoSpan
	}
	top := object2map(body)
	if top["resourceSpans"] == nil {
		if top["input"] != nil {
			return nil, ErrOldForm
		}
		return nil, errNoSpan
	}
	resource := first(top["resourceSpans"])
	span := first(object2map(first(object2map(resource)["scopeSpans"]))["spans"])
	if span == nil {
		return nil, errNoSpan
	}
	e := &event.Event{}
	out := &Event{}
	hook := false
	err := attributes(object2map(span)["attributes"], func(key string, value []byte) {
		name, ours := strings.CutPrefix(key, "copilot.")
		switch {
		case !ours:
		case name == "hook":
			e.Name, _ = rawjson.Unquote(value)
			hook = true
		case name == "surface":
			out.Surface, _ = rawjson.Unquote(value)
		default:
			if event.IsOutput(name) && name != "tool_response" {
				if text, ok := rawjson.Unquote(value); ok && rawjson.Kind([]byte(text)) == '{' && rawjson.Valid([]byte(text)) {
					value = []byte(text)
				}
			}
			e.Members = append(e.Members, rawjson.Member{Key: name, Value: value})
		}
	})
	if err != nil || !hook {
		return nil, errNoSpan
	}
	e.Kind = event.KindOf(e.Name)
	if r := object2map(resource)["resource"]; r != nil {
		_ = attributes(object2map(r)["attributes"], func(key string, value []byte) {
			if key == "pinta.hook.source" {
				out.Source, _ = rawjson.Unquote(value)
			}
		})
	}
	out.fill(e)
	return out, nil
}

// EventFromPayload reads a host's own payload, as the hook gets it on stdin, or
// a guard question. binding is the event's name where the payload has none.
func EventFromPayload(data []byte, binding string) (*Event, error) {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if object2map(data)["resourceSpans"] != nil {
		return EventFromSpan(data)
	}
	e, err := event.Parse(data, binding)
	if err != nil {
		return nil, errors.New("the event is no JSON object")
	}
	if e.Name == "" { // camelCase tool payloads have no name: their members tell
		switch {
		case e.Tool() == "":
		case e.Raw("error") != nil:
			e.Name = "PostToolUseFailure"
		case slices.ContainsFunc(e.Members, func(m rawjson.Member) bool { return event.IsOutput(m.Key) }):
			e.Name = "PostToolUse"
		default:
			e.Name = "PreToolUse"
		}
		e.Kind = event.KindOf(e.Name)
	}
	out := &Event{Surface: string(event.CLI)}
	if e.Raw("tool_response") != nil {
		out.Surface = string(event.Ext)
	}
	out.fill(e)
	return out, nil
}

func (ev *Event) fill(e *event.Event) {
	switch e.Kind {
	case event.PreToolUse:
		ev.Kind = "PreToolUse"
	case event.PermissionRequest:
		ev.Kind = "PermissionRequest"
	case event.PostToolUse:
		ev.Kind = "PostToolUse"
	default:
		ev.Kind = e.Name
	}
	ev.guarded = e.Guarded()
	ev.HostTool, ev.Session = e.Tool(), e.Session()
	ev.Cwd, _ = e.String("cwd")
	ev.Model, _ = e.String("model")
	ev.Input = map[string]any{}
	var b strings.Builder
	for _, m := range e.Members {
		if event.IsInput(m.Key) {
			ev.addInput(m.Value, &b)
		}
	}
	ev.Text = strings.TrimSuffix(b.String(), "\n")
	if e.Kind == event.PostToolUse {
		ev.Output, _ = e.Output()
	}
	ev.size = len(ev.Text) + len(ev.Output)
	ev.scripts = ev.runs()
}

// addInput takes an object, or JSON text of one: they mean the same. Any other
// text is the input itself (a patch).
func (ev *Event) addInput(raw []byte, b *strings.Builder) {
	if rawjson.Kind(raw) == '"' {
		if text, ok := rawjson.Unquote(raw); ok {
			raw = []byte(text)
		}
	}
	trimmed := bytes.TrimSpace(raw)
	if rawjson.Kind(trimmed) != '{' || !rawjson.Valid(trimmed) {
		b.Write(raw)
		b.WriteByte('\n')
		return
	}
	ev.strings("", trimmed, 0, b)
	if rawjson.Depth(trimmed, maxInputDepth) {
		var object map[string]any
		if json.Unmarshal(trimmed, &object) == nil {
			ev.objects = append(ev.objects, object)
			for k, v := range object {
				if _, taken := ev.Input[k]; !taken {
					ev.Input[k] = v
				}
			}
		}
	}
}

// strings writes every string below a value.
func (ev *Event) strings(key string, raw []byte, depth int, b *strings.Builder) {
	switch rawjson.Kind(raw) {
	case '"':
		if s, ok := rawjson.Unquote(raw); ok {
			if pathKey(key) {
				ev.named = append(ev.named, s)
			}
			b.WriteString(s)
			b.WriteByte('\n')
		}
	case '{':
		members, err := rawjson.Members(raw)
		if err != nil || depth > maxInputDepth {
			b.Write(raw)
			b.WriteByte('\n')
			return
		}
		for _, m := range members {
			ev.keys = append(ev.keys, m.Key)
			ev.strings(m.Key, m.Value, depth+1, b)
		}
	case '[':
		elements, err := rawjson.Elements(raw)
		if err != nil || depth > maxInputDepth {
			b.Write(raw)
			b.WriteByte('\n')
			return
		}
		for _, el := range elements {
			ev.strings(key, el, depth+1, b)
		}
	}
}

func pathKey(key string) bool {
	switch key {
	case "path", "file_path", "filePath", "notebook_path", "notebookPath", "dirPath", "directory", "dir", "file", "filename", "fileName",
		"uri", "target_file", "old_path", "new_path", "oldPath", "newPath", "paths", "files", "filePaths", "source", "destination", "absolute_path":
		return true
	}
	return false
}

// runs are the texts that a shell would get: the command of a shell tool, or of
// an MCP tool that has one.
func (ev *Event) runs() (scripts []string) {
	tool := canonicalTool(ev.HostTool, nil)
	if tool != "shell" && !strings.HasPrefix(tool, "mcp:") {
		return nil
	}
	keys := []string{"command", "cmd", "script", "commandLine", "command_line"}
	if tool == "shell" {
		keys = append(keys, "input", "text")
	}
	for _, object := range ev.objects {
		for _, k := range keys {
			if script, ok := commandText(object[k]); ok {
				scripts = append(scripts, script)
			}
		}
	}
	if tool == "shell" && len(scripts) == 0 && ev.Text != "" {
		scripts = []string{ev.Text}
	}
	return scripts
}

// commandText is a command as one string, or as a list of words.
func commandText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []any:
		var words []string
		for _, w := range v {
			if s, ok := w.(string); ok {
				words = append(words, "'"+strings.ReplaceAll(s, "'", `'\''`)+"'")
			}
		}
		return strings.Join(words, " "), true
	}
	return "", false
}

// Commands is what the call would run, parsed on first use.
func (ev *Event) Commands(ctx context.Context) []*shell.Command {
	if ev.parsed {
		return ev.commands
	}
	ev.parsed = true
	for _, script := range ev.scripts {
		var parsed shell.Script
		if powershellTools[ev.HostTool] {
			parsed = shell.PowerShell(ctx, script)
		} else {
			parsed = shell.Posix(ctx, script)
			if parsed.Partial && ev.Surface == string(event.Ext) { // a terminal of VS Code on Windows is PowerShell
				parsed.Commands = append(parsed.Commands, shell.PowerShell(ctx, script).Commands...)
			}
		}
		ev.commands = append(ev.commands, parsed.Commands...)
		ev.limited = ev.limited || parsed.Limited
	}
	return ev.commands
}

func object2map(raw []byte) map[string][]byte {
	if rawjson.Kind(raw) != '{' {
		return nil
	}
	members, err := rawjson.Members(raw)
	if err != nil {
		return nil
	}
	m := make(map[string][]byte, len(members))
	for _, x := range members {
		m[x.Key] = x.Value
	}
	return m
}

func first(raw []byte) []byte {
	if rawjson.Kind(raw) != '[' {
		return nil
	}
	if list, err := rawjson.Elements(raw); err == nil && len(list) > 0 {
		return list[0]
	}
	return nil
}

// attributes calls do with each attribute's key and its value as JSON: strings
// as they are quoted, numbers and booleans as they stand.
func attributes(raw []byte, do func(key string, value []byte)) error {
	if rawjson.Kind(raw) != '[' {
		return errNoSpan
	}
	list, err := rawjson.Elements(raw)
	if err != nil {
		return errNoSpan
	}
	for _, a := range list {
		m := object2map(a)
		key, ok := rawjson.Unquote(m["key"])
		value := object2map(m["value"])
		if !ok || value == nil {
			continue
		}
		for _, kind := range [...]string{"stringValue", "intValue", "doubleValue", "boolValue"} {
			if v := value[kind]; v != nil {
				do(key, v)
				break
			}
		}
	}
	return nil
}
