package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

func (a *app) eventsCommand() *cobra.Command {
	return parent("events", "Events of all devices", a.eventsTail(), a.eventsSearch(), a.eventsExport())
}

// query is the filter flags.
type query struct {
	api.ListEventsParams
	since, until string
}

func (q *query) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&q.since, "since", "", "from this time on: RFC 3339, or 24h for a day ago")
	f.StringVar(&q.until, "until", "", "before this time")
	f.StringVar(&q.Device, "device", "", "device id")
	f.StringVar(&q.Group, "group", "", "group")
	f.StringVar(&q.User, "user", "", "user name")
	f.StringVar(&q.Session, "session", "", "session id")
	f.StringVar(&q.Kind, "kind", "", "kind of hook: pretooluse, posttooluse, userpromptsubmit …")
	f.StringVar(&q.Tool, "tool", "", "tool: shell, read, write, search, fetch, agent, mcp:server/tool, or the host's name")
	f.StringVar(&q.Agent, "agent", "", "sub-agent's id or name")
	f.StringVar(&q.Decision, "decision", "", "allow, deny or review")
	f.StringVar(&q.Evaluation, "evaluation", "", "evaluation id")
	f.StringVar(&q.Text, "text", "", "text in any attribute")
}

func (q *query) params() (p api.ListEventsParams, err error) {
	p = q.ListEventsParams
	if p.Since, err = instant("since", q.since); err != nil {
		return p, err
	}
	p.Until, err = instant("until", q.until)
	return p, err
}

func (a *app) eventsTail() *cobra.Command {
	var q query
	var follow bool
	count := 20
	c := &cobra.Command{Use: "tail", Short: "Show the newest events, and those to come with --follow", Args: args(0), RunE: func(c *cobra.Command, _ []string) error {
		p, err := q.params()
		if err != nil {
			return err
		}
		if count < 1 || count > 1000 {
			return usage("-n is 1 to 1000")
		}
		client, err := a.client()
		if err != nil {
			return err
		}
		p.Last = count
		page, err := api.JSON[api.EventPage](client.ListEvents(c.Context(), p))
		if err != nil {
			return err
		}
		if !follow {
			return a.print(page.Events, func(w io.Writer) { showEvents(w, page.Events) })
		}
		return a.follow(c.Context(), client, p, page)
	}}
	q.flags(c)
	c.Flags().BoolVar(&follow, "follow", false, "go on with new events until Ctrl-C; with --json one object a line")
	c.Flags().IntVarP(&count, "lines", "n", count, "events to show")
	return c
}

// follow prints pages as they come.
func (a *app) follow(ctx context.Context, client *api.Client, p api.ListEventsParams, page api.EventPage) error {
	p.Last, p.Wait = 0, 30
	for {
		for _, e := range page.Events {
			if err := a.print(e, func(w io.Writer) { fmt.Fprintln(w, eventLine(e)) }); err != nil {
				return err
			}
		}
		p.After = page.Next
		var err error
		page, err = api.JSON[api.EventPage](client.ListEvents(ctx, p))
		if ctx.Err() != nil {
			return nil // Ctrl-C
		}
		if err != nil {
			return err
		}
	}
}

func (a *app) eventsSearch() *cobra.Command {
	var q query
	limit := 100
	c := &cobra.Command{Use: "search", Short: "Search events, oldest first", Args: args(0), RunE: func(c *cobra.Command, _ []string) error {
		if limit < 1 {
			return usage("--limit is 1 or more")
		}
		p, err := q.params()
		if err != nil {
			return err
		}
		found := []api.Event{}
		err = a.pages(c.Context(), p, func(e api.Event) (bool, error) {
			found = append(found, e)
			return len(found) < limit, nil
		})
		if err != nil {
			return err
		}
		return a.print(found, func(w io.Writer) { showEvents(w, found) })
	}}
	q.flags(c)
	c.Flags().IntVar(&limit, "limit", limit, "events to show")
	return c
}

func (a *app) eventsExport() *cobra.Command {
	var q query
	var path string
	c := &cobra.Command{Use: "export", Short: "Write events with all attributes as lines of JSON", Args: args(0), RunE: func(c *cobra.Command, _ []string) error {
		p, err := q.params()
		if err != nil {
			return err
		}
		out := a.out
		if path != "" {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("export: %w", err)
			}
			defer f.Close()
			out = f
		}
		w := bufio.NewWriter(out)
		enc := json.NewEncoder(w)
		n := 0
		err = a.pages(c.Context(), p, func(e api.Event) (bool, error) {
			n++
			return true, enc.Encode(e)
		})
		if err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if path == "" {
			return nil
		}
		done := struct {
			File   string `json:"file"`
			Events int    `json:"events"`
		}{path, n}
		return a.print(done, func(w io.Writer) { fmt.Fprintf(w, "%d events in %s\n", n, path) })
	}}
	q.flags(c)
	c.Flags().StringVarP(&path, "output", "o", "", "new file to write (default: standard output)")
	return c
}

// pages calls do for each event until it returns false.
func (a *app) pages(ctx context.Context, p api.ListEventsParams, do func(api.Event) (bool, error)) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	for p.Limit = 500; ; {
		page, err := api.JSON[api.EventPage](client.ListEvents(ctx, p))
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			if more, err := do(e); err != nil || !more {
				return err
			}
		}
		if !page.More {
			return nil
		}
		p.After = page.Next
	}
}

func showEvents(w io.Writer, list []api.Event) {
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
	}
	for _, e := range list {
		fmt.Fprintln(w, eventLine(e))
	}
}

// eventLine is an event on one line: when, who, what, verdict.
func eventLine(e api.Event) string {
	what := e.Hook
	if what == "" {
		what = e.Name
	}
	if e.Tool != "" {
		what += " " + e.Tool
	}
	if e.Agent != "" {
		what += " (" + e.Agent + ")"
	}
	verdict := ""
	if e.Decision != "" {
		verdict = "  " + e.Decision
		if e.Rule != "" {
			verdict += " by " + e.Rule
		}
		if e.EvaluationID != "" {
			verdict += " " + e.EvaluationID
		}
	}
	who := e.User
	if e.Host != "" {
		who += "@" + e.Host
	}
	if who == "" {
		who = e.DeviceID
	}
	detail := e.Input
	if detail == "" {
		detail = e.Output
	}
	return fmt.Sprintf("%s  %-24s  %-28s%s  %s", e.At.Local().Format(time.DateTime), oneLine(who, 40), oneLine(what, 60), oneLine(verdict, 120), oneLine(detail, 100))
}
