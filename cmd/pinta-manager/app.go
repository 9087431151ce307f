package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/internal/version"
	"github.com/pinta-ai/pinta-agent/manager"
)

// app is one run of the program.
type app struct {
	out, errs               io.Writer
	json                    bool
	server, keyFile, caFile string
}

// client reaches the Manager that the flags name.
func (a *app) client() (*api.Client, error) {
	if a.keyFile == "" {
		return nil, usage("--admin-key-file is needed: `pinta-manager serve` writes one into its data directory")
	}
	f, err := manager.ReadAdminKeyFile(a.keyFile)
	if err != nil {
		return nil, err
	}
	if a.server != "" {
		if u, err := url.Parse(a.server); err != nil || u.Hostname() == "" {
			return nil, usage("--server is no URL: write it as https://host[:port]")
		}
		f.Server = strings.TrimSuffix(a.server, "/")
	}
	network, err := f.Network()
	if err != nil {
		return nil, err
	}
	network.CAFile = a.caFile
	client, err := network.HTTPClient()
	if err != nil {
		return nil, err
	}
	return &api.Client{
		BaseURL: f.Server, HTTP: doer{client, f.Server}, UserAgent: "pinta-manager/" + version.Version,
		Authorize: func(r *http.Request, _ []byte) error {
			if r.URL.Scheme != "https" && !settings.IsLoopback(r.URL.Hostname()) {
				return errors.New("the server's URL has to be https, or the API key would travel in the clear")
			}
			r.Header.Set("Authorization", "Bearer "+f.Key)
			return nil
		},
	}, nil
}

// doer says which server it was that couldn't be reached.
type doer struct {
	*http.Client
	server string
}

func (d doer) Do(r *http.Request) (*http.Response, error) {
	res, err := d.Client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("reach the manager at %s: %w; is it served there? --server names another address", d.server, err)
	}
	return res, nil
}

// missing says which thing is not there and what lists them, where the Manager's answer says no more than that.
func missing(err error, thing, list string) error {
	var p *api.Problem
	if errors.As(err, &p) && p.Code == api.ProblemCodeNotFound && p.Detail == "" {
		return fmt.Errorf("there is no such %s: see `pinta-manager %s` (%w)", thing, list, err)
	}
	return err
}

// print shows a result: one line of JSON with --json, else what text writes.
func (a *app) print(v any, text func(io.Writer)) error {
	if a.json {
		return json.NewEncoder(a.out).Encode(v)
	}
	text(a.out)
	return nil
}

// table writes rows under a header, in columns.
func table(w io.Writer, header string, rows [][]string) {
	if len(rows) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, header)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	_ = t.Flush() // writes to where the command prints
}

// fields writes names and values, without those that are empty.
func fields(w io.Writer, pairs ...string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", pairs[i], pairs[i+1])
		}
	}
	_ = t.Flush()
}

// when is a time as people read it.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// ago is how long a time is past.
func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := time.Since(t)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}

// dash stands for nothing.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// oneLine makes a text safe for a terminal's line: control characters, escape sequences among them, become blanks.
func oneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// instant reads a time: RFC 3339, or how long ago (24h).
func instant(name, s string) (string, error) {
	if s == "" {
		return "", nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return time.Now().Add(-d).UTC().Format(time.RFC3339), nil
	}
	if _, err := time.Parse(time.RFC3339, s); err != nil {
		return "", usage("--%s is neither a time such as 2026-03-01T12:00:00Z nor a duration such as 24h", name)
	}
	return s, nil
}
