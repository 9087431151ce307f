package relay

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pinta-ai/pinta-agent/sync/spool"
)

func TestMetrics(t *testing.T) {
	f := newFixture(t, spool.Options{})
	f.send(t, hookSpan(1, "", kv("pinta.guard.decision", "deny")))
	points := append(Points(f.Stats(), ExportStats{Dropped: map[string]uint64{"400": 2}}), Point{Name: "pinta.agent.config.age", Unit: "s", Value: 12})
	body, err := EncodeMetrics(identityOf(f.peer), time.Unix(1, 0), time.Unix(2, 0), points)
	if err != nil {
		t.Fatal(err)
	}
	var got metricspb.MetricsData
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		b, _ := io.ReadAll(z)
		if err := proto.Unmarshal(b, &got); err != nil || r.Header.Get("x-key") != "k" {
			t.Error(err, r.Header)
		}
	}))
	defer srv.Close()
	if err := PushMetrics(context.Background(), srv.Client(), srv.URL+"/v1/metrics", map[string]string{"x-key": "k"}, body); err != nil {
		t.Fatal(err)
	}
	names := map[string]float64{}
	for _, m := range got.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		for _, p := range append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...) {
			n := m.Name
			for _, a := range p.Attributes {
				n += " " + a.Value.GetStringValue()
			}
			names[n] = p.GetAsDouble()
		}
	}
	for n, want := range map[string]float64{
		"pinta.agent.hooks": 1, "pinta.agent.prevented": 1, "pinta.agent.verdicts deny": 1, "pinta.agent.spool.spans": 1,
		"pinta.agent.export.dropped 400": 2, "pinta.agent.config.age": 12,
	} {
		if got, ok := names[n]; !ok || got != want {
			t.Errorf("%s is %v, want %v", n, got, want)
		}
	}
	srv.Close()
	err = PushMetrics(context.Background(), http.DefaultClient, strings.Replace(srv.URL, "http://", "http://u:canary@", 1), nil, body)
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
}
