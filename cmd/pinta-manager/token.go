package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
)

func (a *app) tokenCommand() *cobra.Command {
	return parent("token", "Enrolment tokens", a.tokenCreate(), a.tokenList(), a.tokenRevoke())
}

func (a *app) tokenCreate() *cobra.Command {
	in := api.TokenCreate{}
	var ttl time.Duration
	var serialsFile string
	c := &cobra.Command{
		Use: "create", Short: "Make an enrolment token",
		Long: `Make an enrolment token and print it, this once: its secret is made here and never sent; the Manager keeps the public key.`,
		Example: `  pinta-manager token create                                  one machine, for a day
  pinta-manager token create --uses 0 --ttl 720h --group eng  any number of machines, for a month, into group eng
  pinta-manager token create --cidr 10.0.0.0/8 --json`,
		Args: args(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if ttl < 0 || in.Uses < 0 {
				return usage("--ttl and --uses can't be negative (0: no expiry, reusable)")
			}
			if ttl > 0 && ttl < time.Second {
				return usage("--ttl is at least 1s")
			}
			in.TTLSeconds = int64(ttl / time.Second)
			if serialsFile != "" {
				text, err := os.ReadFile(serialsFile)
				if err != nil {
					return fmt.Errorf("serial numbers: %w", err)
				}
				in.Serials = append(in.Serials, strings.Fields(string(text))...)
			}
			return a.createToken(c.Context(), in)
		},
	}
	f := c.Flags()
	f.IntVar(&in.Uses, "uses", 1, "number `N` of machines that may enrol with it; 0: any number")
	f.DurationVar(&ttl, "ttl", 24*time.Hour, "how long it is good, such as 90m or 720h; 0: until revoked")
	f.StringVar(&in.Group, "group", "default", "`GROUP` of the machines")
	f.StringSliceVar(&in.Cidrs, "cidr", nil, "addresses that it is good from, such as 10.0.0.0/8 (`CIDR`, repeatable)")
	f.StringSliceVar(&in.Serials, "serial", nil, "serial `NUMBER` or machine id that it is good for (repeatable)")
	f.StringVar(&serialsFile, "serials-file", "", "`FILE` with such serial numbers, one a line")
	return c
}

func (a *app) createToken(ctx context.Context, in api.TokenCreate) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	in.ID, in.PublicKey = ulid.Make().String(), api.EncodeKey(pub)
	made, err := api.JSON[api.TokenCreated](client.CreateToken(ctx, in))
	if err != nil {
		return err
	}
	t, err := assemble(key, made)
	if err != nil {
		return errors.Join(err, api.Done(client.RevokeToken(ctx, in.ID)))
	}
	expires := json.RawMessage("null")
	if !made.ExpiresAt.IsZero() {
		if expires, err = json.Marshal(made.ExpiresAt); err != nil {
			return err
		}
	}
	out := struct {
		Token     string          `json:"token"`
		ID        string          `json:"id"`
		ExpiresAt json.RawMessage `json:"expiresAt"`
	}{t.Reveal(), made.ID, expires}
	return a.print(out, func(w io.Writer) {
		fmt.Fprintln(w, out.Token)
		until := "until it is revoked"
		if !made.ExpiresAt.IsZero() {
			until = "until " + when(made.ExpiresAt)
		}
		uses := "any number of machines"
		if in.Uses > 0 {
			uses = fmt.Sprintf("%d machine(s)", in.Uses)
		}
		fmt.Fprintf(a.errs, "token %s: %s, group %s, %s. On the machine: pinta-agent enroll -\n", made.ID, uses, in.Group, until)
	})
}

// assemble puts the token together of the secret made here and what the Manager says about itself.
func assemble(key ed25519.PrivateKey, made api.TokenCreated) (token.Token, error) {
	root, err := token.ParseFingerprint(made.Root)
	if err != nil {
		return token.Token{}, fmt.Errorf("root key of the manager: %w", err)
	}
	var pin token.Fingerprint
	if made.TLSPin != "" {
		if pin, err = token.ParseFingerprint(made.TLSPin); err != nil {
			return token.Token{}, fmt.Errorf("TLS pin of the manager: %w", err)
		}
	}
	return token.FromKey(key, made.URL, made.ID, root, pin)
}

func (a *app) tokenList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List tokens, newest first", Args: args(0), RunE: func(c *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		list, err := api.JSON[[]api.Token](client.ListTokens(c.Context()))
		if err != nil {
			return err
		}
		return a.print(list, func(w io.Writer) {
			var rows [][]string
			for _, t := range list {
				uses := fmt.Sprintf("%d of %d", t.Used, t.Uses)
				if t.Uses == 0 {
					uses = fmt.Sprintf("%d", t.Used)
				}
				scope := strings.Join(t.Cidrs, ",")
				if n := len(t.Serials); n > 0 {
					scope += fmt.Sprintf(" %d serial(s)", n)
				}
				rows = append(rows, []string{t.ID, string(t.State), t.Group, uses, when(t.ExpiresAt), dash(strings.TrimSpace(scope)), when(t.CreatedAt), oneLine(t.CreatedBy, 30)})
			}
			table(w, "TOKEN\tSTATE\tGROUP\tUSED\tEXPIRES\tONLY FOR\tCREATED\tBY", rows)
		})
	}}
}

func (a *app) tokenRevoke() *cobra.Command {
	return &cobra.Command{Use: "revoke ID", Short: "Revoke a token at once", Args: args(1), RunE: func(c *cobra.Command, id []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		t, err := api.JSON[api.Token](client.RevokeToken(c.Context(), id[0]))
		if err != nil {
			return missing(err, "token", "token list")
		}
		return a.print(t, func(w io.Writer) {
			fmt.Fprintf(w, "token %s is revoked; %d machine(s) enrolled with it stay enrolled\n", t.ID, t.Used)
		})
	}}
}
