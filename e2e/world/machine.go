package world

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Machine is one endpoint: a folder that stands for a whole machine, or the
// real one where Root is empty.
type Machine struct {
	Site  *Site
	Root  string
	Agent *Process
	// Device is its id, once it is enrolled.
	Device string
	// Program is the agent's executable, the site's if empty.
	Program string
}

// Machine returns an endpoint below root without starting anything.
func (s *Site) Machine(root string) *Machine { return &Machine{Site: s, Root: root} }

// Home is a user's home, made before the agent starts to be that of a user.
func (m *Machine) Home(user string) string { return filepath.Join(m.Root, "/home", user) }

// HookFile is where a user's hooks are registered.
func (m *Machine) HookFile(user string) string {
	return filepath.Join(m.Home(user), ".copilot", "hooks", "pinta-copilot.json")
}

func (m *Machine) program() string {
	if m.Program != "" {
		return m.Program
	}
	return m.Site.Programs.Agent
}

func (m *Machine) args(args []string) []string {
	if m.Root == "" {
		return args
	}
	return append([]string{"--root", m.Root}, args...)
}

// Call runs a pinta-agent command on the machine and decodes its JSON line.
func (m *Machine) Call(ctx context.Context, into any, args ...string) error {
	return call(ctx, m.Site.Dir, into, m.program(), m.args(args)...)
}

// Enrolled is what `pinta-agent enroll` says.
type Enrolled struct {
	DeviceID string `json:"deviceId"`
	Group    string `json:"group"`
	Manager  string `json:"manager"`
}

// Enroll enrols the machine with the site's Manager.
func (m *Machine) Enroll(ctx context.Context, token string) (e Enrolled, err error) {
	if err = m.Call(ctx, &e, "enroll", token, "--json"); err == nil && e.DeviceID == "" {
		err = errors.New("enroll printed no device id")
	}
	m.Device = e.DeviceID
	return e, err
}

// Start starts the service and waits until it answers hooks.
func (m *Machine) Start(ctx context.Context) error {
	var err error
	if m.Agent, err = start(m.Site.Dir, "agent", m.program(), m.args([]string{"run"})...); err != nil {
		return err
	}
	err = Until(ctx, 30*time.Second, func() error {
		if err := m.Agent.ended("the agent"); err != nil {
			return err
		}
		var status struct {
			Service struct {
				Detail struct {
					Serving bool `json:"serving"`
				} `json:"detail"`
			} `json:"service"`
		}
		if err := m.Call(ctx, &status, "status", "--json"); err != nil {
			return err
		}
		if !status.Service.Detail.Serving {
			return errors.New("the agent does not answer hooks")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for the agent: %w", err)
	}
	return nil
}
