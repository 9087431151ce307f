package daemon

import (
	"context"
	"fmt"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/guard"
	"github.com/pinta-ai/pinta-agent/installer"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/internal/version"
)

// hookSHA256 is the hash of the hook binary of the same release, by
//
//	-ldflags "-X github.com/pinta-ai/pinta-agent/cmd/pinta-agent/daemon.hookSHA256=…"
//
// Empty in a build without one.
var hookSHA256 string

// Standalone is what `hooks install` was told, for a machine without a Manager.
type Standalone struct {
	Endpoint string `json:"endpoint"`
	Headers  string `json:"headers,omitempty"` // secret; the state file is 0600
	Guard    string `json:"guard,omitempty"`
	Hook     string `json:"hook,omitempty"` // image, --hook
}

// The name under which the state keeps Standalone.
const standaloneName = "standalone"

// SaveStandalone keeps what `hooks install` was told; nil forgets it.
func SaveStandalone(state *enroll.State, s *Standalone) error {
	var kept *Standalone
	return state.Update(standaloneName, &kept, func() error { kept = s; return nil })
}

// Machine is what is known of this machine: who it is, what it was configured
// with, and by which config it serves.
type Machine struct {
	Layout   settings.Layout
	Settings *settings.Settings
	State    *enroll.State
	// Config is the last good config, nil before the first.
	Config *api.GuardConfig
}

// Desired is what the installer shall make hold here. wanted is false where
// neither a Manager nor `hooks install` asked for hooks.
func (m Machine) Desired(ctx context.Context) (d installer.Desired, wanted bool, err error) {
	d = installer.Desired{Layout: m.Layout, Version: version.Version,
		Image: installer.Image{Beside: installer.BesideAgent(m.Layout), SHA256: hookSHA256}}
	if d.Users, err = installer.Accounts(ctx, m.Layout); err != nil && len(d.Users) == 0 {
		return d, false, fmt.Errorf("list the users of this machine: %w", err)
	}
	if d.RelayToken, err = m.tokens(); err != nil {
		return d, false, err
	}
	if _, err := m.State.Identity(); err == nil {
		m.managed(&d)
		return d, true, nil
	}
	var s *Standalone
	if err := m.State.Load(standaloneName, &s); err != nil {
		return d, false, err
	}
	if s == nil {
		return d, false, nil
	}
	d.Image.Flag = s.Hook
	alone := installer.Standalone(d.Layout, d.Version, installer.Endpoints{Guard: s.Guard, Traces: s.Endpoint}, settings.Secret(s.Headers), d.Image)
	alone.Users = d.Users
	return alone, true, nil
}

// managed: the Manager's config may leave out either kind of registration, and
// so may the administrator of the machine.
func (m Machine) managed(d *installer.Desired) {
	d.Managed = true
	d.Endpoints = installer.Endpoints{Guard: m.Layout.GuardURL(), Traces: m.Layout.TracesURL()}
	d.Hooks = installer.Hooks{User: m.Settings.Bool(settings.KeyUserHooks),
		Machine: m.Settings.Bool(settings.KeyMachineHooks) && m.Layout.PolicyDir != ""}
	if m.Config == nil {
		return
	}
	d.Hooks.User = d.Hooks.User && m.Config.Hooks.User
	d.Hooks.Machine = d.Hooks.Machine && m.Config.Hooks.Machine
	if policy, err := guard.DecodePolicy(m.Config.Guard); err == nil {
		d.GuardTimeoutMs = policy.TimeoutMs
	}
}
