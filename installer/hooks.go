package installer

import (
	"context"
	"os"
	"path/filepath"

	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// Standalone is the desired state of "hooks install" without a Manager: the
// caller's own endpoints in the env file, where the caller may change them, and
// none in the entries. An endpoint that is empty isn't set.
func Standalone(l settings.Layout, version string, e Endpoints, headers settings.Secret, image Image) Desired {
	return Desired{Layout: l, Version: version, Hooks: Hooks{User: true}, Endpoints: e, Headers: headers, Image: image}
}

// BesideAgent is where the hook's image lies in a folder of ours: beside the
// running agent.
func BesideAgent(l settings.Layout) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return beside(self, l)
}

// beside follows links: macOS names the agent as it was called, and there
// /usr/local/bin holds a link to it and no hook.
func beside(self string, l settings.Layout) string {
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return filepath.Join(filepath.Dir(self), filepath.Base(l.HookBinary))
}

// Shown is what "hooks show" prints: where hooks are registered, and how they
// stand.
type Shown struct {
	Hook       string      `json:"hook"`
	PolicyFile string      `json:"policyFile,omitempty"`
	Events     []string    `json:"events"`
	Users      []ShownHome `json:"users"`
	Findings   []Finding   `json:"findings"`
}

// ShownHome is one home of Shown.
type ShownHome struct {
	UserState
	HookFile string `json:"hookFile"`
	EnvFile  string `json:"envFile"`
}

// Show compares the registrations with d and changes nothing.
func Show(ctx context.Context, h Host, d Desired) (Shown, error) {
	plan, err := Plan(ctx, h, d)
	if err != nil {
		return Shown{}, err
	}
	s := Shown{Hook: d.Layout.HookBinary, Events: Events, Findings: plan.Findings()}
	if d.Hooks.Machine {
		s.PolicyFile = d.Layout.PolicyFile()
	}
	for _, u := range plan.Users {
		if u.Hook == "repaired" { // only planned: it isn't right now
			u.Hook = "absent"
		}
		s.Users = append(s.Users, ShownHome{u, filepath.Join(u.CopilotHome, "hooks", hookFileName), filepath.Join(u.CopilotHome, envFileName)})
	}
	return s, nil
}
