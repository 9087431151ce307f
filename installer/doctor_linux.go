package installer

import (
	"encoding/json"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

func managedSettings(l settings.Layout) []string {
	return []string{below(l.Root, "/etc/github-copilot/managed-settings.json"), below(l.Root, "/etc/github-copilot/settings.json")}
}

func editorPolicies(l settings.Layout) []setting {
	return editorPolicyFile(below(l.Root, "/etc/vscode/policy.json"))
}

func platformFindings() []Finding { return nil }

// editorPolicyFile reads VS Code's policy file (Linux; other systems keep it in
// the registry or in managed preferences).
func editorPolicyFile(path string) []setting {
	data, err := safefile.ReadFile(path, maxSettings)
	if err != nil {
		return nil
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(plainJSON(data), &m) != nil {
		return nil
	}
	var out []setting
	if isFalse(m["ChatHooks"]) {
		out = append(out, setting{path, "ChatHooks is false"})
	}
	if isTrue(m["ChatAllowManagedHooksOnly"]) {
		out = append(out, setting{path, "ChatAllowManagedHooksOnly is true"})
	}
	return out
}
