package relay

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
	"github.com/pinta-ai/pinta-agent/sync/spool"
)

// socketFixture serves a relay on a real socket; post opens a connection for
// each span, as a hook does.
func socketFixture(b *testing.B) (f *fixture, post func(body string) time.Duration) {
	f = newFixture(b, spool.Options{})
	dir, err := os.MkdirTemp("", "relay")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	l, err := serve.Listen(filepath.Join(dir, "s"), serve.Options{})
	if err != nil {
		b.Skip(err)
	}
	srv := &http.Server{Handler: f.Handler(), ConnContext: serve.ConnContext}
	go func() { _ = srv.Serve(l) }()
	b.Cleanup(func() { srv.Close() })
	return f, func(body string) time.Duration {
		start := time.Now()
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			b.Error(err)
			return 0
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
			b.Errorf("%v %s", err, answer)
		}
		return time.Since(start)
	}
}

func typical(n int) string {
	return hookSpan(n, "", kv("copilot.session_id", "00000000-0000-4000-8000-000000000001")+kv("copilot.tool_name", "Bash")+
		kv("copilot.tool_input", `{"command":"go test ./...","description":"`+strings.Repeat("run the tests ", 40)+`"}`)+
		kv("copilot.tool_result", strings.Repeat("ok  \tgithub.com/example/pkg\t0.012s\n", 30)))
}

// BenchmarkIntake is spans a second, client and server sharing the machine.
func BenchmarkIntake(b *testing.B) {
	f, post := socketFixture(b)
	var n atomic.Int64
	b.ResetTimer()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			post(typical(int(n.Add(1))))
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "spans/s")
	q := f.Stats().Answers
	b.ReportMetric(q.P50, "p50-ms")
	b.ReportMetric(q.P99, "p99-ms")
}

// BenchmarkAnswer is how long a single hook waits, at 200 hooks a second while
// the exporter works.
func BenchmarkAnswer(b *testing.B) {
	for _, size := range []int{0, 100 << 10, 800 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			f, post := socketFixture(b)
			c := newReceiver(b)
			e := NewExporter(ExporterOptions{Spool: f.spool, Client: &http.Client{Transport: &http.Transport{}}, Destination: func() Destination { return Destination{URL: c.URL} }})
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { defer close(done); _ = e.Run(ctx) }()
			defer func() { cancel(); <-done }()
			var all []time.Duration
			pad := kv("copilot.pad", strings.Repeat("line of output\t", size/15))
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for i := range b.N {
				<-tick.C
				all = append(all, post(strings.Replace(typical(i), `,{"key":"copilot.session_id"`, pad+`,{"key":"copilot.session_id"`, 1)))
			}
			slices.Sort(all)
			for name, at := range map[string]int{"p50-ms": 50, "p90-ms": 90, "p99-ms": 99, "max-ms": 100} {
				b.ReportMetric(float64(all[(len(all)-1)*at/100].Microseconds())/1000, name)
			}
		})
	}
}

func BenchmarkDecodeJSON(b *testing.B) {
	for _, size := range []int{0, 100 << 10, 800 << 10} {
		body := []byte(hookSpan(1, "", kv("copilot.pad", strings.Repeat("line of output\t", size/15))))
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodeJSON(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
