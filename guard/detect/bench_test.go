package detect

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var goroot = sync.OnceValue(func() string {
	out, _ := exec.Command("go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(out))
})

// texts of one MiB each: what tools really print, and what an attacker might.
func texts(t testing.TB) map[string]string {
	const size = 1 << 20
	r := rand.New(rand.NewPCG(3, 4))
	raw := make([]byte, size*3/4)
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	var log, hex strings.Builder
	for i := 0; log.Len() < size; i++ {
		fmt.Fprintf(&log, "2026-01-02T03:04:%02d.%03dZ INFO request id=%08x-%04x user=u%d path=/api/v1/items/%d status=200 token_type=bearer key=%d duration=%dms\n",
			i%60, i%1000, r.Uint32(), r.Uint32()&0xffff, i%50, i, i, r.IntN(400))
	}
	for hex.Len() < size {
		fmt.Fprintf(&hex, "%016x", r.Uint64())
	}
	return map[string]string{
		"source":      sourceText(t, size),
		"log":         log.String()[:size],
		"base64":      base64.StdEncoding.EncodeToString(raw)[:size],
		"hex":         hex.String()[:size],
		"assignments": strings.Repeat(`api_key = "x" token: secret => password=`, size/40),
		"eyey":        strings.Repeat("ey", size/2),
		"sk-":         strings.Repeat("sk-ant-sk-", size/10),
		"digits":      strings.Repeat("4111 ", size/5),
		"facebook":    "facebook sourcegraph " + hex.String()[:size-30],
		"PEM begins":  strings.Repeat("-----BEGIN PRIVATE KEY-----\nAAAA\n", size/33),
		"URLs":        strings.Repeat("https://hooks.slack.com/services/ ", size/34),
	}
}

// TestScanTime holds every text of a MiB to a bound that is wide enough for a very busy
// machine; BenchmarkScan prints the figures.
func TestScanTime(t *testing.T) {
	s := Standard()
	sel, _ := s.Select("secrets")
	for name, text := range texts(t) {
		t.Run(name, func(t *testing.T) {
			var took []time.Duration
			n := 0
			for range 4 {
				start := time.Now()
				found, _ := s.Scan(context.Background(), text, sel)
				took = append(took, time.Since(start))
				n = len(found)
			}
			t.Logf(name+": %d findings, first %v, best of the rest %v", n, took[0].Round(time.Millisecond/10), slices.Min(took[1:]).Round(time.Millisecond/10))
			if best := slices.Min(took); best > 20*time.Second {
				t.Errorf("a MiB took %v", best)
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	s := Standard()
	sel, _ := s.Select("secrets")
	for name, text := range texts(b) {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = s.Scan(context.Background(), text, sel)
			}
		})
	}
}

// BenchmarkGitleaks is the scanner that the engine replaces.
func BenchmarkGitleaks(b *testing.B) {
	text := sourceText(b, 1<<20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		scanner().DetectString(text)
	}
}
