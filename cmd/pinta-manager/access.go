package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/manager"
)

func (a *app) auditCommand() *cobra.Command {
	limit := 1000
	list := &cobra.Command{
		Use: "list", Short: "List the audit log and check its chain",
		Long: `List the audit log, oldest first, and check its hash chain here: each entry seals those before it. A broken chain is an error.`,
		Args: args(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit is 1 or more")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			entries := []api.AuditEntry{}
			for p := (api.ListAuditParams{Limit: 1000}); ; {
				page, err := api.JSON[api.AuditPage](client.ListAudit(c.Context(), p))
				if err != nil {
					return err
				}
				entries = append(entries, page.Entries...)
				if p.After = page.Next; p.After == "" {
					break
				}
			}
			holds := manager.AuditHolds(entries)
			shown := entries[max(0, len(entries)-limit):]
			err = a.print(shown, func(w io.Writer) {
				var rows [][]string
				for _, e := range shown {
					rows = append(rows, []string{fmt.Sprint(e.Seq), when(e.At), e.Actor, e.Action, dash(oneLine(e.Subject, 60)), dash(oneLine(e.Detail, 100))})
				}
				table(w, "SEQ\tTIME\tACTOR\tACTION\tSUBJECT\tDETAIL", rows)
			})
			if err == nil && !holds {
				err = fmt.Errorf("the audit log's chain is broken: an entry was changed or removed in the Manager's store")
			}
			return err
		},
	}
	list.Flags().IntVar(&limit, "limit", limit, "newest entries to show; all are checked")
	return parent("audit", "The audit log", list)
}

func (a *app) apiKeyCommand() *cobra.Command {
	in := api.APIKeyCreate{}
	var role, path string
	var ttl time.Duration
	create := &cobra.Command{Use: "create NAME --role ROLE -o FILE", Short: "Make an API key and write its key file", Args: args(1), RunE: func(c *cobra.Command, name []string) error {
		if path == "" {
			return usage("-o is needed: the key file to write")
		}
		client, err := a.client()
		if err != nil {
			return err
		}
		f, err := manager.ReadAdminKeyFile(a.keyFile)
		if err != nil {
			return err
		}
		in.Name, in.Role, in.TTLSeconds = name[0], api.Role(role), int64(ttl/time.Second)
		k, err := api.JSON[api.APIKey](client.CreateAPIKey(c.Context(), in))
		if err != nil {
			return err
		}
		f.Key = k.Secret
		if a.server != "" {
			f.Server = a.server
		}
		text, err := json.MarshalIndent(f, "", "  ")
		if err != nil {
			return err
		}
		if err := safefile.WriteFile(path, append(text, '\n'), safefile.Private); err != nil {
			return fmt.Errorf("key file: %w", err)
		}
		k.Secret = ""
		return a.print(k, func(w io.Writer) { fmt.Fprintf(w, "API key %s (%s) is in %s\n", k.ID, k.Role, path) })
	}}
	create.Flags().StringVar(&role, "role", "viewer", "viewer, operator, author or admin")
	create.Flags().StringSliceVar(&in.Groups, "group", nil, "group that it sees (repeatable; default: all)")
	create.Flags().DurationVar(&ttl, "ttl", 0, "how long it is good; 0: until revoked")
	create.Flags().StringVarP(&path, "output", "o", "", "key file to write (0600)")
	list := &cobra.Command{Use: "list", Short: "List API keys", Args: args(0), RunE: func(c *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		list, err := api.JSON[[]api.APIKey](client.ListAPIKeys(c.Context()))
		if err != nil {
			return err
		}
		return a.print(list, func(w io.Writer) {
			var rows [][]string
			for _, k := range list {
				state := "good"
				if !k.RevokedAt.IsZero() {
					state = "revoked"
				} else if !k.ExpiresAt.IsZero() && time.Now().After(k.ExpiresAt) {
					state = "expired"
				}
				rows = append(rows, []string{k.ID, oneLine(k.Name, 40), string(k.Role), dash(strings.Join(k.Groups, ",")), state, when(k.CreatedAt), ago(k.LastUsed)})
			}
			table(w, "KEY\tNAME\tROLE\tGROUPS\tSTATE\tCREATED\tUSED", rows)
		})
	}}
	revoke := &cobra.Command{Use: "revoke ID", Short: "Revoke an API key at once", Args: args(1), RunE: func(c *cobra.Command, id []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		k, err := api.JSON[api.APIKey](client.RevokeAPIKey(c.Context(), id[0]))
		if err != nil {
			return missing(err, "API key", "api-key list")
		}
		return a.print(k, func(w io.Writer) { fmt.Fprintf(w, "API key %s (%s) is revoked\n", k.ID, oneLine(k.Name, 60)) })
	}}
	return parent("api-key", "API keys of administrators and programs", create, list, revoke)
}

func (a *app) appealCommand() *cobra.Command {
	var all bool
	list := &cobra.Command{Use: "list", Short: "List reported false positives", Args: args(0), RunE: func(c *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		state := api.AppealFilterOpen
		if all {
			state = api.AppealFilterAll
		}
		list, err := api.JSON[[]api.Appeal](client.ListAppeals(c.Context(), api.ListAppealsParams{State: state}))
		if err != nil {
			return err
		}
		return a.print(list, func(w io.Writer) {
			var rows [][]string
			for _, p := range list {
				rows = append(rows, []string{p.ID, string(p.State), when(p.At), dash(oneLine(p.User, 30)), dash(oneLine(p.RuleID, 40)), oneLine(p.EvaluationID, 40), oneLine(p.Reason, 100)})
			}
			table(w, "APPEAL\tSTATE\tTIME\tUSER\tRULE\tEVALUATION\tREASON", rows)
		})
	}}
	list.Flags().BoolVar(&all, "all", false, "closed ones too")
	in := api.AppealResolution{}
	resolve := &cobra.Command{Use: "resolve ID accepted|rejected", Short: "Close an appeal", Args: args(2), RunE: func(c *cobra.Command, got []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		in.State = api.AppealState(got[1])
		p, err := api.JSON[api.Appeal](client.ResolveAppeal(c.Context(), got[0], in))
		if err != nil {
			return missing(err, "appeal", "appeal list --all")
		}
		return a.print(p, func(w io.Writer) { fmt.Fprintf(w, "appeal %s is %s\n", p.ID, p.State) })
	}}
	resolve.Flags().StringVar(&in.Note, "note", "", "why")
	return parent("appeal", "Reported false positives", list, resolve)
}

func (a *app) keysCommand() *cobra.Command {
	show := func(k api.SigningKeys) error {
		return a.print(k, func(w io.Writer) {
			fields(w, "root", k.Root, "statement", fmt.Sprintf("version %d", k.Version))
			var rows [][]string
			for _, key := range k.Keys {
				state := ""
				if key.Kid == k.Active {
					state = "signs"
				}
				rows = append(rows, []string{key.Kid, state})
			}
			fmt.Fprintln(w)
			table(w, "SIGNING KEY\t", rows)
		})
	}
	list := &cobra.Command{Use: "show", Short: "Show root fingerprint and signing keys", Args: args(0), RunE: func(c *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		k, err := api.JSON[api.SigningKeys](client.GetSigningKeys(c.Context()))
		if err != nil {
			return err
		}
		return show(k)
	}}
	rotate := &cobra.Command{Use: "rotate", Short: "Make a new signing key, stated by the root key", Args: args(0), RunE: func(c *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		k, err := api.JSON[api.SigningKeys](client.RotateSigningKey(c.Context()))
		if err != nil {
			return err
		}
		return show(k)
	}}
	return parent("keys", "Root and signing keys", list, rotate)
}
