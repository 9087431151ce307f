// Command pinta-agent keeps the hooks of AI coding assistants registered on
// this machine, judges what they report by its Manager's signed config, and
// delivers their telemetry.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/internal/version"
)

func main() {
	args := enroll.TakeArgs() // first, so that no token stays in the process list
	os.Exit(run(args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit status (manager.md 7).
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, envToken: enroll.TakeEnv()}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	var silent exitStatus
	if errors.As(err, &silent) {
		return int(silent)
	}
	fmt.Fprintf(stderr, "pinta-agent: %v\n", err)
	return exitCode(command.Name(), err)
}

// exitStatus ends a command that has already said everything.
type exitStatus int

func (exitStatus) Error() string { return "see the output" }

// usageError is a mistake in the command line.
type usageError struct{ error }

// exitCode is the status for an error: 2 for a mistake in the command line, the
// table of manager.md 7 for enroll, else 1.
func exitCode(command string, err error) int {
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return enroll.CodeUsage
	case command == "enroll":
		return enroll.Code(err)
	}
	return 1
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:               "pinta-agent",
		Short:             "Keeps AI coding assistants' hooks registered, judged and recorded on this machine",
		Version:           version.Version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Args:              cobra.NoArgs,
		RunE:              showHelp,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.open() },
	}
	root.PersistentFlags().StringVar(&a.root, "root", "", "move every path and the homes below this folder (tests, demo)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one line of JSON")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see `%s --help`", err, c.CommandPath())}
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		a.enrollCommand(), a.unenrollCommand(), a.runCommand(), a.statusCommand(), a.doctorCommand(), a.repairCommand(),
		a.syncCommand(), a.hooksCommand(), a.uninstallCommand(), a.guardCommand(), a.whyCommand(), a.diagnosticsCommand(),
		a.serviceCommand(), a.demoCommand(), a.workerCommand(), a.endpointCommand(),
	)
	markUsage(root)
	return root
}

func showHelp(c *cobra.Command, _ []string) error { return c.Help() }

// markUsage makes wrong arguments and missing flags of any command a usageError.
func markUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil {
				err = c.ValidateRequiredFlags()
			}
			if err != nil {
				return usageError{fmt.Errorf("%w; see `%s --help`", err, c.CommandPath())}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}
