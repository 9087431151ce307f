package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// enrolled is what `enroll --json` prints (manager.md 7), with what the
// installer did.
type enrolled struct {
	enroll.Result
	Users    []string `json:"users,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

func (a *app) enrollCommand() *cobra.Command {
	var file, manager string
	var wait time.Duration
	var replace bool
	c := &cobra.Command{
		Use:   "enroll <token|->",
		Short: "Tie this machine to a Manager and register the hooks",
		Long: "Enrols this machine with the Manager that the token names, then registers hooks for every user.\n" +
			"With - the token is read from standard input, which keeps it out of the shell's history.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("enroll takes one token: quote it if a script split it")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			routes := enroll.Routes{Stdin: a.stdin, File: file, Env: a.envToken, Layout: a.layout}
			if len(args) == 1 {
				routes.Argument = settings.Secret(args[0])
			}
			state, err := enroll.Open(a.layout.StateDir)
			if err != nil {
				return err
			}
			if manager == "" {
				manager = a.settings.Text(settings.KeyManagerURL)
			}
			result, err := enroll.Enroll(c.Context(), enroll.Options{State: state, Routes: routes, ManagerURL: manager, Wait: wait,
				Replace: replace, Network: a.settings.Network(), Log: a.logger()})
			if err != nil {
				return err
			}
			return a.afterEnroll(c.Context(), state, result)
		},
	}
	c.Flags().StringVar(&file, "token-file", "", "read the token from this file")
	c.Flags().StringVar(&manager, "manager", "", "address of the Manager, if another than the token names")
	c.Flags().DurationVar(&wait, "wait", enroll.Wait, "how long to try if the Manager can't be reached")
	c.Flags().BoolVar(&replace, "replace", false, "give up the enrolment with another Manager")
	return c
}

// afterEnroll fetches the config and applies the installer's plan once, so
// that hooks are there before the service runs. Neither can undo an enrolment:
// what fails is a warning, and the service or `repair` finishes it.
func (a *app) afterEnroll(ctx context.Context, state *enroll.State, result enroll.Result) error {
	out := enrolled{Result: result}
	if a.tellService(ctx, "reload") != nil { // no service runs: do what it would
		if err := a.syncOnce(ctx, state); err != nil {
			out.Warnings = append(out.Warnings, fmt.Sprintf("the config is not here yet: %v", err))
		}
	}
	changes, err := a.applyHooks(ctx, state)
	if err != nil {
		out.Warnings = append(out.Warnings, fmt.Sprintf("hooks could not be registered: %v", err))
	}
	for _, step := range changes.Steps {
		if step.Error != "" {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s %s: %s", step.Object, step.Path, step.Error))
		}
	}
	for _, skip := range changes.Skipped {
		out.Warnings = append(out.Warnings, fmt.Sprintf("user %s was skipped: %s", skip.User, skip.Reason))
	}
	for _, u := range changes.Users {
		if u.Hook == "ok" || u.Hook == "repaired" {
			out.Users = append(out.Users, u.Name)
		}
	}
	if err == nil && len(out.Users) == 0 {
		out.Warnings = append(out.Warnings, "hooks are registered for nobody: no home that can be written was found; the running service looks again each minute")
	}
	if a.json {
		for _, w := range out.Warnings {
			fmt.Fprintf(a.stderr, "pinta-agent: warning: %s\n", w)
		}
	}
	return a.print(out, func(p *page) {
		p.title("Enrolled with " + out.Manager)
		p.row("device", "%s", out.DeviceID)
		p.row("group", "%s", out.Group)
		for _, u := range out.Users {
			p.mark(markOK, "hooks registered for %s", u)
		}
		for _, w := range out.Warnings {
			p.mark(markWarn, "%s", w)
		}
		if len(out.Users) > 0 {
			p.printf("  Restart Copilot CLI and reload VS Code windows once: they read hooks at session start.\n")
		}
	})
}

func (a *app) unenrollCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "unenroll",
		Short: "Give up the enrolment; hooks stay until uninstall",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			state, err := enroll.Open(a.layout.StateDir)
			if err != nil {
				return err
			}
			identity, err := state.Identity()
			if err != nil {
				return err
			}
			if err := state.Unenroll("this machine's administrator"); err != nil {
				return err
			}
			a.tellService(c.Context(), "reload") //nolint:errcheck // none may run
			return a.print(map[string]any{"deviceId": identity.DeviceID, "manager": identity.Manager, "enrolled": false}, func(p *page) {
				p.printf("No longer enrolled with %s (was device %s).\n", identity.Manager, identity.DeviceID)
			})
		},
	}
}
