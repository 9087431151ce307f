package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/daemon"
	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/installer"
	"github.com/pinta-ai/pinta-agent/internal/api"
)

func (a *app) hooksCommand() *cobra.Command {
	c := &cobra.Command{Use: "hooks", Short: "Register hooks by hand, without a Manager", Args: cobra.NoArgs,
		RunE: showHelp}
	c.AddCommand(a.hooksInstallCommand(), a.hooksUninstallCommand(), a.hooksShowCommand())
	return c
}

func (a *app) hooksInstallCommand() *cobra.Command {
	var s daemon.Standalone
	c := &cobra.Command{
		Use:   "install --endpoint URL [--guard URL]",
		Short: "Register hooks that report to any OpenTelemetry collector",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if s.Endpoint == "" && s.Guard == "" {
				return usageError{errors.New("name a collector with --endpoint (https://collector.example.com/v1/traces), a guard with --guard, or both")}
			}
			if err := errors.Join(checkURL("--endpoint", s.Endpoint), checkURL("--guard", s.Guard)); err != nil {
				return usageError{err}
			}
			state, err := enroll.Open(a.layout.StateDir)
			if err != nil {
				return err
			}
			if id, err := state.Identity(); err == nil {
				return fmt.Errorf("this machine is enrolled with %s, which decides about its hooks: unenroll first, or use repair", id.Manager)
			}
			if err := daemon.SaveStandalone(state, &s); err != nil {
				return err
			}
			changes, err := a.applyHooks(c.Context(), state)
			if err != nil {
				return err
			}
			if err := a.print(changes, func(p *page) { p.changes(changes, "did") }); err != nil {
				return err
			}
			if !changes.OK() {
				return exitStatus(1)
			}
			return nil
		},
	}
	c.Flags().StringVar(&s.Endpoint, "endpoint", "", "OTLP/HTTP traces URL of a collector")
	c.Flags().StringVar(&s.Headers, "headers", "", "headers for the collector, as k=v,k=v")
	c.Flags().StringVar(&s.Guard, "guard", "", "URL of a guard")
	c.Flags().StringVar(&s.Hook, "hook", "", "hook binary to install, if not the one beside this program")
	return c
}

// checkURL refuses a URL that no hook could post to: every event would be
// lost without a word. Which schemes there are says hook.md §4.1.
func checkURL(flag, raw string) error {
	if raw == "" {
		return nil
	}
	scheme, rest, _ := strings.Cut(raw, "://")
	switch strings.ToLower(scheme) {
	case "http", "https":
		if u, err := url.Parse(raw); err == nil && u.Hostname() != "" {
			return nil
		}
	case "http+unix", "http+npipe": // an escaped path as the host, which url.Parse refuses
		if rest != "" {
			return nil
		}
	}
	return fmt.Errorf("%s %q is no URL that hooks can post to: give http:// or https:// with a host, http+unix:// or http+npipe://", flag, raw)
}

func (a *app) hooksUninstallCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Take the registrations out again; the binary stays for running sessions",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			state, err := enroll.Open(a.layout.StateDir)
			if err != nil {
				return err
			}
			if id, err := state.Identity(); err == nil {
				return fmt.Errorf("this machine is enrolled with %s, which would put the hooks back: use `pinta-agent uninstall`", id.Manager)
			}
			changes, err := a.remove(c.Context(), state, installer.Removal{KeepBinary: true})
			if err != nil {
				return err
			}
			if err := daemon.SaveStandalone(state, nil); err != nil {
				return err
			}
			if err := a.print(changes, func(p *page) { p.changes(changes, "did") }); err != nil {
				return err
			}
			if !changes.OK() {
				return exitStatus(1)
			}
			return nil
		},
	}
}

func (a *app) hooksShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show where hooks are registered and how they stand",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			state, err := enroll.Open(a.layout.StateDir)
			if err != nil {
				return err
			}
			desired, err := a.desired(c.Context(), state)
			if err != nil {
				return err
			}
			shown, err := installer.Show(c.Context(), installer.Real(a.layout), desired)
			if err != nil {
				return err
			}
			return a.print(shown, func(p *page) {
				p.title("Hooks")
				p.row("binary", "%s", shown.Hook)
				p.row("machine", "%s", shown.PolicyFile)
				p.row("events", "%s", strings.Join(shown.Events, ", "))
				for _, u := range shown.Users {
					p.row(u.Name, "%s: %s", u.Hook, u.HookFile)
				}
				p.findings(shown.Findings)
				if len(shown.Findings) == 0 {
					p.mark(markOK, "hooks are right for %d user(s)", len(shown.Users))
				}
			})
		},
	}
}

// remove takes hooks out, whether or not this machine ever wanted them.
func (a *app) remove(ctx context.Context, state *enroll.State, how installer.Removal) (installer.Changes, error) {
	m, err := a.machine(ctx, state)
	if err != nil {
		return installer.Changes{}, err
	}
	desired, _, err := m.Desired(ctx)
	if err != nil {
		return installer.Changes{}, err
	}
	desired.Uninstall = &how
	return installer.Apply(ctx, installer.Real(a.layout), desired)
}

// uninstall follows installer.md 7: machine entry, user entries, env keys, the
// binary after a grace, state last; the Manager is told by the last report of
// a device that is no longer enrolled.
func (a *app) uninstall(ctx context.Context, now, purge bool) error {
	_, absent := os.Lstat(a.layout.StateDir) // then none is left behind
	state, err := enroll.Open(a.layout.StateDir)
	if err != nil {
		return err
	}
	how := installer.Removal{Purge: purge}
	if !now {
		how.Grace = installer.HookGrace
		if !a.json {
			fmt.Fprintf(a.stderr, "Removing the hooks; hooks that have started may take up to %s to end.\n", how.Grace)
		}
	}
	told := ""
	if _, err := state.Identity(); err == nil {
		a.sayGoodbye(ctx, state)
		if err := state.Unenroll("uninstall"); err != nil {
			return err
		}
		told = "unenrolled"
	}
	a.tellService(ctx, "reload") //nolint:errcheck // none may run
	changes, err := a.remove(ctx, state, how)
	if err != nil {
		return err
	}
	if err := daemon.SaveStandalone(state, nil); err != nil {
		return err
	}
	if (purge || errors.Is(absent, fs.ErrNotExist)) && changes.OK() {
		if err := enroll.Remove(a.layout.StateDir); err != nil {
			return err
		}
	}
	if err := a.print(changes, func(p *page) {
		if told != "" {
			p.mark(markOK, "this machine is no longer enrolled")
		}
		p.changes(changes, "did")
	}); err != nil {
		return err
	}
	if !changes.OK() {
		return exitStatus(1)
	}
	return nil
}

// sayGoodbye tells the Manager, if it can be reached; an uninstall waits for
// nobody.
func (a *app) sayGoodbye(ctx context.Context, state *enroll.State) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client := enroll.NewClient(state, a.settings.Network(), a.logger())
	defer client.Close()
	manager, err := client.API()
	if err == nil {
		err = api.Done(manager.ReportDevice(ctx, api.Report{State: api.ConfigStateApplied, Findings: []string{"agent.uninstalled"}}))
	}
	if err != nil {
		a.logger().Warn("the Manager could not be told of the uninstall: retire the device there", "error", err)
	}
}
