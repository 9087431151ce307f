package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/endpoint"
	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/guard"
	"github.com/pinta-ai/pinta-agent/guard/detect"
	"github.com/pinta-ai/pinta-agent/internal/api"
)

// checkGuard is what the service checks before it puts a config in force.
func checkGuard(c *api.GuardConfig) error {
	return guard.NewEngine(guard.Options{}).Load(c.Guard, c.Version, c.Group)
}

func (a *app) guardCommand() *cobra.Command {
	var file, event, user string
	eval := &cobra.Command{
		Use:   "eval --event FILE",
		Short: "Judge a host's event by the config in force",
		Long:  "Judges a payload, as a host gives it to the hook, by the config in force: verdict, rule and time. FILE may be - for\nstandard input. Nothing is recorded, and no remote tier is asked.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			data, err := readInput(file, a.stdin)
			if err != nil {
				return err
			}
			e, err := guard.EventFromPayload(data, event)
			if err != nil {
				return fmt.Errorf("event %s: %w", file, err)
			}
			e.User = user
			return a.eval(c, e)
		},
	}
	eval.Flags().StringVar(&file, "event", "", "payload of a host's event, - for standard input")
	eval.Flags().StringVar(&event, "name", "", "the event's name, if the payload has none (camelCase payloads)")
	eval.Flags().StringVar(&user, "user", "", "judge as if this user had called")
	eval.MarkFlagRequired("event") //nolint:errcheck // the flag exists
	c := &cobra.Command{Use: "guard", Short: "Ask the guard by hand", Args: cobra.NoArgs,
		RunE: showHelp}
	c.AddCommand(eval)
	return c
}

// evaluated is what `guard eval` prints.
type evaluated struct {
	Answer        guard.Answer  `json:"answer"`
	Verdict       guard.Verdict `json:"verdict"`
	ConfigVersion int64         `json:"configVersion"`
	Judged        bool          `json:"judged"`
	Why           string        `json:"why,omitempty"` // an event isn't judged
}

func (a *app) eval(c *cobra.Command, e *guard.Event) error {
	state, err := enroll.Open(a.layout.StateDir)
	if err != nil {
		return err
	}
	m, err := a.machine(c.Context(), state)
	if err != nil {
		return err
	}
	var out evaluated
	engine := guard.NewEngine(guard.Options{Log: a.logger(), OnVerdict: func(v guard.Verdict) { out.Verdict = v }})
	if m.Config != nil {
		if err := engine.Load(m.Config.Guard, m.Config.Version, m.Config.Group); err != nil {
			return err
		}
		out.ConfigVersion = m.Config.Version
	}
	e.Host, _ = os.Hostname()
	detect.Standard() // the service has them by then: the time is that of a judgement
	out.Why = e.Unjudged()
	out.Judged = out.Why == ""
	out.Answer = engine.Evaluate(c.Context(), e, 8*time.Second)
	return a.print(out, func(p *page) {
		if !out.Judged {
			p.title("not judged")
			p.row("why", "%s", out.Why)
			return
		}
		p.title(out.Answer.Decision)
		p.row("rule", "%s", out.Answer.Reason)
		p.row("message", "%s", out.Answer.UserMessage)
		p.row("output", "%s", out.Answer.OutputAction)
		p.row("categories", "%s", strings.Join(out.Verdict.Categories, ", "))
		p.row("matched", "%s", out.Verdict.Excerpt)
		p.row("monitor", "%s", out.Verdict.Would)
		p.row("failed", "%s", strings.Join(out.Verdict.Failed, ", "))
		p.row("config", "version %d", out.ConfigVersion)
		p.row("time", "%.2f ms", out.Answer.DurationMs)
	})
}

const maxEvent = 16 << 20

func readInput(file string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxEvent+1))
	if err == nil && len(data) > maxEvent {
		err = errors.New("larger than any event that a hook takes (16 MiB)")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return data, nil
}

func (a *app) whyCommand() *cobra.Command {
	var reason string
	var falsePositive bool
	c := &cobra.Command{
		Use:   "why EVALUATION-ID",
		Short: "Explain a denial by its evaluation id",
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("name the evaluation id that the denial showed")
			case len(args) > 1:
				return fmt.Errorf("one evaluation id at a time; why a denial is wrong is said by --reason %q", args[1])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			v, err := guard.FindEvaluation(filepath.Join(a.layout.StateDir, "spool", endpoint.EvaluationsFile), args[0])
			if err != nil {
				return err
			}
			if falsePositive {
				if err := a.appeal(c, v, reason); err != nil {
					return err
				}
			}
			return a.print(v, func(p *page) {
				p.title(fmt.Sprintf("%s by rule %s", v.Decision, v.Rule))
				p.row("when", "%s", v.Time.Local().Format(time.DateTime))
				p.row("call", "%s of %s (%s)", v.Kind, v.HostTool, v.Tool)
				p.row("user", "%s", v.User)
				p.row("matched", "%s", v.Excerpt)
				p.row("found", "%s", strings.Join(v.Categories, ", "))
				p.row("remedy", "%s", v.Message)
				p.row("tags", "%s", strings.Join(v.Tags, ", "))
				p.row("config", "version %d", v.ConfigVersion)
				if falsePositive {
					p.mark(markOK, "reported to the Manager as a false positive")
				} else {
					p.row("appeal", "pinta-agent why %s --report-false-positive --reason TEXT (sends id and reason, never content)", v.EvaluationID)
				}
			})
		},
	}
	c.Flags().BoolVar(&falsePositive, "report-false-positive", false, "tell the Manager that this denial is wrong: id and reason, never content")
	c.Flags().StringVar(&reason, "reason", "", "why the denial is wrong")
	return c
}

// appeal sends id, rule and reason; nothing of the event.
func (a *app) appeal(c *cobra.Command, v guard.Verdict, reason string) error {
	if strings.TrimSpace(reason) == "" {
		return usageError{errors.New("say why with --reason: somebody has to decide about it")}
	}
	state, err := enroll.Open(a.layout.StateDir)
	if err != nil {
		return err
	}
	client := enroll.NewClient(state, a.settings.Network(), a.logger())
	defer client.Close()
	manager, err := client.API()
	if err != nil {
		return err
	}
	_, err = api.JSON[api.Appeal](manager.Appeal(c.Context(), api.AppealRequest{EvaluationID: v.EvaluationID, RuleID: v.Rule, Reason: reason}))
	if err != nil {
		return fmt.Errorf("report the false positive: %w", err)
	}
	return nil
}
