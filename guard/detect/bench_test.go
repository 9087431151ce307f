package detect

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"regexp/syntax"
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

// nearSecrets are texts of a MiB that are made of candidates: whatever a
// detector has to look at and then refuses, or takes.
func nearSecrets() map[string]string {
	r := rand.New(rand.NewPCG(9, 9))
	hex := func(n int) string { return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())[:n] }
	fill := func(piece func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < 1<<20; i++ {
			b.WriteString(piece(i))
		}
		return b.String()[:1<<20]
	}
	var words, matches, damaged []string
	for _, d := range Standard().list {
		if d.pattern == nil {
			continue
		}
		words = append(words, d.keywords...)
		for i := range d.pattern.branches {
			words = append(words, d.pattern.branches[i].words...)
		}
		tree, _ := syntax.Parse(d.pattern.source, syntax.Perl)
		for range 4 {
			m := sample(r, tree)
			matches = append(matches, m)
			at := len(m) - 1 - r.IntN(len(m)/3+1)
			damaged = append(damaged, m[:at]+"!"+m[at+1:])
		}
	}
	any := func(list []string) string { return list[r.IntN(len(list))] }
	return map[string]string{
		"stop words":      fill(func(i int) string { return fmt.Sprintf("api_key = \"example%d%s\"\n", i, hex(10)) }),
		"low entropy":     fill(func(i int) string { return fmt.Sprintf("secret: 'aaaaaaaaaaaaaa%d'\n", i%10) }),
		"tokens":          fill(func(int) string { return "token=" + hex(24) + "\n" }),
		"tokens, a line":  fill(func(int) string { return "token=" + hex(16) + ";" }),
		"example keys":    fill(func(int) string { return "AKIAIOSFODNN7EXAMPLE " }),
		"numbers":         fill(func(i int) string { return fmt.Sprintf("MAX_TOKENS=%d\n", i) }),
		"mysql":           fill(func(int) string { return "mysql -pa " }),
		"words":           fill(func(int) string { return any(words) + " " }),
		"words, values":   fill(func(int) string { return any(words) + " = '" + hex(31+r.IntN(2)) + "' " }),
		"matches":         fill(func(int) string { return any(matches) + "\n" }),
		"damaged":         fill(func(int) string { return any(damaged) + "\n" }),
		"damaged, a line": fill(func(int) string { return any(damaged) + " " }),
	}
}

// TestScanTime holds every text of a MiB to a bound that is wide enough for a very busy
// machine; BenchmarkScan prints the figures.
func TestScanTime(t *testing.T) {
	s := Standard()
	sel, _ := s.Select("secrets")
	all := texts(t)
	maps.Copy(all, nearSecrets())
	for name, text := range all {
		if raceEnabled { // some ten times slower
			text = text[:len(text)/8]
		}
		t.Run(name, func(t *testing.T) {
			var took []time.Duration
			n := 0
			for range 3 {
				start := time.Now()
				found, _ := s.Scan(context.Background(), text, sel)
				took = append(took, time.Since(start))
				n = len(found)
			}
			t.Logf(name+": %d findings, first %v, best of the rest %v", n, took[0].Round(time.Millisecond/10), slices.Min(took[1:]).Round(time.Millisecond/10))
			if best := slices.Min(took); best > 5*time.Second {
				t.Errorf("a MiB took %v", best)
			}
			start := time.Now()
			_, _ = s.Scan(context.Background(), text[:len(text)/2], sel)
			half := time.Since(start)
			if best := slices.Min(took); best > 10*half+time.Second {
				t.Errorf("a MiB took %v, its half %v", best, half)
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	s := Standard()
	sel, _ := s.Select("secrets")
	all := texts(b)
	maps.Copy(all, nearSecrets())
	for name, text := range all {
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
