//go:build unix

package endpoint

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

// served runs a child in this process and returns how to tell it something.
func served(t *testing.T, setup Setup) (tell func(toChild)) {
	t.Helper()
	tell, _ = servedAt(t, setup)
	return tell
}

// servedAt is served and tells the socket.
func servedAt(t *testing.T, setup Setup) (tell func(toChild), socket string) {
	t.Helper()
	dir := t.TempDir()
	socket = filepath.Join(dir, "s")
	l, err := serve.Listen(socket, serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Serve(context.Background(), in, io.Discard, l, dir, io.Discard)
	}()
	t.Cleanup(func() {
		out.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	tell = func(m toChild) {
		line, err := json.Marshal(m)
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tell(toChild{Setup: &setup})
	return tell, socket
}

// TestMetricsGoWhereTracesGo: a collector gets the agent's own metrics beside
// its traces, with the same headers; one that takes none is left alone.
func TestMetricsGoWhereTracesGo(t *testing.T) {
	got := make(chan *metricspb.MetricsData, 100)
	var refused atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/none/v1/metrics" {
			refused.Add(1)
		}
		if r.URL.Path != "/otlp/v1/metrics" {
			http.NotFound(w, r)
			return
		}
		z, err := gzip.NewReader(r.Body)
		if err != nil || r.Header.Get("X-Key") != "k" {
			t.Error(err, r.Header)
			return
		}
		body, err := io.ReadAll(z)
		m := &metricspb.MetricsData{}
		if err != nil || proto.Unmarshal(body, m) != nil {
			t.Error("no metrics", err)
			return
		}
		got <- m
	}))
	defer collector.Close()
	tell := served(t, Setup{Host: "box", MetricsEvery: 10 * time.Millisecond})
	repairs := int64(3)
	tell(toChild{Repairs: &repairs})
	tell(toChild{Config: &Config{DeviceID: "01DEVICE", Group: "eng", Collector: collector.URL + "/otlp/v1/traces", Headers: map[string]string{"x-key": "k"}, Issued: time.Now().Add(-time.Hour)}})
	var m *metricspb.MetricsData
	select {
	case m = <-got:
	case <-time.After(20 * time.Second):
		t.Fatal("no metrics arrived")
	}
	values := map[string]float64{}
	for _, metric := range m.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		points := append(metric.GetSum().GetDataPoints(), metric.GetGauge().GetDataPoints()...)
		values[metric.Name] = points[0].GetAsDouble()
	}
	for _, name := range []string{"hooks", "not_enforced", "spool.spans", "spool.dropped", "guard.overruns", "config.version"} {
		if _, ok := values["pinta.agent."+name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if age := values["pinta.agent.config.age"]; age < 3600 || age > 4000 || values["pinta.agent.repairs"] != 3 {
		t.Errorf("config age %v s, %v repairs", age, values["pinta.agent.repairs"])
	}
	identity := map[string]string{}
	for _, a := range m.ResourceMetrics[0].Resource.Attributes {
		identity[a.Key] = a.Value.GetStringValue()
	}
	if identity["pinta.device.id"] != "01DEVICE" || identity["pinta.device.group"] != "eng" || identity["host.name"] != "box" {
		t.Errorf("resource %v", identity)
	}

	tell(toChild{Config: &Config{Seq: 2, DeviceID: "01DEVICE", Collector: collector.URL + "/none/v1/traces"}})
	for end := time.Now().Add(20 * time.Second); refused.Load() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the other collector was never asked")
		}
	}
	time.Sleep(100 * time.Millisecond)
	if n := refused.Load(); n != 1 {
		t.Errorf("a collector without metrics was asked %d times", n)
	}
}

func TestMetricsURL(t *testing.T) {
	for traces, want := range map[string]string{
		"https://c.example.com/v1/traces":           "https://c.example.com/v1/metrics",
		"https://c.example.com:4318/otlp/v1/traces": "https://c.example.com:4318/otlp/v1/metrics",
		"https://c.example.com/v1/traces?key=k":     "https://c.example.com/v1/metrics?key=k",
		"https://c.example.com/custom":              "",
		"":                                          "",
		"/v1/traces":                                "",
		"::":                                        "",
	} {
		if got := metricsURL(traces); got != want {
			t.Errorf("%s: %s, want %s", traces, got, want)
		}
	}
}
