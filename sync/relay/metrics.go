package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pinta-ai/pinta-agent/internal/version"
)

// Point is one value of the agent's own metrics.
type Point struct {
	Name, Unit string
	Value      float64
	Sum        bool     // it counts up since the start; else it is what is now
	Attr       []string // key, value, …
}

// Points are the metrics of a relay and its exporter; the caller adds those of
// the guard, the installer and the configuration.
func Points(s Stats, e ExportStats) []Point {
	var all []Point
	sum := func(name string, v uint64, attr ...string) {
		all = append(all, Point{Name: "pinta.agent." + name, Unit: "1", Value: float64(v), Sum: true, Attr: attr})
	}
	now := func(name, unit string, v float64, attr ...string) {
		all = append(all, Point{Name: "pinta.agent." + name, Unit: unit, Value: v, Attr: attr})
	}
	each := func(name, key string, m map[string]uint64) {
		keys := make([]string, 0, len(m))
		for k := range m {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			sum(name, m[k], key, k)
		}
	}
	sum("hooks", s.Counters.Hooks)
	sum("prevented", s.Counters.Prevented)
	sum("outputs", s.Counters.Masked, "action", "masked")
	sum("outputs", s.Counters.Withheld, "action", "withheld")
	sum("outputs", s.Counters.Stopped, "action", "stopped")
	sum("not_enforced", s.Counters.NotEnforced)
	each("verdicts", "decision", s.Decisions)
	each("fail_open", "cause", s.FailOpen)
	each("events", "kind", s.Kinds)
	for _, q := range []struct {
		name string
		Quantiles
	}{{"guard.rtt", s.GuardRTT}, {"relay.answer", s.Answers}} {
		if q.N > 0 {
			now(q.name, "ms", q.P50, "quantile", "0.5")
			now(q.name, "ms", q.P90, "quantile", "0.9")
			now(q.name, "ms", q.P99, "quantile", "0.99")
			now(q.name, "ms", q.Max, "quantile", "1")
		}
	}
	now("spool.spans", "1", float64(s.Spool.Records))
	now("spool.size", "By", float64(s.Spool.Bytes))
	sum("spool.dropped", s.Spool.DroppedBytes, "reason", "bytes")
	sum("spool.dropped", s.Spool.DroppedAge, "reason", "age")
	sum("spool.dropped", s.Spool.Lost, "reason", "damage")
	sum("relay.duplicates", s.Spool.Duplicates)
	sum("relay.claims_stripped", s.Claimed)
	sum("relay.refused", s.Refused)
	sum("export.spans", e.Spans)
	sum("export.rejected", e.Rejected)
	each("export.dropped", "status", e.Dropped)
	return all
}

// EncodeMetrics makes an ExportMetricsServiceRequest of points; start is when
// their sums began.
func EncodeMetrics(id Identity, start, now time.Time, points []Point) ([]byte, error) {
	scope := &metricspb.ScopeMetrics{Scope: &commonpb.InstrumentationScope{Name: "pinta-agent", Version: version.Version}}
	byName := map[string]*metricspb.Metric{}
	for _, p := range points {
		d := &metricspb.NumberDataPoint{
			TimeUnixNano: uint64(now.UnixNano()), StartTimeUnixNano: uint64(start.UnixNano()),
			Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: p.Value},
		}
		for i := 0; i+1 < len(p.Attr); i += 2 {
			d.Attributes = append(d.Attributes, stringAttr(p.Attr[i], p.Attr[i+1]))
		}
		m := byName[p.Name]
		if m == nil {
			m = &metricspb.Metric{Name: p.Name, Unit: p.Unit}
			if p.Sum {
				m.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{IsMonotonic: true, AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}}
			} else {
				m.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{}}
			}
			byName[p.Name] = m
			scope.Metrics = append(scope.Metrics, m)
		}
		if s := m.GetSum(); s != nil {
			s.DataPoints = append(s.DataPoints, d)
		} else {
			m.GetGauge().DataPoints = append(m.GetGauge().DataPoints, d)
		}
	}
	res := &resourcepb.Resource{Attributes: []*commonpb.KeyValue{stringAttr("service.name", "pinta-agent"), stringAttr("service.version", version.Version)}}
	for _, a := range [][2]string{{"pinta.device.id", id.DeviceID}, {"pinta.device.group", id.Group}, {"host.name", id.Host}, {"os.type", osType(id)}} {
		if a[1] != "" {
			res.Attributes = append(res.Attributes, stringAttr(a[0], a[1]))
		}
	}
	b, err := proto.Marshal(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{Resource: res, ScopeMetrics: []*metricspb.ScopeMetrics{scope}}}})
	if err != nil {
		return nil, fmt.Errorf("encode metrics: %w", err)
	}
	return b, nil
}

// ErrMetricsRefused says that a collector won't take metrics the next time either.
var ErrMetricsRefused = errors.New("the collector takes no metrics")

// PushMetrics sends encoded metrics once to a collector's metrics endpoint. It
// isn't repeated: the next ones say it all again. Error: ErrMetricsRefused.
func PushMetrics(ctx context.Context, client *http.Client, endpoint string, header map[string]string, body []byte) error {
	d := Destination{URL: endpoint, Header: header}
	packed := pack(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(packed))
	if err == nil {
		err = address(req, d, "", packed)
	}
	if err != nil {
		return fmt.Errorf("push metrics to %s: %s", d, reason(err))
	}
	c := *client
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := c.Do(req)
	if err != nil {
		return fmt.Errorf("push metrics to %s: %s", d, reason(err))
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	switch s := res.StatusCode; {
	case s >= 400 && s < 500 && s != http.StatusTooManyRequests && s != http.StatusRequestTimeout, s == http.StatusNotImplemented:
		return fmt.Errorf("push metrics to %s: %w: %s", d, ErrMetricsRefused, res.Status)
	case s < 200 || s > 299:
		return fmt.Errorf("push metrics to %s: %s", d, res.Status)
	}
	return nil
}
