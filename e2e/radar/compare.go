package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// kinds are what may change between two versions, in the order of the report.
var kinds = []string{"scenarios", "exit codes", "time limits", "outputs", "events", "spellings", "fields", "environment"}

// partKinds are the kinds that each part of a look finds differences of.
var partKinds = map[string][]string{"scenarios": kinds[:1], "host": kinds[1:4], "payloads": kinds[4:]}

// difference is one thing that changed.
type difference struct{ kind, text string }

// report prints by kind what changed, of the parts that were looked at.
func report(out io.Writer, parts map[string]bool, all []difference) {
	for _, part := range []string{"scenarios", "host", "payloads"} {
		for _, kind := range partKinds[part] {
			if !parts[part] {
				fmt.Fprintf(out, "   %s: not looked at\n", kind)
				continue
			}
			own := slices.DeleteFunc(slices.Clone(all), func(d difference) bool { return d.kind != kind })
			if len(own) == 0 {
				fmt.Fprintf(out, "   %s: nothing changed\n", kind)
				continue
			}
			fmt.Fprintf(out, "   %s:\n", kind)
			for _, d := range own {
				fmt.Fprintf(out, "     %s\n", d.text)
			}
		}
	}
}

// compare lists what differs between a recorded result and a new one: in what
// is enforced, and in what the host makes of a hook.
func compare(base, now Result) []difference {
	return slices.Concat(
		compareOutcomes(base.Scenarios, now.Scenarios, func(string) string { return "scenarios" }),
		compareOutcomes(base.Host, now.Host, hostKind))
}

// hostKind is the kind of a case of probes.
func hostKind(key string) string {
	_, name, _ := strings.Cut(key, "/")
	switch {
	case strings.HasSuffix(name, "time-limit"):
		return "time limits"
	case strings.Contains(name, "exit-"), name == "killed", name == "segfault":
		return "exit codes"
	}
	return "outputs"
}

func compareOutcomes(base, now map[string]string, kind func(key string) string) (out []difference) {
	for _, key := range sorted(base, now) {
		was, had := base[key]
		is, has := now[key]
		switch {
		case !has:
			out = append(out, difference{kind(key), fmt.Sprintf("- %s: was %q, is not seen any more", key, was)})
		case !had:
			out = append(out, difference{kind(key), fmt.Sprintf("+ %s: %q", key, is)})
		case was != is:
			out = append(out, difference{kind(key), fmt.Sprintf("~ %s: was %q, is %q", key, was, is)})
		}
	}
	return out
}

// notCaptured are recorded payloads that the sessions here don't produce: they
// need a terminal or a withheld permission.
var notCaptured = map[string]bool{
	"preCompact.camel.manual.json": true, "sessionEnd.camel.user_exit.json": true, "notification.camel.agent_idle.json": true,
	"notification.camel.permission_prompt.json": true, "Notification.pascal.permission_prompt.json": true,
}

// comparePayloads lists what differs in the events and their cases, in names
// that the host spells out, in fields, and in the environment.
func comparePayloads(was, is map[string][]byte) (out []difference) {
	changes := map[difference][]string{} // the payloads in which a field changed alike
	for _, name := range sorted(was, is) {
		a, b := was[name], is[name]
		kind, names := "fields", shape
		if strings.HasPrefix(name, "_env.") {
			kind, names = "environment", hostNames
		}
		switch {
		case b == nil && notCaptured[name]:
		case b == nil:
			out = append(out, difference{"events", "- " + label(name) + ": not seen any more"})
		case a == nil && was[eventOf(name)] != nil: // a new case of a known event
			out = append(out, difference{"events", "+ " + label(name)})
		case a == nil:
			out = append(out, difference{"events", "+ " + label(name) + ": " + strings.Join(describe(names(b)), ", ")})
		default:
			for _, text := range compareShapes(names(a), names(b)) {
				d := difference{kind, text}
				changes[d] = append(changes[d], label(name))
			}
		}
	}
	out = append(out, compareSpellings(was, is)...)
	for d, in := range changes {
		const few = 5
		if len(in) > few {
			in = append(in[:few:few], fmt.Sprintf("and %d more", len(in)-few))
		}
		out = append(out, difference{d.kind, d.text + ", in " + strings.Join(in, ", ")})
	}
	slices.SortStableFunc(out, func(a, b difference) int {
		if a.kind != b.kind || a.kind != "fields" && a.kind != "environment" {
			return slices.Index(kinds, a.kind) - slices.Index(kinds, b.kind)
		}
		one, _, _ := strings.Cut(a.text[1:], ":") // by field, not by sign
		other, _, _ := strings.Cut(b.text[1:], ":")
		return strings.Compare(one, other)
	})
	return out
}

// label is a payload's name without its suffix.
func label(name string) string { return strings.TrimSuffix(name, ".json") }

// eventOf is the name of the plain payload of an event in one spelling, such
// as "preToolUse.camel.json", of which name is a case.
func eventOf(name string) string {
	parts := strings.SplitN(label(name), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".") + ".json"
}

// spelled are the fields whose values are names of the host's.
var spelled = []string{"hook_event_name", "hookName", "toolName", "tool_name", "source", "reason", "trigger", "notification_type",
	"stopReason", "stop_reason", "agentName", "agent_name", "agentType", "agent_type", "error_context", "errorContext"}

// compareSpellings lists which names came and went in events that are known.
func compareSpellings(was, is map[string][]byte) (out []difference) {
	before, after := spellings(was), spellings(is)
	for _, field := range sorted(before, after) {
		gone, came := without(before[field], after[field]), without(after[field], before[field])
		switch name, _, _ := strings.Cut(field, " "); {
		case len(gone)+len(came) == 0 || was[name+".json"] == nil || is[name+".json"] == nil:
		case len(came) == 0:
			out = append(out, difference{"spellings", fmt.Sprintf("- %s: %s", field, strings.Join(gone, ", "))})
		case len(gone) == 0:
			out = append(out, difference{"spellings", fmt.Sprintf("+ %s: %s", field, strings.Join(came, ", "))})
		default:
			out = append(out, difference{"spellings", fmt.Sprintf("~ %s: was %s, is %s", field, strings.Join(gone, ", "), strings.Join(came, ", "))})
		}
	}
	return out
}

// spellings are the values of the spelled fields by "event.spelling field".
func spellings(payloads map[string][]byte) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for name, data := range payloads {
		var fields map[string]any
		if notCaptured[name] || strings.HasPrefix(name, "_env.") || json.Unmarshal(data, &fields) != nil {
			continue
		}
		for _, key := range spelled {
			if value, ok := fields[key].(string); ok {
				field := label(eventOf(name)) + " " + key
				if all[field] == nil {
					all[field] = map[string]bool{}
				}
				all[field][value] = true
			}
		}
	}
	return all
}

// without are the members of a that b lacks.
func without(a, b map[string]bool) []string {
	return slices.DeleteFunc(sorted(a), func(s string) bool { return b[s] })
}
