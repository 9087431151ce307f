package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/daemon"
	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/endpoint"
	"github.com/pinta-ai/pinta-agent/guard"
	"github.com/pinta-ai/pinta-agent/installer"
	"github.com/pinta-ai/pinta-agent/installer/users"
)

func (a *app) runCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the service in the foreground; service managers start this",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file != "" {
				log, err := openLog(file)
				if err != nil {
					return err
				}
				defer log.Close()
				a.stderr = log
			}
			return a.supervised(c.Context())
		},
	}
	c.Flags().StringVar(&file, "log-file", "", "log to this file, which is kept bounded, instead of standard error")
	return c
}

// serviceMemory is what the service, which judges nothing, keeps to while it
// can, in bytes: an upload that it passes on is garbage at once.
const serviceMemory = 16 << 20

// serve is the service until ctx ends. ready is called once hooks are answered.
func (a *app) serve(ctx context.Context, ready func()) error {
	debug.SetMemoryLimit(serviceMemory)
	level := &slog.LevelVar{}
	level.Set(a.level())
	recent := &recentLog{to: a.stderr}
	log := slog.New(slog.NewTextHandler(recent, &slog.HandlerOptions{Level: level}))
	return daemon.Run(ctx, daemon.Options{Layout: a.layout, Settings: a.settings, EnvToken: a.envToken, Log: log, Level: level,
		Stderr: recent, Recent: recent.Lines, Diagnostics: a.writeDiagnostics, Ready: ready})
}

// endpointCommand is the guard and relay process that the service starts.
func (a *app) endpointCommand() *cobra.Command {
	return &cobra.Command{
		Use: endpoint.Command, Hidden: true, Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // it may read nothing of the machine
		RunE: func(c *cobra.Command, _ []string) error {
			if err := users.Confine(); err != nil {
				return err
			}
			listener, spool, err := endpoint.Inherited()
			if err != nil {
				return err
			}
			small, stop := context.WithCancel(context.Background())
			defer stop()
			go endpoint.KeepSmall(small)
			defer guard.PaceCollector()()
			// The parent says when to end, by closing stdin: a signal to the whole
			// process group must not end the relay before its last delivery.
			return endpoint.Serve(context.WithoutCancel(c.Context()), a.stdin, a.stdout, listener, spool, a.stderr)
		},
	}
}

// workerCommand works in one home as its user; only the service starts it.
func (a *app) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker", Hidden: true, Args: cobra.MaximumNArgs(1),
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(c *cobra.Command, args []string) error {
			status := 0
			switch {
			case len(args) == 0:
				status = installer.RunWorker(a.stdin, a.stdout)
			case args[0] == daemon.DrainVerb:
				status = daemon.RunDrain(a.stdin, a.stdout)
			default:
				return usageError{fmt.Errorf("worker knows no %q", args[0])}
			}
			if status != 0 {
				return exitStatus(status)
			}
			return nil
		},
	}
}
