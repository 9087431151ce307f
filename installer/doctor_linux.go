package installer

import "github.com/pinta-ai/pinta-agent/internal/settings"

func managedSettings(l settings.Layout) []string {
	return []string{below(l.Root, "/etc/github-copilot/managed-settings.json"), below(l.Root, "/etc/github-copilot/settings.json")}
}

func editorPolicies(l settings.Layout) []setting {
	return editorPolicyFile(below(l.Root, "/etc/vscode/policy.json"))
}

func platformFindings() []Finding { return nil }
