package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/internal/version"
)

func (a *app) diagnosticsCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "diagnostics -o FILE.zip",
		Short: "Write what support needs to know into one file, without secrets",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.writeDiagnostics(c.Context(), out); err != nil {
				return err
			}
			return a.print(map[string]string{"file": out}, func(p *page) { p.mark(markOK, "written to %s: look at it before you pass it on", out) })
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "the file to write")
	c.MarkFlagRequired("output") //nolint:errcheck // the flag exists
	return c
}

// writeDiagnostics writes the bundle. It is an allow-list: each part is a value
// of ours whose secrets are typed to print as a mask; no file is copied. Of the
// log the records' listed attributes are taken.
func (a *app) writeDiagnostics(ctx context.Context, path string) error {
	type part struct {
		name string
		make func() (any, error)
	}
	parts := []part{
		{"versions.json", func() (any, error) {
			return map[string]string{"agent": version.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}, nil
		}},
		{"settings.json", func() (any, error) {
			return map[string]any{"layout": a.layout, "values": a.settings.Values(), "keys": settings.Keys}, nil
		}},
		{"status.json", func() (any, error) { return a.status(ctx) }},
		{"doctor.json", func() (any, error) { return a.diagnose(ctx) }},
		{"log.json", func() (any, error) { return a.recentLogs(ctx) }},
	}
	var bundle bytes.Buffer
	z := zip.NewWriter(&bundle)
	for _, p := range parts {
		value, err := p.make()
		if err != nil { // what can't be found out is worth knowing as well
			value = map[string]string{"error": err.Error()}
		}
		data, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return fmt.Errorf("encode %s: %w", p.name, err)
		}
		w, err := z.Create(p.name)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := safefile.WriteFile(path, bundle.Bytes(), safefile.Private); err != nil {
		return fmt.Errorf("write the diagnostics: %w", err)
	}
	return nil
}
