package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/manager"
)

func (a *app) serveCommand() *cobra.Command {
	var o manager.ServeOptions
	var days int
	var gib float64
	var level string
	c := &cobra.Command{
		Use: "serve", Short: "Serve the Manager until SIGTERM or Ctrl-C",
		Long: `Serve the Manager until SIGTERM or Ctrl-C.

The first start founds everything in the data directory: root key (root.key; keep a copy offline), signing key, own CA,
and admin-key-file admin-key.json for the other commands. Enrolment tokens carry the root key's fingerprint and the CA's
pin, so machines need nothing else to trust this Manager.`,
		Example: `  pinta-manager serve --data /var/lib/pinta-manager --url https://manager.example.com:8443
  pinta-manager serve --data ./data --listen 127.0.0.1:8443 --ready-file ready.json`,
		Args: args(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Dir == "" {
				return usage("--data is needed: the directory that holds the Manager's keys and records")
			}
			if o.Checkin < time.Second || o.ConfigLife < time.Minute || days < 1 || gib <= 0 {
				return usage("--checkin is at least 1s, --config-life at least 1m, --event-days at least 1, --event-gib above 0")
			}
			var l slog.Level
			if err := l.UnmarshalText([]byte(level)); err != nil {
				return usage("--log-level is debug, info, warn or error")
			}
			h := &slog.HandlerOptions{Level: l}
			o.Log = slog.New(slog.NewTextHandler(a.errs, h))
			if a.json {
				o.Log = slog.New(slog.NewJSONHandler(a.errs, h))
			}
			o.EventAge = time.Duration(days) * 24 * time.Hour
			o.EventBytes = int64(gib * (1 << 30))
			o.Policies = manager.Guard{}
			return manager.Serve(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Dir, "data", "", "data `DIR`, made if it isn't there")
	f.StringVar(&o.Listen, "listen", "", "`ADDR` to listen on (default :8443, with --http 127.0.0.1:8080)")
	f.StringVar(&o.URL, "url", "", "`URL` that agents reach the Manager by (default: from the address); the first one stays the audience of all devices")
	f.StringVar(&o.ReadyFile, "ready-file", "", "`FILE` to write {\"url\",\"adminKeyFile\",\"pid\"} to when ready")
	f.StringVar(&o.TLSCert, "tls-cert", "", "`FILE` with a PEM certificate chain instead of the own CA's")
	f.StringVar(&o.TLSKey, "tls-key", "", "`FILE` with the PEM key of --tls-cert")
	f.BoolVar(&o.HTTP, "http", false, "plain HTTP, on loopback only")
	f.StringVar(&o.Forward, "forward", "", "OTLP/HTTP endpoint (`URL`) that gets all traces as well")
	f.DurationVar(&o.Checkin, "checkin", time.Minute, "time between two reports of a device")
	f.DurationVar(&o.ConfigLife, "config-life", 7*24*time.Hour, "time until a signed config expires; it is renewed at half of it")
	f.IntVar(&days, "event-days", 30, "days that events are kept")
	f.Float64Var(&gib, "event-gib", 4, "GiB of events that are kept")
	f.StringSliceVar(&o.Trusted, "trusted-proxy", nil, "`CIDR` of a reverse proxy whose X-Forwarded-For counts")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return c
}
