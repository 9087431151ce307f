package installer

import (
	"bytes"
	"strings"
	"testing"
)

func TestEditEnv(t *testing.T) {
	want := map[string]string{KeyGuard: "G", KeyGuardTimeout: "400"}
	const head = "PINTA_GUARD_ENDPOINT=G\nPINTA_GUARD_TIMEOUT_MS=400\n"
	for _, c := range []struct{ name, in, out string }{
		{"empty", "", head},
		{"foreign lines", "# mine\nA=1\n", head + "# mine\nA=1\n"},
		{"no final newline", "A=1", head + "A=1"},
		{"CRLF", "A=1\r\nPINTA_GUARD_ENDPOINT=x\r\nB=2\r\n", "PINTA_GUARD_TIMEOUT_MS=400\nA=1\r\nPINTA_GUARD_ENDPOINT=G\r\nB=2\r\n"},
		{"CR", "PINTA_GUARD_ENDPOINT=x\rB=2\r", "PINTA_GUARD_TIMEOUT_MS=400\nPINTA_GUARD_ENDPOINT=G\rB=2\r"},
		{"BOM", "\xef\xbb\xbfA=1\n", "\xef\xbb\xbf" + head + "A=1\n"},
		{"right already, spelled otherwise", "export PINTA_GUARD_ENDPOINT = \"G\"\nPINTA_GUARD_TIMEOUT_MS=400", "export PINTA_GUARD_ENDPOINT = \"G\"\nPINTA_GUARD_TIMEOUT_MS=400"},
		{"duplicates, the last counts", "PINTA_GUARD_ENDPOINT=G\nPINTA_GUARD_ENDPOINT=x\nA=1\n", "PINTA_GUARD_TIMEOUT_MS=400\nPINTA_GUARD_ENDPOINT=G\nA=1\n"},
		{"old token and headers go", "PINTA_RELAY_TOKEN=t\nCOPILOT_PLUGIN_OPTION_HEADERS=h\nA=1\n", head + "A=1\n"},
		{"commented out isn't set", "#PINTA_GUARD_ENDPOINT=x\n", head + "#PINTA_GUARD_ENDPOINT=x\n"},
		{"names that only look alike", "XPINTA_GUARD_ENDPOINT=x\nPINTA_GUARD_ENDPOINTS=y\nexportPINTA_GUARD_ENDPOINT=z\n", head + "XPINTA_GUARD_ENDPOINT=x\nPINTA_GUARD_ENDPOINTS=y\nexportPINTA_GUARD_ENDPOINT=z\n"},
	} {
		got := EditEnv([]byte(c.in), want)
		if string(got) != c.out {
			t.Errorf("%s: %q, want %q", c.name, got, c.out)
		}
		if again := EditEnv(got, want); !bytes.Equal(again, got) {
			t.Errorf("%s: a second edit changes it to %q", c.name, again)
		}
	}
}

// FuzzEditEnv: set and unset leaves every foreign byte, and restores a file
// that had no managed keys exactly.
func FuzzEditEnv(f *testing.F) {
	for _, n := range []string{"cr", "crlf", "bom"} {
		f.Add([]byte(read(f, "testdata/reports/R124."+n+".env")), "http://x")
	}
	f.Add([]byte("A=1"), "v=w")
	f.Fuzz(func(t *testing.T, in []byte, v string) {
		if strings.ContainsAny(v, "\r\n\x00 \t\"'") || v == "" {
			return
		}
		want := map[string]string{KeyGuard: v, KeyEndpoint: "e"}
		out := EditEnv(in, want)
		got := envValues(out)
		if len(got) != 2 || got[KeyGuard] != v || got[KeyEndpoint] != "e" {
			t.Fatalf("%q became %q, which sets %v", in, out, got)
		}
		back := EditEnv(out, nil)
		if len(envValues(back)) > 0 {
			t.Fatalf("unset left %q", back)
		}
		if len(envValues(in)) == 0 && !bytes.Equal(back, in) {
			t.Fatalf("%q came back as %q", in, back)
		}
	})
}
