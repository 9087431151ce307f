package installer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Events are the keys of the hook file in the order in which it lists them
// (installer.md 1). PascalCase only: with both spellings every call runs twice.
var Events = []string{"SessionStart", "SessionEnd", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure",
	"PermissionRequest", "Stop", "SubagentStart", "SubagentStop", "PreCompact", "Notification", "ErrorOccurred"}

const (
	owner = "pinta-agent"
	// schema is the version of what we write; a higher one found on disk
	// belongs to a newer agent.
	schema = 1
	// hostTimeout is the limit registered with the host, in seconds.
	hostTimeout = 15
)

// Entry is one registration in a hook file.
type Entry struct {
	Type       string            `json:"type"`
	Bash       string            `json:"bash,omitempty"`
	PowerShell string            `json:"powershell,omitempty"`
	Exec       string            `json:"exec,omitempty"`
	Args       []string          `json:"args,omitempty"`
	Env        map[string]string `json:"env"`
	TimeoutSec int               `json:"timeoutSec"`
	Mark       *mark             `json:"x-pinta,omitempty"` // in policy files only
}

// mark is the x-pinta object, by which we know our own file. It stands at the
// top of a user's file. The CLI skips a policy file with a top-level key that
// it doesn't know, so there every entry carries it.
type mark struct {
	Owner        string `json:"owner"`
	AgentVersion string `json:"agentVersion"`
	Schema       int    `json:"schema"`
}

// registration is what a hook file says, ours or the machine's.
type registration struct {
	Hook    string            // registered path of the hook binary
	Version string            // the agent's
	Source  string            // user or machine
	Env     map[string]string // managed settings, that beat what a terminal exports
}

// shellEnv disarms what a terminal or an .envrc may export to the shell that
// runs the launcher (security.md S17). What a BASH_ENV file prints spoils
// stdout, which the host takes for a denial of permissionRequest; SHELLOPTS=noexec
// or a function that stands in for a builtin of the launcher keeps the hook from
// running. An entry's env beats what is inherited, and a function's variable
// without a body defines none.
var shellEnv = map[string]string{"BASH_ENV": "", "SHELLOPTS": "", "BASH_FUNC_[%%": "", "BASH_FUNC_echo%%": "", "BASH_FUNC_exit%%": ""}

// runtimeEnv disarms what ends or slows a Go program before its main: a
// GOMEMLIMIT or GODEBUG that can't be read is fatal (security.md S17).
var runtimeEnv = map[string]string{"GOMEMLIMIT": "", "GODEBUG": "", "GOGC": ""}

// UserHookFile returns the content of ~/.copilot/hooks/pinta-copilot.json.
func (r registration) userFile() ([]byte, error) {
	return r.render(Entry{Bash: POSIX(r.Hook), PowerShell: PowerShell(r.Hook)})
}

// policyFile returns the content of the machine policy drop-in. On POSIX it
// runs /bin/sh itself, the fewest parts that a terminal could have changed
// (installer.md 2). Windows has no /bin/sh.
func (r registration) policyFile(windows bool) ([]byte, error) {
	own := &mark{owner, r.Version, schema}
	if windows {
		return r.render(Entry{PowerShell: PowerShell(r.Hook), Mark: own})
	}
	return r.render(Entry{Exec: "/bin/sh", Args: []string{"-c", POSIX(r.Hook)}, Mark: own})
}

// render is deterministic: no times, counters or host facts, so that a repair
// with the same config is byte-identical. ASCII only, so that no host's
// decoder matters.
func (r registration) render(e Entry) ([]byte, error) {
	if !utf8.ValidString(r.Hook) {
		return nil, fmt.Errorf("register hook at %q: the path is not UTF-8, which a hook file can't name; set hookDir to another folder", r.Hook)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	put := func(sep, key string, v any) error {
		b.WriteString(sep + strconv.Quote(key) + ":")
		return enc.Encode(v)
	}
	b.WriteByte('{')
	if err := put("", "version", 1); err != nil {
		return nil, err
	}
	if e.Mark == nil {
		if err := put(",", "x-pinta", mark{owner, r.Version, schema}); err != nil {
			return nil, err
		}
	}
	b.WriteString(`,"hooks":`)
	sep := "{"
	for _, event := range Events {
		e.Type, e.TimeoutSec = "command", hostTimeout
		e.Env = map[string]string{"PINTA_COPILOT_EVENT": event, "PINTA_COPILOT_SOURCE": r.Source}
		maps.Copy(e.Env, runtimeEnv)
		maps.Copy(e.Env, r.Env)
		if e.Bash != "" || e.Exec != "" {
			maps.Copy(e.Env, shellEnv)
		}
		if err := put(sep, event, []Entry{e}); err != nil {
			return nil, err
		}
		sep = ","
	}
	b.WriteString("}}")
	var out bytes.Buffer
	if err := json.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	return append(ascii(out.String()), '\n'), nil
}

// ascii escapes what isn't ASCII. In JSON that can only stand in strings.
func ascii(s string) []byte {
	out := make([]byte, 0, len(s)+64)
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		}
	}
	return out
}

// Origin says who wrote the content at our path.
type Origin string

// The origins.
const (
	Ours      Origin = "ours"       // carries our mark, or is what is left of such a file
	OursNewer Origin = "ours-newer" // carries our mark with a schema that we don't know
	OldNode   Origin = "old-node"   // written by the Node adapter that we replace
	Foreign   Origin = "foreign"    // anything else, unparseable content included
)

// oldNode matches the Node adapter's command: node on a dist/index.js.
var oldNode = regexp.MustCompile(`(?i)\bnode(\.exe)?['"]?\s.*\bdist[/\\]+index\.js\b`)

// originOf classifies content. want is what we would write: a beginning of it,
// as a crash or a full disk leaves it, is ours and needs no keeping.
func originOf(content, want []byte) Origin {
	if bytes.HasPrefix(want, content) {
		return Ours
	}
	var f struct {
		Mark  *mark                      `json:"x-pinta"`
		Hooks map[string]json.RawMessage `json:"hooks"`
	}
	if json.Unmarshal(content, &f) != nil {
		return Foreign
	}
	marks := []*mark{f.Mark}
	for _, raw := range f.Hooks {
		var entries []struct {
			Mark *mark `json:"x-pinta"`
		}
		if json.Unmarshal(raw, &entries) == nil {
			for _, e := range entries {
				marks = append(marks, e.Mark)
			}
		}
	}
	highest := -1
	for _, m := range marks {
		if m != nil && m.Owner == owner {
			highest = max(highest, m.Schema, 0)
		}
	}
	switch {
	case highest > schema:
		return OursNewer
	case highest >= 0:
		return Ours
	}
	for _, c := range commandsIn(content) {
		if oldNode.MatchString(c.Text) {
			return OldNode
		}
	}
	return Foreign
}

// command is one command text found in a hook file or settings file.
type command struct{ Event, Text string }

// commandsIn lists the commands of a file's hooks, whatever else is wrong with
// it; nil if it isn't JSON.
func commandsIn(content []byte) []command {
	var f struct {
		Hooks map[string]json.RawMessage `json:"hooks"`
	}
	if json.Unmarshal(content, &f) != nil {
		return nil
	}
	var out []command
	for event, raw := range f.Hooks {
		var entries []json.RawMessage
		if json.Unmarshal(raw, &entries) != nil {
			continue
		}
		for _, r := range entries {
			var e map[string]json.RawMessage
			if json.Unmarshal(r, &e) != nil {
				continue
			}
			for _, k := range []string{"bash", "powershell", "command", "linux", "osx", "windows", "exec", "args"} {
				var s string
				var list []string
				if json.Unmarshal(e[k], &s) == nil && s != "" {
					out = append(out, command{event, s})
				} else if json.Unmarshal(e[k], &list) == nil && len(list) > 0 {
					out = append(out, command{event, strings.Join(list, " ")})
				}
			}
		}
	}
	return out
}

// namesOtherHook says that a file of ours registers another path than hook.
func namesOtherHook(content []byte, hook string) bool {
	posix, ps := posixQuote(hook), psQuote(hook)
	for _, c := range commandsIn(content) {
		if strings.Contains(c.Text, "pinta-hook") && !strings.Contains(c.Text, posix) && !strings.Contains(c.Text, ps) {
			return true
		}
	}
	return false
}
