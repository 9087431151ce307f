package redact

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// beginnings are the first parts of patterns, and what makes a scanner read ahead in vain.
var beginnings = map[string]string{
	"mysql":              "mysql -pa ",
	"mysql, no value":    "mysql ",
	"mysql in quotes":    `mysql "`,
	"mysql argument":     "find mysql ",
	"aws key":            "AKIA",
	"aws key, one short": akia[:19],
	"aws secret":         "aws_secret_access_key",
	"aws words":          "aws secret access key ",
	"aws blanks":         "aws_secret_key=" + strings.Repeat(" ", 100),
	"github":             "ghp_",
	"github pat":         "github_pat_",
	"gitlab":             "glpat-",
	"slack":              "xoxb-",
	"openai":             "sk-",
	"openai words":       " sk-proj-",
	"anthropic":          " sk-ant-",
	"stripe":             " sk_live_",
	"jwt":                "eyJ",
	"jwt, two parts":     "eyJabcdefg.",
	"jwt, long part":     "eyJabcdefgeyJ",
	"pem begin":          "-----BEGIN ",
	"pem label":          "-----BEGIN RSA PRIVATE KEY",
	"pem":                "-----BEGIN PRIVATE KEY-----\n",
	"pem, other end":     "-----BEGIN PRIVATE KEY-----\n-----END x",
	"pem ends":           "-----END PRIVATE KEY-----",
	"dashes":             "-",
	"bearer":             "bearer ",
	"bearer blanks":      "bearer\t \t ",
	"basic":              "basic ",
	"address":            "postgres://a:",
	"address, slash":     "postgres://a:b/c",
	"address, at":        "redis://:p@",
	"address, driver":    "mysql+mysql+",
	"flag":               "--password ",
	"flag, quote":        `--password="`,
	"flag, quotes":       `--password="--password='`,
	"flag, escapes":      `--password=\"--password=\\\"--password=\\\\\\\"`,
	"variable":           "A_KEY=",
	"variable, quote":    `A_KEY="`,
	"variable, both":     `A_KEY='B_KEY="`,
	"variable name":      "KEYSECRETTOKEN",
	"backslashes":        `\`,
	"escaped quotes":     `\"`,
	"account":            `{"type":"service_account",`,
	"account, nested":    `{"service_account":`,
	"account, strings":   `{"{":"service_account`,
	"accounts":           `{"type":"service_account"}`,
	"brackets":           "{",
	"arrays":             "[",
	"JSON":               `{"a":`,
	"JSON strings":       `["\"[`,
	"JSON lines":         `{"a":"\"[{"}` + "\n",
	"JSON in JSON":       `"\"`,
	"backtick":           "KEY=`",
	"mixed":              `mysql 'sk-eyJ--pass="KEY=aws secret postgres://x:`,
}

// TestLinear measures, for texts that repeat the beginning of a pattern, how much longer four times the text takes. Linear
// work gives about 4, quadratic 16.
func TestLinear(t *testing.T) {
	list := pairs("aaaa", "a", "aa", "b", "hunter22", "c", "mysql", "d")
	n := 25_000
	if testing.Short() {
		n = 5_000
	}
	for _, w := range []struct {
		name string
		do   func(string)
	}{
		{"Text", func(s string) { Text(s) }},
		{"JudgedText", func(s string) { JudgedText(s) }},
		{"Masker", func(s string) { newMasker(list, func() time.Time { return time.Time{} }).Text(s) }},
	} {
		worst, where := 0.0, ""
		for name, unit := range beginnings {
			small, large := strings.Repeat(unit, n), strings.Repeat(unit, 4*n)
			a, b, ratio := time.Hour, time.Hour, 0.0
			for range 8 { // the best of several: a busy machine spoils some
				a, b = min(a, took(w.do, small)), min(b, took(w.do, large))
				if ratio = float64(b) / float64(max(a, tick)); ratio < 7 {
					break
				}
			}
			if ratio > 12 {
				t.Errorf("%s of %d × %s: 4 times the text took %.1f times as long", w.name, 4*n, name, ratio)
			}
			if ratio > worst {
				worst, where = ratio, name
			}
		}
		t.Logf("%s: 4 times the text took at most %.1f times as long (%s)", w.name, worst, where)
	}
}

// tick is less than the processor clock can tell apart for sure.
const tick = 10 * time.Millisecond

func took(do func(string), s string) time.Duration {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection in between would be counted, now and then
	start := clock()
	do(s)
	return clock() - start
}

func BenchmarkText(b *testing.B) {
	prose := strings.Repeat("The service logs a line for each request: path=/api/v1/items status=200 user=bob key=7 spent 12 ms.\n", 10_000)
	payload := `{"tool_input":{"command":"cat log"},"tool_result":{"text_result_for_llm":"` + strings.ReplaceAll(prose, "\n", `\n`) + `"}}`
	small := `[` + strings.Repeat(`{"id":12,"name":"item","tags":["a","b"]},`, 25_000) + `1]`
	for _, c := range []struct{ name, in string }{
		{"prose", prose}, {"payload", payload}, {"small strings", small},
		{"source", strings.Repeat("\tif err := s.put(ctx, key, value); err != nil {\n\t\treturn fmt.Errorf(\"put %q: %w\", key, err)\n\t}\n", 10_000)},
		{"secrets", strings.Repeat("export API_KEY="+akia+" # "+ghp+"\n", 12_000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.in)))
			for b.Loop() {
				Text(c.in)
			}
		})
	}
	b.Run("masker", func(b *testing.B) {
		b.SetBytes(int64(len(payload)))
		list := pairs("hunter22", "k", "status=200", "s")
		for b.Loop() {
			if out := newMasker(list, func() time.Time { return time.Time{} }).Text(payload); out == unmaskable {
				b.Fatal("withheld")
			}
		}
	})
}
