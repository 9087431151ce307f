package main

import (
	"errors"
	"fmt"

	kservice "github.com/kardianos/service"
	"github.com/spf13/cobra"
)

// serviceName is the unit, launchd and service control name; packages use it
// as well.
const serviceName = "pinta-agent"

func (a *app) serviceCommand() *cobra.Command {
	c := &cobra.Command{Use: "service", Short: "Install or control the background service", Args: cobra.NoArgs,
		RunE: showHelp}
	for _, verb := range []struct{ name, short string }{
		{"install", "Register the service with this system's service manager and start it at boot"},
		{"uninstall", "Stop the service and take its registration out"},
		{"start", "Start the service"},
		{"stop", "Stop the service"},
		{"restart", "Restart the service"},
		{"status", "Show whether the service runs"},
	} {
		c.AddCommand(&cobra.Command{Use: verb.name, Short: verb.short, Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return a.controlService(verb.name) }})
	}
	return c
}

// unmanaged is a service as the service manager sees it; `run` is what it
// starts.
type unmanaged struct{}

func (unmanaged) Start(kservice.Service) error { return nil }
func (unmanaged) Stop(kservice.Service) error  { return nil }

func (a *app) controlService(verb string) error {
	if a.root != "" {
		return usageError{errors.New("a --root folder has no service: use run")}
	}
	s, err := kservice.New(unmanaged{}, &kservice.Config{
		Name: serviceName, DisplayName: "Pinta Agent",
		Description: "Keeps AI coding assistants' hooks registered, judged and recorded on this machine.",
		Arguments:   []string{"run"},
		Option: kservice.KeyValue{
			"UserService": !a.layout.System, "Restart": "always", "RunAtLoad": true, "KeepAlive": true,
			"OnFailure": "restart", "OnFailureDelayDuration": "5s", "DelayedAutoStart": true,
		},
	})
	if err != nil {
		return fmt.Errorf("this system's service manager: %w", err)
	}
	if verb == "status" {
		return a.serviceStatus(s)
	}
	if err := kservice.Control(s, verb); err != nil {
		return fmt.Errorf("%s the service: %w", verb, err)
	}
	return a.print(map[string]string{"service": serviceName, "done": verb}, func(p *page) { p.mark(markOK, "%s: %s", serviceName, verb) })
}

func (a *app) serviceStatus(s kservice.Service) error {
	names := map[kservice.Status]string{kservice.StatusRunning: "running", kservice.StatusStopped: "stopped"}
	state, err := s.Status()
	text := names[state]
	switch {
	case errors.Is(err, kservice.ErrNotInstalled):
		text = "not installed"
	case err != nil:
		return fmt.Errorf("ask the service manager (%s): %w", s.Platform(), err)
	case text == "":
		text = "unknown"
	}
	return a.print(map[string]string{"service": serviceName, "manager": s.Platform(), "state": text},
		func(p *page) { p.printf("%s is %s (%s)\n", serviceName, text, s.Platform()) })
}
