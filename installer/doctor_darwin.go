package installer

import "github.com/pinta-ai/pinta-agent/internal/settings"

func managedSettings(l settings.Layout) []string {
	return []string{
		below(l.Root, "/etc/github-copilot/managed-settings.json"), below(l.Root, "/etc/github-copilot/settings.json"),
		below(l.Root, "/Library/Application Support/GitHub/Copilot/managed-settings.json"),
	}
}

// editorPolicies: macOS keeps them in managed preferences, whose binary form
// only the system's own interfaces read.
func editorPolicies(settings.Layout) []setting { return nil }

func platformFindings() []Finding { return nil }
