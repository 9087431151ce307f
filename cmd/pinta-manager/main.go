// Command pinta-manager serves a Manager and administers one: tokens, groups, devices, policies, events, audit, API keys.
// Package manager does the work; here are flags, files and what people read.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/internal/version"
)

// Exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run executes one command line and returns its exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{out: stdout, errs: stderr}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errShown):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "pinta-manager: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "pinta-manager: %v\n", err)
	return exitFailed
}

// errShown ends a command that has said everything.
var errShown = errors.New("see the output")

// usageError is a mistake in the command line.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use: "pinta-manager", Short: "Enrols pinta agents, gives them their guard config, and keeps their events",
		Version: version.Version, SilenceUsage: true, SilenceErrors: true,
		Args: cobra.ArbitraryArgs, RunE: onlyChildren,
		Example: `  pinta-manager serve --data /var/lib/pinta-manager --url https://manager.example.com:8443
  pinta-manager token create --uses 50 --ttl 168h --admin-key-file admin-key.json
  pinta-manager policy apply -f policies/ --admin-key-file admin-key.json
  pinta-manager device list --admin-key-file admin-key.json`,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see `%s --help`", err, c.CommandPath())}
	})
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one line of JSON")
	f.StringVar(&a.server, "server", "", "`URL` of the Manager (default: the key file's)")
	f.StringVar(&a.keyFile, "admin-key-file", "", "`FILE` with an API key and the server's pin: admin-key.json in the data directory, or of api-key create")
	f.StringVar(&a.caFile, "ca-file", "", "PEM `FILE` of CAs to trust besides the system's, for a server without a pin")
	root.AddCommand(a.serveCommand(), a.tokenCommand(), a.groupCommand(), a.deviceCommand(), a.policyCommand(), a.eventsCommand(),
		a.auditCommand(), a.apiKeyCommand(), a.appealCommand(), a.keysCommand())
	return root
}

// args is cobra.ExactArgs with our kind of error.
func args(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) != n {
			return usage("%d arguments where %d are expected: %s", len(got), n, c.UseLine())
		}
		return nil
	}
}

// parent is a command that only has others below it.
func parent(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: onlyChildren}
	c.AddCommand(children...)
	return c
}

// onlyChildren runs a command that does nothing by itself.
func onlyChildren(c *cobra.Command, got []string) error {
	if len(got) == 0 {
		return c.Help()
	}
	hint := ""
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(got[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "? "
	}
	return usage("%s has no command %q: %ssee %s --help", c.CommandPath(), got[0], hint, c.CommandPath())
}
