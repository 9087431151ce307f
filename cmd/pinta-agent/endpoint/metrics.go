package endpoint

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/sync/relay"
)

// The agent's own metrics go where its traces go, if that is a collector: to
// its /v1/metrics. A Manager has the same numbers from the report.

const (
	metricsEvery = time.Minute
	metricsTime  = 10 * time.Second
	// metricsPause is how long a collector that takes no metrics is left alone.
	metricsPause = time.Hour
)

// metricsURL is the collector's address for metrics; empty if traces go to
// another path than OTLP's own, so that nobody knows it.
func metricsURL(traces string) string {
	u, err := url.Parse(traces)
	if err != nil || u.Host == "" {
		return ""
	}
	base, ok := strings.CutSuffix(u.Path, "/v1/traces")
	if !ok {
		return ""
	}
	u.Path, u.RawPath = base+"/v1/metrics", ""
	return u.String()
}

// pushMetrics sends the metrics now and then until ctx ends. A push that fails
// isn't repeated: the next says it all again.
func (s *server) pushMetrics(ctx context.Context) {
	every := s.setup.MetricsEvery
	if every <= 0 {
		every = metricsEvery
	}
	start := time.Now()
	refused, until := "", time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		c := s.config.Load()
		to := metricsURL(c.Collector)
		if to == "" || c.Discard || to == refused && time.Now().Before(until) {
			continue
		}
		if err := s.pushOnce(ctx, c, to, start); err != nil {
			s.log.Debug("metrics are not delivered", "error", err)
			if errors.Is(err, relay.ErrMetricsRefused) {
				refused, until = to, time.Now().Add(metricsPause)
			}
		}
	}
}

func (s *server) pushOnce(ctx context.Context, c *Config, to string, start time.Time) error {
	now := time.Now()
	body, err := relay.EncodeMetrics(relay.Identity{DeviceID: c.DeviceID, Group: c.Group, Host: s.setup.Host}, start, now, s.points(c, now))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, metricsTime)
	defer cancel()
	return relay.PushMetrics(ctx, &http.Client{Transport: s.uplink}, to, c.Headers, body)
}

// points are those of the relay, and what guard, config and installer add.
func (s *server) points(c *Config, now time.Time) []relay.Point {
	all := relay.Points(s.relay.Stats(), s.export.Stats())
	add := func(name, unit string, v float64, sum bool) {
		all = append(all, relay.Point{Name: "pinta.agent." + name, Unit: unit, Value: v, Sum: sum})
	}
	verdicts := s.verdict.stats()
	add("guard.overruns", "1", float64(verdicts.Overruns), true)
	add("guard.faults", "1", float64(verdicts.Faults), true)
	add("repairs", "1", float64(s.repairs.Load()), true)
	add("config.version", "1", float64(c.Version), false)
	if !c.Issued.IsZero() {
		add("config.age", "s", now.Sub(c.Issued).Seconds(), false)
	}
	return all
}
