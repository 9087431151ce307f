package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

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
	Text     string // every string and long number of the input, in its order, one a line
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
	decided atomic.Pointer[rule] // as soon as it is: what is told of it costs time
	keys    []string             // keys of the input's objects
	named   []string             // values under keys that hold a path
	objects [][]byte             // each input that is an object, as JSON
	input   map[string]any
	scripts []string // what a shell would run
	size    int

	commands []*shell.Command // parsed on first use
	parsed   bool
	room     *shell.Room // of commands
	limited  bool        // more may run than commands lists
	paths    []string
	writes   []string
	resolved bool
}

// ErrOldForm is the protocol's former request form: a top-level input instead
// of resourceSpans. It is answered with 410.
var ErrOldForm = errors.New("the request has the protocol's old form; send an OTLP span")

var errNoSpan = errors.New("the request is no OTLP JSON with one span of a hook")

// maxInputDepth is how deep a tool's input is read. What lies deeper is text,
// and no member of input; what stands beside it is read all the same.
const maxInputDepth = 200

// EventFromSpan reads the guard question of hook.md 4.1: OTLP JSON with one span.
func EventFromSpan(body []byte) (*Event, error) {
	if !rawjson.Depth(body, maxInputDepth) || rawjson.Kind(body) != '{' || !rawjson.Valid(body) {
		return nil, errNoSpan
	}
	e, out := &event.Event{}, &Event{}
	spans, oldForm, hook, more := 0, false, false, false
	readQuestion(body, questionReader{
		more:  func() { more = true },
		other: func(key string) { oldForm = key == "input" || oldForm && key != "resourceSpans" },
		resource: func(a attribute) {
			if a.key == "pinta.hook.source" {
				out.Source, _ = rawjson.Unquote(a.value)
			}
		},
		span:      func() { spans++ },
		member:    func(string, []byte) {},
		attribute: func(a attribute) { hook = spanAttribute(e, out, a.key, a.value) || hook },
	})
	switch {
	case spans == 0 && oldForm:
		return nil, ErrOldForm
	case spans != 1 || more || !hook || e.Name == "": // of several only one would be judged, unseen
		return nil, errNoSpan
	}
	e.Kind = event.KindOf(e.Name)
	out.fill(e)
	return out, nil
}

// spanAttribute takes one attribute and says whether it names the event.
func spanAttribute(e *event.Event, out *Event, key string, value []byte) bool {
	name, ours := strings.CutPrefix(key, "copilot.")
	switch {
	case !ours:
	case name == "hook":
		e.Name, _ = rawjson.Unquote(value)
		return true
	case name == "surface":
		out.Surface, _ = rawjson.Unquote(value)
	default:
		if event.IsOutput(name) && name != "tool_response" { // the span holds an object as its JSON text
			if text, ok := appendUnquoted(nil, value); ok && rawjson.Kind(text) == '{' && rawjson.Valid(text) {
				value = text
			}
		}
		e.Members = append(e.Members, rawjson.Member{Key: name, Value: value})
	}
	return false
}

func position(fault error) string {
	var syntax *json.SyntaxError
	if !errors.As(fault, &syntax) {
		return ""
	}
	return fmt.Sprintf(" (at byte %d)", syntax.Offset)
}

// EventFromPayload reads a host's own payload, as the hook gets it on stdin, or
// a guard question. binding is the event's name where the payload has none.
func EventFromPayload(data []byte, binding string) (*Event, error) {
	data = bytes.TrimSpace(event.Decode(data))
	if ev, err := EventFromSpan(data); err == nil {
		return ev, nil
	}
	e, err := event.Parse(data, binding)
	if err != nil {
		if fault := json.Unmarshal(data, new(any)); fault != nil {
			return nil, fmt.Errorf("the event is no JSON: %w%s", fault, position(fault))
		}
		return nil, errors.New("the event is no JSON object")
	}
	if e.Name == "" && e.Tool() == "" {
		return nil, errors.New("the event has no name and no tool: it is no payload of a hook, or its name has to be given")
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
	tool := canonicalTool(ev.HostTool, nil)
	var scriptKeys []string
	switch {
	case tool == "shell":
		scriptKeys = []string{"command", "cmd", "script", "commandLine", "command_line", "input", "text"}
	case strings.HasPrefix(tool, "mcp:"):
		scriptKeys = []string{"command", "cmd", "script", "commandLine", "command_line"}
	}
	in := &inputs{ev: ev, scriptKeys: scriptKeys}
	for _, m := range e.Members {
		if event.IsInput(m.Key) {
			in.add(m.Value)
		}
	}
	// in.text is written no more: a copy of it would be most of what a long
	// command leaves behind.
	ev.Text = strings.TrimSuffix(unsafe.String(unsafe.SliceData(in.text), len(in.text)), "\n")
	for _, part := range in.scripts {
		ev.scripts = append(ev.scripts, ev.Text[part.from:part.to])
	}
	ev.scripts = append(ev.scripts, in.lists...)
	if tool == "shell" && len(ev.scripts) == 0 && ev.Text != "" {
		ev.scripts = []string{ev.Text}
	}
	if e.Kind == event.PostToolUse {
		ev.Output, _ = e.Output()
	}
	ev.size = len(ev.Text) + len(ev.Output)
}

// inputs gathers what an event's inputs say. The strings under scriptKeys are
// what a shell would get: the command of a shell tool, or of an MCP tool that
// has one.
type inputs struct {
	ev         *Event
	scriptKeys []string
	text       []byte
	scripts    []struct{ from, to int } // of text
	lists      []string                 // scripts that came as lists of words
}

// add takes an object, or JSON text of one: they mean the same. Any other text
// is the input itself (a patch).
func (in *inputs) add(raw []byte) {
	if rawjson.Kind(raw) == '"' {
		if text, ok := appendUnquoted(nil, raw); ok {
			raw = text
		}
	}
	in.text = slices.Grow(in.text, len(raw)+1)
	trimmed := bytes.TrimSpace(raw)
	if rawjson.Kind(trimmed) != '{' || !rawjson.Valid(trimmed) {
		in.text = append(append(in.text, raw...), '\n')
		return
	}
	in.ev.objects = append(in.ev.objects, shallow(trimmed))
	c := &cursor{data: trimmed}
	c.object(func(key string) {
		in.ev.keys = append(in.ev.keys, key)
		from, kind, at := len(in.text), c.kind(), c.pos
		in.strings(key, c, 2)
		if !slices.Contains(in.scriptKeys, key) {
			return
		}
		switch kind {
		case '"':
			in.scripts = append(in.scripts, struct{ from, to int }{from, len(in.text) - 1})
		case '[':
			in.lists = append(in.lists, commandWords(c.data[at:c.pos]))
		}
	})
}

// strings takes every string below a value, which stands at a depth.
func (in *inputs) strings(key string, c *cursor, depth int) {
	switch kind := c.kind(); {
	case kind == '"':
		from := len(in.text)
		in.text, _ = appendUnquoted(in.text, c.skip()) // valid JSON
		if pathKey(key) {
			in.ev.named = append(in.ev.named, string(in.text[from:]))
		}
		in.text = append(in.text, '\n')
	case (kind == '{' || kind == '[') && depth > maxInputDepth:
		in.text = append(append(in.text, c.skip()...), '\n')
	case kind == '{':
		c.object(func(key string) {
			in.ev.keys = append(in.ev.keys, key)
			in.strings(key, c, depth+1)
		})
	case kind == '[':
		c.array(func() { in.strings(key, c, depth+1) })
	default:
		if v := c.skip(); len(v) >= longNumber { // no true, false or null
			in.text = append(append(in.text, v...), '\n')
		}
	}
}

// longNumber is how many characters of a number name something, a card or a
// person, as a string does.
const longNumber = 12

// shallow is an object without the members that are too deep.
func shallow(object []byte) []byte {
	if rawjson.Depth(object, maxInputDepth) {
		return object
	}
	kept := []byte{'{'}
	rawjson.Walk(object, func(key, value []byte) {
		if !rawjson.Depth(value, maxInputDepth-1) {
			return
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(append(append(kept, key...), ':'), value...)
	})
	return append(kept, '}')
}

// Unjudged says why no rule is asked about an event; empty if rules are.
func (ev *Event) Unjudged() string {
	switch {
	case ev.guarded:
		return ""
	case ev.Kind == "PreToolUse" || ev.Kind == "PermissionRequest" || ev.Kind == "PostToolUse":
		return cut(ev.HostTool, 40) + " is a tool of the host's own, which is never judged"
	case ev.Kind == "":
		return "an event without a name is not judged"
	}
	return "an event " + cut(ev.Kind, 40) + " is not judged; PreToolUse, PermissionRequest and PostToolUse are"
}

// Input is the tool's input as a condition sees it, decoded on first use: of
// several inputs the first that has a key gives its value.
func (ev *Event) Input() map[string]any {
	if ev.input != nil {
		return ev.input
	}
	ev.input = map[string]any{}
	for _, raw := range ev.objects {
		var object map[string]any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if d.Decode(&object) != nil {
			continue
		}
		double(object)
		for k, v := range object {
			if _, taken := ev.input[k]; !taken {
				ev.input[k] = v
			}
		}
	}
	return ev.input
}

// double makes every number below v the double that hosts take it for: one out
// of range is infinite, and costs the values beside it nothing.
func double(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, _ := strconv.ParseFloat(string(v), 64)
		return f
	case map[string]any:
		for k, e := range v {
			v[k] = double(e)
		}
	case []any:
		for i, e := range v {
			v[i] = double(e)
		}
	}
	return v
}

func pathKey(key string) bool {
	switch key {
	case "path", "file_path", "filePath", "notebook_path", "notebookPath", "dirPath", "directory", "dir", "file", "filename", "fileName",
		"uri", "target_file", "old_path", "new_path", "oldPath", "newPath", "paths", "files", "filePaths", "source", "destination", "absolute_path":
		return true
	}
	return false
}

// commandWords is a command that comes as a list of words.
func commandWords(list []byte) string {
	elements, _ := rawjson.Elements(list)
	var words []string
	for _, w := range elements {
		if s, ok := rawjson.Unquote(w); ok {
			words = append(words, "'"+strings.ReplaceAll(s, "'", `'\''`)+"'")
		}
	}
	return strings.Join(words, " ")
}

// Commands is what the call would run, parsed on first use.
func (ev *Event) Commands(ctx context.Context) []*shell.Command {
	if ev.parsed || len(ev.scripts) == 0 {
		return ev.commands
	}
	ev.parsed = true
	ev.room = rooms.Get().(*shell.Room)
	for _, script := range ev.scripts {
		if powershellTools[ev.HostTool] {
			ev.take(shell.PowerShell(ctx, script, ev.room))
			continue
		}
		parsed := shell.Posix(ctx, script, ev.room)
		ev.take(parsed)
		if parsed.Partial && ev.Surface == string(event.Ext) { // a terminal of VS Code on Windows is PowerShell
			ev.take(shell.PowerShell(ctx, script, ev.room))
		}
	}
	return ev.commands
}

func (ev *Event) take(s shell.Script) {
	if ev.commands == nil {
		ev.commands = s.Commands
	} else {
		ev.commands = append(ev.commands, s.Commands...)
	}
	ev.limited = ev.limited || s.Limited
}

// rooms are shared between events: the commands of one long script after the
// other would have the collector run all the time.
var rooms = sync.Pool{New: func() any { return new(shell.Room) }}

// release gives the memory of the commands back; nobody may hold one any more.
func (ev *Event) release() {
	if ev.room == nil {
		return
	}
	ev.room.Clear()
	rooms.Put(ev.room)
	ev.room, ev.commands, ev.parsed = nil, nil, false
	ev.paths, ev.writes, ev.resolved = nil, nil, false // with the commands' targets
}
