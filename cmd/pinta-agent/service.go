package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	kservice "github.com/kardianos/service"
	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/packaging"
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
	log, err := launchdLog(a.layout.System)
	if err != nil {
		return err
	}
	s, err := kservice.New(unmanaged{}, &kservice.Config{
		Name: serviceName, DisplayName: "Pinta Agent",
		Description: "Keeps AI coding assistants' hooks registered, judged and recorded on this machine.",
		Arguments:   []string{"run"},
		Option: kservice.KeyValue{
			"UserService":   !a.layout.System,
			"SystemdScript": packaging.Unit(!a.layout.System), "LaunchdConfig": packaging.Plist(log),
			"OnFailure": "restart", "OnFailureDelayDuration": "5s", "DelayedAutoStart": true,
		},
	})
	if err != nil {
		return fmt.Errorf("this system's service manager: %w", err)
	}
	if verb == "status" {
		return a.serviceStatus(s)
	}
	if unit := packagedUnit(s.Platform()); unit != "" && (verb == "install" || verb == "uninstall") {
		return fmt.Errorf("%s the service: %s is a package's: use start and stop, or the package manager", verb, unit)
	}
	switch verb {
	case "install":
		if err := a.serviceFolders(log); err != nil {
			return err
		}
	case "uninstall": // a registration that goes alone leaves the process
		if state, err := s.Status(); err == nil && state == kservice.StatusRunning {
			if err := kservice.Control(s, "stop"); err != nil {
				return fmt.Errorf("stop the service: %w", err)
			}
		}
	}
	if err := kservice.Control(s, verb); err != nil {
		return fmt.Errorf("%s the service: %w", verb, err)
	}
	return a.print(map[string]string{"service": serviceName, "done": verb}, func(p *page) { p.mark(markOK, "%s: %s", serviceName, verb) })
}

// packagedUnit is the unit that a deb or an rpm brought, empty if none did. One
// of ours would hide it, and its upgrades.
func packagedUnit(manager string) string {
	if manager != "linux-systemd" || os.Geteuid() != 0 {
		return ""
	}
	for _, dir := range []string{"/usr/lib", "/lib"} {
		unit := filepath.Join(dir, "systemd/system", serviceName+".service")
		if _, err := os.Stat(unit); err == nil {
			return unit
		}
	}
	return ""
}

// launchdLog is the service's log where launchd keeps none: the package's, or
// one in the user's home.
func launchdLog(system bool) (string, error) {
	if system {
		return "/Library/Logs/Pinta/agent.log", nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("log file of the service: %w", err)
	}
	return filepath.Join(home, "Library/Logs/pinta-agent.log"), nil
}

// serviceFolders makes what a package brings and the sandboxed service can't
// make itself: on Linux the hook's folder, which the unit opens for it below a
// read-only /usr, on macOS that of the log.
func (a *app) serviceFolders(log string) error {
	dir := ""
	switch {
	case runtime.GOOS == "darwin":
		dir = filepath.Dir(log)
	case runtime.GOOS == "linux" && a.layout.System:
		dir = filepath.Dir(a.layout.HookBinary)
	default:
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("folder of the service: %w", err)
	}
	return nil
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
