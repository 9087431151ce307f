package span

import (
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
)

// Model is what is known about the event's model (hook.md 10). The zero value
// means that nothing is.
type Model struct {
	Name   string
	Source string
	// Displaced is the host's own source that Source replaces.
	Displaced string
}

const prefix = "copilot."

// New makes the span of e with everything but resource, trace and verdict.
func New(e *event.Event, surface event.Surface, m Model, now time.Time) *Span {
	name := e.Name
	if name == "" {
		name = "unknown"
	}
	s := &Span{Name: Name(e.Name), ID: NewID(), Time: now, Attrs: make([]Attr, 0, len(e.Members)+16)}
	s.add("ingest.type", Value{String, "copilot"}, "")
	s.add(prefix+"hook", Value{String, name}, "")
	s.add(prefix+"surface", Value{String, string(surface)}, "")
	keys := newKeys(m)
	placed, sourced := m.Name == "", m.Name == ""
	for i := range e.Members {
		switch key := e.Members[i].Key; {
		case event.IsDiscriminator(key):
		case key == "model":
			if m.Name != "" {
				s.add(prefix+key, Value{String, m.Name}, key)
				placed = true
			}
		case key == "model_source" && m.Name != "":
			s.add(prefix+key, Value{String, m.Source}, key)
			sourced = true
		default:
			if v, ok := ValueOf(e.Members[i].Value); ok {
				s.add(keys.take(key), v, key)
			}
		}
	}
	if !placed {
		s.add(prefix+"model", Value{String, m.Name}, "model")
	}
	if !sourced {
		s.add(prefix+"model_source", Value{String, m.Source}, "model_source")
	}
	if m.Displaced != "" {
		s.add(prefix+"model_original_source", Value{String, m.Displaced}, "model_source")
	}
	return s
}

// add appends an attribute. It stays a call: inlined, each would have a
// temporary of its own in the caller's frame, and a stack that grows costs a
// run ten page faults.
//
//go:noinline
func (s *Span) add(key string, v Value, from string) {
	s.Attrs = append(s.Attrs, Attr{Key: key, Value: v, From: from})
}

// Say appends what the hook itself says on the span; nothing is not said.
func (s *Span) Say(key, text string) {
	if text != "" {
		s.add(key, Value{String, text}, "")
	}
}

// SayValue is Say for any kind of value.
func (s *Span) SayValue(key string, v Value) { s.add(key, v, "") }

// keys hands out attribute keys, each once.
type keys map[string]struct{}

func newKeys(m Model) keys {
	k := keys{prefix + "hook": {}, prefix + "surface": {}, prefix + "model": {}}
	if m.Name != "" {
		k[prefix+"model_source"] = struct{}{}
	}
	if m.Displaced != "" {
		k[prefix+"model_original_source"] = struct{}{}
	}
	return k
}

func (k keys) take(key string) string {
	full := prefix + key
	if _, taken := k[full]; taken {
		full = prefix + "payload." + key
		for taken {
			if _, taken = k[full]; taken {
				full += "_"
			}
		}
	}
	k[full] = struct{}{}
	return full
}

// maxName is the length of a span name in bytes.
const maxName = 128

// Name is copilot. and the event's name in snake case (hook.md 6).
func Name(name string) string {
	if name == "" {
		return prefix + "unknown"
	}
	b := make([]byte, 0, maxName)
	b = append(b, prefix...)
	var last rune
	for _, r := range name {
		if len(b) >= maxName {
			break
		}
		upper := 'A' <= r && r <= 'Z'
		switch {
		case upper && ('a' <= last && last <= 'z' || '0' <= last && last <= '9'):
			b = append(b, '_', byte(r|0x20))
		case upper:
			b = append(b, byte(r|0x20))
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			b = append(b, byte(r))
		default:
			b = append(b, '_')
		}
		last = r
	}
	return string(b[:min(len(b), maxName)])
}

// Host is what the resource says about host and process.
type Host struct {
	Version string // of the Copilot client; "" if unknown
	PID     int
	Owner   string
	Name    string
	Arch    string // as runtime.GOARCH spells it
	Source  string // PINTA_COPILOT_SOURCE
	SDK     string // our own version
}

// Describe sets the resource of s.
func (h *Host) Describe(s *Span) {
	r := &Span{Attrs: make([]Attr, 0, 10)}
	r.Say("service.name", "copilot")
	r.Say("service.version", h.Version)
	r.Say("telemetry.sdk.name", ScopeName)
	r.Say("telemetry.sdk.language", "go")
	r.Say("telemetry.sdk.version", h.SDK)
	r.SayValue("process.pid", IntValue(int64(h.PID)))
	r.Say("process.owner", h.Owner)
	r.Say("host.name", h.Name)
	r.Say("host.arch", arch(h.Arch))
	r.Say("pinta.hook.source", h.Source)
	for i := range r.Attrs {
		if v := &r.Attrs[i].Value; len(v.Text) > maxResource {
			v.Text = cutRunes(v.Text, maxResource)
		}
	}
	s.Resource = r.Attrs
}

// maxResource keeps the resource so small that a span of MaxSpan fits a POST.
const maxResource = 1 << 10

// arch spells an architecture as OpenTelemetry does.
func arch(goarch string) string {
	switch goarch {
	case "386":
		return "x86"
	case "arm":
		return "arm32"
	case "ppc64le":
		return "ppc64"
	}
	return goarch
}

// HostVersion returns the Copilot client's version: what the payload says,
// else what the variables that get finds say. "" if unknown.
func HostVersion(e *event.Event, get func(string) string) string {
	for _, key := range [...]string{"copilot_version", "copilotVersion", "cli_version", "cliVersion", "version"} {
		if s, ok := e.String(key); ok && usableVersion(s) {
			return strings.TrimSpace(s)
		}
	}
	for _, key := range [...]string{"COPILOT_CLI_BINARY_VERSION", "COPILOT_CLI_VERSION"} {
		if s := get(key); usableVersion(s) {
			return strings.TrimSpace(s)
		}
	}
	// …/pkg/linux-x64/1.0.102
	dir, version := get("COPILOT_CLI_RESOLVED_DIST_DIR"), ""
	for part := range strings.FieldsFuncSeq(dir, func(r rune) bool { return r == '/' || r == '\\' }) {
		if looksLikeVersion(part) {
			version = part // the last: a folder further up may be called so, too
		}
	}
	return version
}

func usableVersion(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "unknown", "undefined", "null", "nil", "none", "n/a", "na", "dev", "latest", "0.0.0":
		return false
	}
	return true
}

func looksLikeVersion(s string) bool {
	s = strings.TrimPrefix(s, "v")
	return s != "" && '0' <= s[0] && s[0] <= '9' && strings.IndexByte(s, '.') > 0
}
