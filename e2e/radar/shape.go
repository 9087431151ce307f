package main

import (
	"encoding/json"
	"fmt"
)

// shape is a payload's fields with their types, by dotted path.
func shape(payload []byte) map[string]string {
	out := map[string]string{}
	var value any
	if json.Unmarshal(payload, &value) != nil {
		return map[string]string{"": "no JSON"}
	}
	shapeOf(out, "", value)
	return out
}

func shapeOf(out map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if path != "" {
			out[path] = "object"
			path += "."
		}
		for k, inner := range v {
			shapeOf(out, path+k, inner)
		}
	case []any:
		out[path] = "array"
	case string:
		out[path] = "string"
	case bool:
		out[path] = "bool"
	case float64:
		out[path] = "number"
	default:
		out[path] = "null"
	}
}

// hostNames are the variables of a recorded environment that the host sets.
func hostNames(recorded []byte) map[string]string {
	out := map[string]string{}
	for name := range shape(recorded) {
		if hostVariable(name) && !ours[name] {
			out[name] = "set"
		}
	}
	return out
}

// ours are variables that a recording session sets, not the host; the last one
// depends on whether the CLI is started by way of npm's script.
var ours = map[string]bool{"COPILOT_HOME": true, "COPILOT_MODEL": true, "COPILOT_AUTO_UPDATE": true, "COPILOT_CLI_RESOLVED_DIST_DIR": true}

// compareShapes lists the fields that came, went, or have another type.
func compareShapes(was, is map[string]string) []string {
	var out []string
	for _, path := range sorted(was, is) {
		switch a, b := was[path], is[path]; {
		case a == b:
		case a == "":
			out = append(out, fmt.Sprintf("+ %s: %s", path, b))
		case b == "":
			out = append(out, fmt.Sprintf("- %s: was %s", path, a))
		default:
			out = append(out, fmt.Sprintf("~ %s: was %s, is %s", path, a, b))
		}
	}
	return out
}

func describe(shape map[string]string) []string {
	var out []string
	for _, path := range sorted(shape) {
		out = append(out, path+" "+shape[path])
	}
	return out
}
