package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/demo"
)

func (a *app) demoCommand() *cobra.Command {
	o := demo.Options{}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole product at work in a throw-away folder",
		Long: "Starts a Manager, an agent and a small collector on loopback in a throw-away folder, runs the registered hook\n" +
			"commands as the hosts do, and checks what the host gets. Needs no root and takes under 30 s.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Out = a.stdout
			if a.json {
				o.Out = a.stderr
			}
			o.Color = a.colors(o.Out)
			report, err := demo.Run(c.Context(), o)
			if err != nil {
				return err
			}
			if a.json {
				if err := report.WriteJSON(a.stdout); err != nil {
					return err
				}
			}
			if !report.OK {
				return exitStatus(1)
			}
			return nil
		},
	}
	c.PersistentPreRunE = func(*cobra.Command, []string) error { return nil } // touches nothing of this machine
	c.AddCommand(&cobra.Command{Use: demo.SessionCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.Copy(io.Discard, a.stdin)
			return err
		}})
	c.Flags().BoolVar(&o.Keep, "keep", false, "leave everything running until interrupted, and print the addresses")
	c.Flags().StringVar(&o.Copilot, "copilot", "", "also run this real Copilot CLI (its executable, or the folder npm installed it in)")
	return c
}
