package hook

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/pinta-ai/pinta-agent/hook/config"
	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// maxPolicy is the size of the largest machine policy file that is read.
const maxPolicy = 1 << 20

// policyOwner is the mark of the installer in entries that are ours.
const policyOwner = "pinta-agent"

// firstPolicy is the first version of the Copilot CLI known to honour policy
// files (installer.md 2).
var firstPolicy = [3]int{1, 0, 102}

// yields says whether this run leaves the event to the machine's own entry
// (hook.md 12): it is the user's entry, and the machine's is in force for this
// very client. In doubt it doesn't yield: two judgements are better than none.
func (r *run) yields(e *event.Event) bool {
	if r.env.Process(config.Source) != "user" || !r.cliClient(e) {
		return false
	}
	var data []byte
	r.fromDisk(func() { data, _ = r.p.Policy() })
	return inForce(data, r.env.Process(config.Event))
}

// cliClient says whether the event came from a CLI that honours policy files.
func (r *run) cliClient(e *event.Event) bool {
	if !atLeast(r.env.Process("COPILOT_CLI_BINARY_VERSION"), firstPolicy) || e.Raw("tool_response") != nil {
		return false
	}
	for _, key := range [...]string{"transcript_path", "transcriptPath"} {
		// The CLI's transcript is session-state/<id>/events.jsonl; VS Code's lies elsewhere.
		if path, ok := e.String(key); ok && path != "" && !strings.HasSuffix(strings.ReplaceAll(path, `\`, "/"), "/events.jsonl") {
			return false
		}
	}
	for _, pair := range r.p.Environ() {
		if strings.HasPrefix(pair, "VSCODE_") {
			return false
		}
	}
	return true
}

// inForce says whether the policy file registers the machine's run for the
// event of this binding.
func inForce(data []byte, binding string) bool {
	data = bytes.Trim(data, " \t\r\n")
	if binding == "" || rawjson.Kind(data) != '{' || !rawjson.Valid(data) {
		return false
	}
	// Checked once, then walked, which recurses nowhere: a policy file is some
	// 20 KiB, and a run that yields shall cost nothing to speak of.
	var hooks, list []byte
	known := true
	rawjson.Walk(data, func(key, value []byte) {
		switch name, _ := rawjson.Unquote(key); name {
		case "version":
			known = known && string(value) == "1"
		case "hooks":
			hooks = value
		default: // the host skips a policy file with a key that it doesn't know
			known = false
		}
	})
	if !known || rawjson.Kind(hooks) != '{' {
		return false
	}
	rawjson.Walk(hooks, func(key, value []byte) {
		if event, _ := rawjson.Unquote(key); event == binding {
			list = value
		}
	})
	if rawjson.Kind(list) != '[' {
		return false
	}
	found := false
	rawjson.Walk(list, func(_, entry []byte) { found = found || rawjson.Kind(entry) == '{' && ours(entry) })
	return found
}

// ours says whether an entry is the machine's run of this program, and one that
// the host would start at all.
func ours(entry []byte) bool {
	var owner, source, kind, command string
	timely := true
	rawjson.Walk(entry, func(key, value []byte) {
		switch name, _ := rawjson.Unquote(key); name {
		case "x-pinta":
			owner = text(value, "owner")
		case "env":
			source = text(value, config.Source)
		case "type":
			kind, _ = rawjson.Unquote(value)
		case "timeoutSec":
			n, err := strconv.ParseFloat(string(value), 64)
			timely = err == nil && n > 0
		case "exec", "bash", "powershell", "command":
			s, _ := rawjson.Unquote(value)
			command += s
		}
	})
	return owner == policyOwner && source == "machine" && kind == "command" && command != "" && timely
}

// text is the string under key, the last if there are several; empty if object
// is none.
func text(object []byte, key string) (s string) {
	if rawjson.Kind(object) == '{' {
		rawjson.Walk(object, func(k, value []byte) {
			if name, _ := rawjson.Unquote(k); name == key {
				s, _ = rawjson.Unquote(value)
			}
		})
	}
	return s
}

// atLeast compares a dotted version, a suffix ignored, with a minimum. What is
// no version is less.
func atLeast(version string, least [3]int) bool {
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) != len(least) {
		return false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return false
		}
		if n != least[i] {
			return n > least[i] && valid(parts[i+1:])
		}
	}
	return true
}

func valid(parts []string) bool {
	for _, part := range parts {
		if n, err := strconv.Atoi(part); err != nil || n < 0 {
			return false
		}
	}
	return true
}
