package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/installer"
)

func (a *app) repairCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "repair",
		Short: "Put hook files, env files and the hook binary right",
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
			plan, err := installer.Plan(c.Context(), installer.Real(a.layout), desired)
			if err != nil {
				return err
			}
			if dryRun {
				return a.print(plan, func(p *page) { p.changes(plan, "would") })
			}
			done, err := plan.Apply(c.Context())
			if err != nil {
				return err
			}
			if err := a.print(done, func(p *page) { p.changes(done, "did") }); err != nil {
				return err
			}
			if !done.OK() {
				return exitStatus(1)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done, and do nothing")
	return c
}

// changes prints the steps of a plan or of what came of it.
func (p *page) changes(c installer.Changes, verb string) {
	if len(c.Steps) == 0 {
		p.mark(markOK, "everything is right: nothing to do")
	}
	for _, s := range c.Steps {
		who := string(s.Object)
		if s.User != "" {
			who += " of " + s.User
		}
		kind := markOK
		if s.Error != "" {
			kind = markFail
		}
		p.mark(kind, "%s: %s (%s)", who, s.Kind, s.Path)
		for _, op := range s.Ops {
			p.printf("         %s %s\n", verb, op)
		}
		if s.Error != "" {
			p.printf("         %s\n", s.Error)
		}
	}
	for _, s := range c.Skipped {
		p.mark(markWarn, "user %s skipped: %s", s.User, s.Reason)
	}
}

func (a *app) uninstallCommand() *cobra.Command {
	var now, purge bool
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Take every hook out again",
		Long: "Removes the machine policy entries, the users' entries and env keys, and, after a grace in which hooks that\n" +
			"have started may end, the hook binary. What a running session still holds exits 0.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.uninstall(c.Context(), now, purge) },
	}
	c.Flags().BoolVar(&now, "now", false, "remove the hook binary at once")
	c.Flags().BoolVar(&purge, "purge", false, "also remove the agent's state and the hooks' queues")
	return c
}

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Look for everything that keeps hooks from working",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := a.diagnose(c.Context())
			if err != nil {
				return err
			}
			if err := a.print(d, func(p *page) {
				p.way(d.Manager)
				p.title("Findings")
				p.findings(d.Findings)
				p.summary(d.Findings)
			}); err != nil {
				return err
			}
			if d.Broken() {
				return exitStatus(1)
			}
			return nil
		},
	}
}

// way prints how the Manager is reached.
func (p *page) way(w *way) {
	if w == nil {
		return
	}
	p.title("Way to the Manager")
	p.row("address", "%s", w.URL)
	p.row("proxy", "%s", w.Proxy)
	for _, c := range w.Chain {
		p.row("certificate", "%s", c)
	}
}

// findings prints what doctor found, each with its remedy.
func (p *page) findings(list []installer.Finding) {
	marks := map[installer.Severity]string{installer.Error: markFail, installer.Warning: markWarn, installer.Notice: markInfo}
	for _, f := range list {
		who := ""
		if f.User != "" {
			who = " (" + f.User + ")"
		}
		p.mark(marks[f.Severity], "%s%s: %s", f.ID, who, f.Detail)
		if f.Remedy != "" {
			p.note("%s", f.Remedy)
		}
	}
}

// summary closes what doctor prints, whatever it found.
func (p *page) summary(list []installer.Finding) {
	count := map[installer.Severity]int{}
	fixable := 0
	for _, f := range list {
		count[f.Severity]++
		if f.Fixable {
			fixable++
		}
	}
	text := fmt.Sprintf("%d error(s), %d warning(s), %d notice(s)", count[installer.Error], count[installer.Warning], count[installer.Notice])
	if fixable > 0 {
		text += fmt.Sprintf("; `pinta-agent repair` mends %d of them", fixable)
	}
	switch {
	case count[installer.Error] > 0:
		p.mark(markFail, "%s", text)
	case count[installer.Warning] > 0:
		p.mark(markWarn, "%s", text)
	case len(list) > 0:
		p.mark(markOK, "all ok: hooks are registered and answered; %s", text)
	default:
		p.mark(markOK, "all ok: hooks are registered and answered")
	}
}
