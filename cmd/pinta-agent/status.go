package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/daemon"
	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/installer"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/internal/version"
)

// status is what `status --json` prints.
type status struct {
	Version   string              `json:"version"`
	DeviceID  string              `json:"deviceId"`
	Enrolment enroll.Overview     `json:"enrolment"`
	Service   service             `json:"service"`
	Hooks     []installer.Finding `json:"hooks"` // what is not right; empty is good
	Users     []string            `json:"users"`
	Config    config              `json:"config"`
	Repairs   []installer.Repair  `json:"repairs"` // the last ones
	Settings  []settings.Value    `json:"settings"`
}

type service struct {
	Running bool           `json:"running"`
	Detail  *daemon.Status `json:"detail,omitempty"`
}

// config is the last good guard config.
type config struct {
	Version   int64     `json:"version"`
	IssuedAt  time.Time `json:"issuedAt,omitzero"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	Stale     bool      `json:"stale"`
}

const shownRepairs = 10

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how this machine stands",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.status(c.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(p *page) { p.status(s) })
		},
	}
}

func (a *app) status(ctx context.Context) (status, error) {
	state, err := enroll.Open(a.layout.StateDir)
	if err != nil {
		return status{}, err
	}
	s := status{Version: version.Version, Settings: a.settings.Values(), Hooks: []installer.Finding{}, Users: []string{}, Repairs: installer.Repairs(a.layout)}
	if s.Enrolment, err = state.Overview(); err != nil {
		return status{}, err
	}
	if s.Enrolment.Identity != nil {
		s.DeviceID = s.Enrolment.Identity.DeviceID
	}
	s.Repairs = s.Repairs[max(0, len(s.Repairs)-shownRepairs):]
	m, err := a.machine(ctx, state)
	if err != nil {
		return status{}, err
	}
	if m.Config != nil {
		s.Config = config{Version: m.Config.Version, IssuedAt: m.Config.IssuedAt, ExpiresAt: m.Config.ExpiresAt,
			Stale: time.Now().After(m.Config.ExpiresAt)}
	}
	desired, wanted, err := m.Desired(ctx)
	if err != nil {
		return status{}, err
	}
	if wanted {
		if s.Hooks, err = installer.Verify(ctx, installer.Real(a.layout), desired); err != nil {
			return status{}, err
		}
		for _, u := range desired.Users {
			s.Users = append(s.Users, u.Name)
		}
	}
	var running daemon.Status
	switch err := daemon.Ask(ctx, a.layout, http.MethodGet, "/status", &running); {
	case err == nil:
		s.Service = service{Running: true, Detail: &running}
	case !errors.Is(err, daemon.ErrNotRunning):
		a.logger().Warn("the service does not answer", "error", err)
	}
	return s, nil
}

// status prints the page for people.
func (p *page) status(s status) {
	p.title("pinta-agent " + s.Version)
	if id := s.Enrolment.Identity; id != nil {
		p.mark(markOK, "enrolled with %s as %s, group %s", id.Manager, id.DeviceID, id.Group)
	} else if s.Enrolment.Attempt.Failures > 0 {
		p.mark(markFail, "not enrolled: %s", s.Enrolment.Attempt.Message)
	} else {
		p.mark(markWarn, "not enrolled")
	}
	switch {
	case s.Config.Version == 0:
		p.mark(markWarn, "no guard config yet: nothing is denied but changes to the guard's own files")
	case s.Config.Stale:
		p.mark(markWarn, "guard config %d is past its expiry (%s) and stays in force", s.Config.Version, s.Config.ExpiresAt.Format(time.DateTime))
	default:
		p.mark(markOK, "guard config %d of %s", s.Config.Version, s.Config.IssuedAt.Format(time.DateTime))
	}
	p.service(s.Service)
	switch {
	case len(s.Users) == 0:
		p.mark(markFail, "hooks are registered for nobody")
	case len(s.Hooks) == 0:
		p.mark(markOK, "hooks are right for %d user(s)", len(s.Users))
	default:
		p.findings(s.Hooks)
	}
	if len(s.Repairs) > 0 {
		p.title("Last repairs")
		for _, r := range s.Repairs {
			p.printf("  %s  %s %s: %s %s\n", r.At.Local().Format(time.DateTime), r.Object, r.User, r.Reason, r.Path)
		}
	}
	if len(s.Settings) > 0 {
		p.title("Settings")
		for _, v := range s.Settings {
			p.row(v.Name, "%s  (%s)", v.Value, v.Source)
		}
	}
}

func (p *page) service(s service) {
	if !s.Running {
		p.mark(markWarn, "the service does not run")
		return
	}
	d := s.Detail
	p.mark(markOK, "the service runs (pid %d, since %s)", d.PID, d.Started.Local().Format(time.DateTime))
	c := d.Counters
	p.row("events", "%d judged or recorded, %d prevented, %d masked, %d withheld, %d stopped", c.Hooks, c.Prevented, c.Masked, c.Withheld, c.Stopped)
	if c.FailOpen+c.NotEnforced+c.Overrun > 0 {
		p.row("", "%d failed open, %d overran, %d not enforced", c.FailOpen, c.Overrun, c.NotEnforced)
	}
	if q := d.Endpoint.Relay.GuardRTT; q.N > 0 {
		p.row("guard", "%.1f ms median, %.1f ms p99 as the hook sees it (last %d)", q.P50, q.P99, q.N)
	}
	spool := d.Endpoint.Relay.Spool
	p.row("telemetry", "%d spans wait, %d delivered, %d dropped; %s", spool.Records, spool.Delivered, spool.Dropped(), d.Endpoint.Export.State)
	for _, u := range d.Users {
		seen := "no event yet: restart Copilot CLI, reload VS Code"
		if !u.LastEvent.IsZero() {
			seen = "last event " + u.LastEvent.Local().Format(time.DateTime)
		}
		if n := u.SessionsUnguarded; n > 0 {
			seen += fmt.Sprintf("; %d running client(s) have no hooks: restart Copilot CLI, reload VS Code", n)
		}
		p.row(u.Name, "hook %s, %s", u.Hook, seen)
	}
}

func (a *app) syncCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sync",
		Short: "Fetch the newest guard config and report, now",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			state, err := enroll.Open(a.layout.StateDir)
			if err != nil {
				return err
			}
			if _, err := state.Identity(); err != nil {
				return err
			}
			err = a.tellService(c.Context(), "sync")
			if errors.Is(err, daemon.ErrNotRunning) {
				err = a.syncOnce(c.Context(), state)
			}
			if err != nil {
				return fmt.Errorf("%w\nthe guard config that was in force stays so; pinta-agent doctor tests the way to the Manager", err)
			}
			m, err := a.machine(c.Context(), state)
			if err != nil {
				return err
			}
			out := config{}
			if m.Config != nil {
				out = config{Version: m.Config.Version, IssuedAt: m.Config.IssuedAt, ExpiresAt: m.Config.ExpiresAt}
			}
			return a.print(out, func(p *page) { p.mark(markOK, "in step with the Manager: guard config %d", out.Version) })
		},
	}
}
