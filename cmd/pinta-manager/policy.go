package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/guard"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager"
)

const maxEventFile = 16 << 20 // bytes

func (a *app) policyCommand() *cobra.Command {
	return parent("policy", "Guard policies", a.policyTest(), a.policyApply(), a.policyExplain(), a.policyShow(), a.policyHistory(), a.policyRollback(), a.policyOverride())
}

// pathFlag adds -f, which every command on files has.
func pathFlag(c *cobra.Command, paths *[]string) {
	c.Flags().StringArrayVarP(paths, "file", "f", nil, "policy file or folder of them, or builtin (repeatable)")
}

// author parses what -f names, on this machine. A refusal is shown line by line.
func (a *app) author(paths []string) (*guard.Authored, error) {
	if len(paths) == 0 {
		return nil, usage("-f is needed: a policy file or a folder of them")
	}
	p, err := guard.ParsePolicy(withFixtures(paths)...)
	if err != nil {
		return nil, a.refused(manager.Findings(err.Error()))
	}
	return p, nil
}

// withFixtures adds the NAME.test.yaml beside each policy file that is named by
// itself; of a folder they are read anyway.
func withFixtures(paths []string) []string {
	all := slices.Clone(paths)
	for _, p := range paths {
		ext := filepath.Ext(p)
		name := strings.TrimSuffix(p, ext)
		if ext != ".yaml" && ext != ".yml" || strings.HasSuffix(name, ".test") {
			continue
		}
		if info, err := os.Stat(p); err != nil || info.IsDir() {
			continue
		}
		for _, beside := range []string{name + ".test.yaml", name + ".test.yml"} {
			if info, err := os.Stat(beside); err == nil && !info.IsDir() && !slices.Contains(all, beside) {
				all = append(all, beside)
			}
		}
	}
	return all
}

// refused shows why a policy isn't taken.
func (a *app) refused(findings []api.PolicyFinding) error {
	out := struct {
		OK       bool                `json:"ok"`
		Findings []api.PolicyFinding `json:"findings"`
	}{false, findings}
	if err := a.print(out, func(io.Writer) {}); err != nil {
		return err
	}
	for _, f := range findings {
		fmt.Fprintln(a.errs, place(f)+oneLine(f.Message, 1000))
	}
	fmt.Fprintln(a.errs, "pinta-manager: the policy is refused; nothing was published")
	return errShown
}

// place is where a finding is, as compilers say it.
func place(f api.PolicyFinding) string {
	switch {
	case f.File == "":
		return ""
	case f.Line == 0:
		return oneLine(f.File, 300) + ": "
	}
	return fmt.Sprintf("%s:%d: ", oneLine(f.File, 300), f.Line)
}

// sources reads what -f names for the wire: policy files only, fixtures stay here.
func sources(paths []string) (files []api.PolicyFile, err error) {
	add := func(path string) error {
		if strings.HasSuffix(path, ".test.yaml") || strings.HasSuffix(path, ".test.yml") {
			return nil
		}
		text, err := readFile(path, guard.MaxPolicyBytes)
		files = append(files, api.PolicyFile{Name: path, Content: text})
		return err
	}
	for _, p := range paths {
		if p == "builtin" || strings.HasPrefix(p, "builtin:") {
			files = append(files, api.PolicyFile{Name: p})
			continue
		}
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("read policy: %w", err)
		}
		if !info.IsDir() {
			if err := add(p); err != nil {
				return nil, err
			}
			continue
		}
		entries, err := os.ReadDir(p) // sorted by name
		if err != nil {
			return nil, fmt.Errorf("read policy folder: %w", err)
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
				if err := add(filepath.Join(p, e.Name())); err != nil {
					return nil, err
				}
			}
		}
	}
	return files, nil
}

func readFile(path string, limit int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return string(text), err
}

func (a *app) policyTest() *cobra.Command {
	var paths, events []string
	c := &cobra.Command{
		Use: "test -f PATH [--event FILE]…", Short: "Check a policy, run its fixtures, judge events",
		Long: `Check a policy as publishing would, run the fixtures beside it (NAME.test.yaml) and judge the hook payloads of --event.
All of it happens on this machine; with --admin-key-file the Manager checks the policy as well.`,
		Args: args(0),
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := a.author(paths)
			if err != nil {
				return err
			}
			var list []api.PolicyFile
			for _, e := range events {
				text, err := readFile(e, maxEventFile)
				if err != nil {
					return fmt.Errorf("read event: %w", err)
				}
				list = append(list, api.PolicyFile{Name: e, Content: text})
			}
			if a.keyFile != "" {
				if err := a.validate(c.Context(), paths); err != nil {
					return err
				}
			}
			out, err := manager.TestPolicy(p, list)
			if err != nil {
				return err
			}
			if err := a.print(out, func(w io.Writer) { showTest(w, out, p.Warnings) }); err != nil {
				return err
			}
			if !out.Ok {
				return errShown
			}
			return nil
		},
	}
	pathFlag(c, &paths)
	c.Flags().StringArrayVar(&events, "event", nil, "file with a hook's payload (repeatable)")
	return c
}

func showTest(w io.Writer, t api.PolicyTestResult, warnings []string) {
	fmt.Fprintf(w, "%d rules, %d of %d fixtures pass\n", t.Rules, t.Fixtures-len(t.Failures), t.Fixtures)
	for _, s := range warnings {
		fmt.Fprintf(w, "warning: %s\n", oneLine(s, 500))
	}
	for _, f := range t.Failures {
		fmt.Fprintf(w, "FAIL %s%s\n", place(f), oneLine(f.Message, 500))
	}
	if len(t.Events) == 0 {
		return
	}
	var rows [][]string
	for _, v := range t.Events {
		rows = append(rows, []string{oneLine(v.Event, 80), v.Decision, dash(v.OutputAction), dash(v.Rule), oneLine(v.Message, 100)})
	}
	fmt.Fprintln(w)
	table(w, "EVENT\tVERDICT\tOUTPUT\tRULE\t", rows)
}

func (a *app) validate(ctx context.Context, paths []string) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	files, err := sources(paths)
	if err != nil {
		return err
	}
	return a.invalid(api.Done(client.ValidatePolicy(ctx, api.PolicySource{Files: files})))
}

// invalid shows the findings of the Manager's refusal.
func (a *app) invalid(err error) error {
	var p *api.Problem
	if errors.As(err, &p) && p.Code == api.ProblemCodePolicyInvalid {
		return a.refused(p.Findings)
	}
	return err
}

func (a *app) policyApply() *cobra.Command {
	var paths []string
	var group, note string
	c := &cobra.Command{
		Use: "apply -f PATH [--group G]", Short: "Publish a policy at once", Args: args(0),
		Example: `  pinta-manager policy test -f policies/
  pinta-manager policy apply -f policies/ --group eng --note "curl is reviewed"`,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(paths) == 0 {
				return usage("-f is needed: a policy file or a folder of them")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			files, err := sources(paths)
			if err != nil {
				return err
			}
			v, err := api.JSON[api.PolicyVersion](client.PublishPolicy(c.Context(), api.PolicyPublish{Files: files, Group: group, Note: note}))
			if err != nil {
				return a.invalid(err)
			}
			return a.published(v)
		},
	}
	pathFlag(c, &paths)
	c.Flags().StringVar(&group, "group", "", "only for this group (default: all, those to come included)")
	c.Flags().StringVar(&note, "note", "", "what changed, for the history")
	return c
}

func (a *app) published(v api.PolicyVersion) error {
	return a.print(v, func(w io.Writer) {
		fmt.Fprintf(w, "version %d is published to %s: %d rules, mode %s\n", v.Version, target(v), v.Rules, v.Mode)
	})
}

func target(v api.PolicyVersion) string {
	if v.Group == "" {
		return "all groups"
	}
	return "group " + v.Group
}

func (a *app) policyExplain() *cobra.Command {
	var paths []string
	var event string
	c := &cobra.Command{
		Use: "explain -f PATH --event FILE", Short: "Say why an event gets its verdict", Args: args(0),
		RunE: func(_ *cobra.Command, _ []string) error {
			if event == "" {
				return usage("--event is needed: a file with a hook's payload")
			}
			p, err := a.author(paths)
			if err != nil {
				return err
			}
			text, err := readFile(event, maxEventFile)
			if err != nil {
				return fmt.Errorf("read event: %w", err)
			}
			e, err := explain(p, text)
			if err != nil {
				return err
			}
			return a.print(e, func(w io.Writer) { showExplanation(w, e) })
		},
	}
	pathFlag(c, &paths)
	c.Flags().StringVar(&event, "event", "", "file with a hook's payload")
	return c
}

func (a *app) policyShow() *cobra.Command {
	return &cobra.Command{Use: "show [VERSION]", Short: "Show a version with its source (default: the newest)",
		Args: func(c *cobra.Command, got []string) error {
			if len(got) > 1 {
				return args(1)(c, got)
			}
			return nil
		},
		RunE: func(c *cobra.Command, in []string) error {
			version := int64(0)
			if len(in) == 1 {
				var err error
				if version, err = versionArg(in[0]); err != nil {
					return err
				}
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			v, err := api.JSON[api.PolicyVersion](client.GetPolicy(c.Context(), version))
			if err != nil {
				return missing(err, "version", "policy history")
			}
			return a.print(v, func(w io.Writer) {
				fields(w, "version", strconv.FormatInt(v.Version, 10), "for", target(v), "in force", strings.Join(v.InForce, ", "), "published", when(v.PublishedAt)+" by "+v.PublishedBy,
					"note", oneLine(v.Note, 500), "mode", v.Mode, "rules", strconv.Itoa(v.Rules))
				for _, f := range v.Files {
					fmt.Fprintf(w, "\n# %s\n%s", oneLine(f.Name, 300), f.Content)
				}
			})
		}}
}

func versionArg(s string) (int64, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < 1 {
		return 0, usage("a version is a number from 1 on, as policy history lists them")
	}
	return v, nil
}

func (a *app) policyHistory() *cobra.Command {
	limit := 50
	c := &cobra.Command{Use: "history", Short: "List published versions, newest first", Args: args(0), RunE: func(c *cobra.Command, _ []string) error {
		if limit < 1 || limit > 1000 {
			return usage("--limit is 1 to 1000")
		}
		client, err := a.client()
		if err != nil {
			return err
		}
		list, err := api.JSON[[]api.PolicyVersion](client.ListPolicies(c.Context(), api.ListPoliciesParams{Limit: limit}))
		if err != nil {
			return err
		}
		return a.print(list, func(w io.Writer) {
			var rows [][]string
			for _, v := range list {
				rows = append(rows, []string{strconv.FormatInt(v.Version, 10), target(v), strconv.Itoa(v.Rules), v.Mode, dash(strings.Join(v.InForce, ",")), when(v.PublishedAt),
					v.PublishedBy, dash(oneLine(v.Note, 60))})
			}
			table(w, "VERSION\tFOR\tRULES\tMODE\tIN FORCE\tPUBLISHED\tBY\tNOTE", rows)
		})
	}}
	c.Flags().IntVar(&limit, "limit", limit, "versions to list, 1000 at most")
	return c
}

func (a *app) policyRollback() *cobra.Command {
	return &cobra.Command{Use: "rollback VERSION", Short: "Publish an old version's content again, as a new version", Args: args(1), RunE: func(c *cobra.Command, in []string) error {
		version, err := versionArg(in[0])
		if err != nil {
			return err
		}
		client, err := a.client()
		if err != nil {
			return err
		}
		v, err := api.JSON[api.PolicyVersion](client.RollbackPolicy(c.Context(), version))
		if err != nil {
			return missing(a.invalid(err), "version", "policy history")
		}
		return a.published(v)
	}}
}

func (a *app) policyOverride() *cobra.Command {
	return &cobra.Command{Use: "override VERSION", Short: "Let devices with a higher version take this one, once, within 24 h (after a restore)", Args: args(1),
		RunE: func(c *cobra.Command, in []string) error {
			version, err := versionArg(in[0])
			if err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			s, err := api.JSON[api.Statement](client.OverrideVersion(c.Context(), version))
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) {
				fmt.Fprintf(w, "devices take version %d once within 24 h, whatever they had\n", version)
			})
		}}
}

// explanation is why an event gets its verdict.
type explanation struct {
	Decision string        `json:"decision"`
	Judged   bool          `json:"judged"`
	Why      string        `json:"why,omitempty"` // an event isn't judged
	Rule     string        `json:"rule,omitempty"`
	Message  string        `json:"message,omitempty"`
	Matched  []matchedRule `json:"matched"`
	Failed   []failedRule  `json:"failed,omitempty"`
	Rules    int           `json:"rules"`
}

// failedRule is a rule that doesn't match because its condition failed.
type failedRule struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// matchedRule is a rule that matches.
type matchedRule struct {
	ID      string   `json:"id"`
	Action  string   `json:"action"`
	On      string   `json:"on"`
	When    string   `json:"when,omitempty"`
	Detect  []string `json:"detect,omitempty"`
	Message string   `json:"message,omitempty"`
	Decides bool     `json:"decides"`
}

// explain judges an event by the whole policy, and lists every rule that matches it.
func explain(p *guard.Authored, event string) (explanation, error) {
	e := explanation{Matched: []matchedRule{}, Rules: len(p.Rules)}
	result, matches, err := p.Explain(guard.Fixture{Event: json.RawMessage(event)})
	if err != nil {
		return e, err
	}
	if result.Got == "error" {
		return e, fmt.Errorf("the event can't be judged: %s", result.Reason)
	}
	e.Decision, e.Rule, e.Judged, e.Why = result.Got, result.Rule, result.Unjudged == "", result.Unjudged
	for _, m := range matches {
		if m.Failed != "" {
			e.Failed = append(e.Failed, failedRule{m.ID, m.Failed})
			continue
		}
		if m.Decides {
			e.Message = m.Message
		}
		e.Matched = append(e.Matched, matchedRule{ID: m.ID, Action: m.Action, On: m.On, When: m.When, Detect: m.Detect, Message: m.Message, Decides: m.Decides})
	}
	return e, nil
}

func showExplanation(w io.Writer, e explanation) {
	if !e.Judged {
		fmt.Fprintf(w, "not judged: %s\n", oneLine(e.Why, 200))
		return
	}
	fields(w, "verdict", e.Decision, "rule", e.Rule, "message", oneLine(e.Message, 1000))
	for _, f := range e.Failed {
		fmt.Fprintf(w, "rule %s does not match, its condition fails: %s\n", f.ID, oneLine(f.Error, 200))
	}
	if len(e.Matched) == 0 {
		fmt.Fprintf(w, "none of the %d rules matches\n", e.Rules)
		return
	}
	var rows [][]string
	for _, m := range e.Matched {
		why := ""
		if m.Decides {
			why = "decides"
		}
		rows = append(rows, []string{m.ID, m.Action, m.On, why, dash(oneLine(m.When, 120)), dash(strings.Join(m.Detect, ","))})
	}
	fmt.Fprintln(w, "\nrules that match, most severe first:")
	table(w, "RULE\tACTION\tON\t\tWHEN\tDETECT", rows)
}
