package guard

import (
	"math/rand/v2"
	"testing"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// TestAppendUnquoted: what is copied in pieces is what rawjson decodes.
func TestAppendUnquoted(t *testing.T) {
	parts := []string{"plain", `\n`, `\"`, `\\`, `\/`, `\u0041`, `\ud83d\ude00`, `\ud83d`, `\ude00x`, "é", "\xff", "\x00", "\n", "日本", `\t\t`, ""}
	r := rand.New(rand.NewPCG(12, 13))
	cases := []string{`""`, `"`, "", "x", `"a`, `a"`, `"\"`, `"\u00"`, `"\x"`, ` "a" `, "null", "12"}
	for range 3000 {
		s := `"`
		for range r.IntN(6) {
			s += parts[r.IntN(len(parts))]
		}
		cases = append(cases, s+`"`)
	}
	for _, raw := range cases {
		want, ok := rawjson.Unquote([]byte(raw))
		got, fine := appendUnquoted([]byte(">"), []byte(raw))
		if fine != ok || ok && string(got) != ">"+want {
			t.Errorf("%q: got %q %v, want %q %v", raw, got, fine, want, ok)
		}
	}
}
