package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinta-ai/pinta-agent/e2e/mcp"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] { // as the host starts this program in a session
		case recordVerb:
			os.Exit(record(os.Args[2:], os.Stdin))
		case answerVerb:
			os.Exit(answer(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case mcpVerb:
			mcp.Serve(os.Stdin, os.Stdout)
			return
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "radar:", err)
		}
		os.Exit(1)
	}
}

// radar is one run over some versions.
type radar struct {
	checkout string // root of the source tree
	work     string // installed CLIs, programs, sessions
	out      io.Writer
	parts    map[string]bool // what to look at
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("radar", flag.ContinueOnError)
	work := flags.String("work", filepath.Join(os.TempDir(), "pinta-radar"), "folder for installed CLIs, programs and sessions; kept")
	parts := flags.String("part", "scenarios,host,payloads", "what to look at; the rest stays as it is recorded")
	compare := flags.Bool("compare", false, "only compare: record nothing, write no document")
	document := flags.Bool("document", false, "only write docs/hosts.md from what is recorded")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: go run ./e2e/radar [-compare] [-work DIR] VERSION…")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	checkout, err := checkoutRoot(ctx)
	if err != nil {
		return err
	}
	r := radar{checkout: checkout, work: *work, out: out, parts: map[string]bool{}}
	for part := range strings.SplitSeq(*parts, ",") {
		if part != "scenarios" && part != "host" && part != "payloads" {
			return fmt.Errorf("-part: %q is none of scenarios, host, payloads", part)
		}
		r.parts[part] = true
	}
	if *document {
		return r.writeDocument()
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return errors.New("name at least one version of the Copilot CLI, such as 1.0.102")
	}
	for _, v := range flags.Args() {
		if !isVersion(v) {
			return fmt.Errorf("%q is no version such as 1.0.102", v)
		}
	}
	tools, err := r.build(ctx)
	if err != nil {
		return err
	}
	changed := false
	for _, v := range flags.Args() {
		differs, err := r.look(ctx, tools, v, *compare)
		if err != nil {
			return fmt.Errorf("version %s: %w", v, err)
		}
		changed = changed || differs
	}
	if *compare {
		if changed {
			return errors.New("something differs from what is recorded")
		}
		return nil
	}
	return r.writeDocument()
}

// checkoutRoot is the folder of the module that the caller stands in.
func checkoutRoot(ctx context.Context) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}")
	text, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w: run radar inside a checkout", err)
	}
	path, dir, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if path != "github.com/pinta-ai/pinta-agent" {
		return "", fmt.Errorf("run radar inside a checkout of pinta-agent, not of %s", path)
	}
	return dir, nil
}

// look examines one version, prints what differs, and records it.
func (r radar) look(ctx context.Context, t tools, version string, compareOnly bool) (differs bool, err error) {
	fmt.Fprintf(r.out, "== Copilot CLI %s\n", version)
	cli, err := r.install(ctx, version)
	if err != nil {
		return false, err
	}
	s, err := newStage(r, t, cli, version)
	if err != nil {
		return false, err
	}
	results, err := r.results()
	if err != nil {
		return false, err
	}
	base, known := baseline(results, version)
	fmt.Fprintf(r.out, "   %s\n", comparedWith(base, version, known))
	result := Result{Version: version}
	if known {
		result = base // of the parts that are not looked at
	}
	against := result
	if r.parts["scenarios"] {
		fmt.Fprintln(r.out, "   playing the scenarios, which takes minutes")
		if result.Scenarios, result.Failed, err = s.scenarios(ctx); err != nil {
			return false, err
		}
		against.Scenarios = base.Scenarios
	}
	if r.parts["host"] {
		fmt.Fprintln(r.out, "   trying exit codes, time limits and outputs of a hook")
		if result.Host, err = s.probe(ctx); err != nil {
			return false, err
		}
		against.Host = base.Host
	}
	differences := compare(against, result)
	var payloads map[string][]byte
	if r.parts["payloads"] {
		fmt.Fprintln(r.out, "   capturing the payloads of every event")
		if payloads, err = s.capture(ctx); err != nil {
			return false, err
		}
		recorded, err := r.recorded(version)
		if err != nil {
			return false, err
		}
		differences = append(differences, comparePayloads(recorded, payloads)...)
	}
	for _, name := range result.Failed {
		fmt.Fprintf(r.out, "   FAILED %s: see %s\n", name, s.log())
	}
	report(r.out, r.parts, differences)
	if compareOnly {
		return len(differences) > 0, nil
	}
	if err := r.savePayloads(version, payloads); err != nil {
		return false, err
	}
	if err := r.save(result); err != nil {
		return false, err
	}
	fmt.Fprintf(r.out, "   recorded in %s\n", r.resultDir())
	return len(differences) > 0, nil
}

func comparedWith(base Result, version string, known bool) string {
	switch {
	case known:
		return "compared with what was recorded of it"
	case base.Version != "":
		return "never seen before: compared with " + base.Version
	}
	return "never seen before, and no version below it either"
}

// sorted are the keys of all maps, each once.
func sorted[V any](all ...map[string]V) []string {
	keys := map[string]bool{}
	for _, m := range all {
		for k := range m {
			keys[k] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}
