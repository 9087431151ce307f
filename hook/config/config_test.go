package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func env(process map[string]string, file string) *Env {
	e := New(func(k string) (string, bool) { v, ok := process[k]; return v, ok })
	e.Fill([]byte(file))
	return e
}

func TestEnvFile(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want map[string]string
	}{
		"LF":              {"A=1\nB=2\n", map[string]string{"A": "1", "B": "2"}},
		"CRLF":            {"A=1\r\nB=2\r\n", map[string]string{"A": "1", "B": "2"}},
		"CR":              {"A=1\rB=2", map[string]string{"A": "1", "B": "2"}},
		"BOM":             {"\xef\xbb\xbfA=1", map[string]string{"A": "1"}},
		"comments":        {"#A=1\n  # B=2\nC=3#d\n", map[string]string{"A": "", "B": "", "C": "3#d"}},
		"export":          {"export A=1\nexport\tB=2\nexportC=3\nexport =4", map[string]string{"A": "1", "B": "2", "exportC": "3"}},
		"quotes":          {`A="1 2"` + "\nB='3'\nC=\"4'\nD=\"\nE=\"\"\nF=\"\"5\"\"", map[string]string{"A": "1 2", "B": "3", "C": `"4'`, "D": `"`, "E": "", "F": `"5"`}},
		"blanks":          {"  A =  1  \n\tB\t=\t2\t", map[string]string{"A": "1", "B": "2"}},
		"last wins":       {"A=1\nA=2\nA=", map[string]string{"A": ""}},
		"first = splits":  {"A=b=c=d", map[string]string{"A": "b=c=d"}},
		"no expansion":    {"A=$B ${C} `d`", map[string]string{"A": "$B ${C} `d`"}},
		"no key":          {"=1\n1\nA B=3", map[string]string{"": "", "A B": ""}},
		"nonsense":        {"\x00\x01\xff=\n\n\n==", map[string]string{"A": ""}},
		"process is kept": {"SET=file\nEMPTY=file", map[string]string{"SET": "process", "EMPTY": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			e := env(map[string]string{"SET": "process", "EMPTY": ""}, c.file)
			for k, want := range c.want {
				if got := e.Get(k); got != want {
					t.Errorf("%s = %q, want %q", k, got, want)
				}
			}
		})
	}
}

// TestEnvFileForms: every encoding of line ends in the reports reads alike.
func TestEnvFileForms(t *testing.T) {
	for _, name := range []string{"R124.crlf.env", "R124.cr.env", "R124.bom.env"} {
		data, err := os.ReadFile(filepath.Join("../testdata/field", name))
		if err != nil {
			t.Fatal(err)
		}
		e := env(nil, string(data))
		if e.Guard() != "http://127.0.0.1:8787/guard" || e.Collector() != "http://127.0.0.1:4318/v1/traces" {
			t.Errorf("%s: guard %q, collector %q", name, e.Guard(), e.Collector())
		}
	}
}

func TestCollector(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{Endpoint: "http://a/x?y=1"}, "http://a/x?y=1"},
		{map[string]string{Endpoint: "", OTLPTraces: "http://b"}, ""},
		{map[string]string{OTLPTraces: "http://b"}, "http://b"},
		{map[string]string{OTLPTraces: "http://b", OTLPEndpoint: "http://c"}, "http://b"},
		{map[string]string{OTLPEndpoint: "http://c"}, "http://c/v1/traces"},
		{map[string]string{OTLPEndpoint: "http://c/"}, "http://c/v1/traces"},
		{map[string]string{OTLPEndpoint: "http://c/base/?k=v"}, "http://c/base/v1/traces?k=v"},
		{map[string]string{OTLPEndpoint: "  "}, ""},
	} {
		if got := env(c.set, "").Collector(); got != c.want {
			t.Errorf("%v: %q, want %q", c.set, got, c.want)
		}
	}
}

func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		name, key, value string
		want             []Header
	}{
		{"pairs", Headers, "a=b,c=d", []Header{{"a", "b"}, {"c", "d"}}},
		{"equals in the value", Headers, "authorization=Basic ZGVtbzpkZW1v==,x-demo-auth=demo demo_key=abc123", []Header{{"authorization", "Basic ZGVtbzpkZW1v=="}, {"x-demo-auth", "demo demo_key=abc123"}}},
		{"blanks", Headers, " a = b , c=d ", []Header{{"a", "b"}, {"c", "d"}}},
		{"bad entries", Headers, "a=b,bad,=v,x y=1,ü=2,k=", []Header{{"a", "b"}, {"k", ""}}},
		{"reserved", Headers, "Host=x,Content-Length=1,connection=y,transfer-encoding=z,a=b", []Header{{"a", "b"}}},
		{"control characters", Headers, "a=b\rc,d=e\nf,g=h", []Header{{"g", "h"}}},
		{"last wins in any case", Headers, "Authorization=1,AUTHORIZATION=2", []Header{{"authorization", "2"}}},
		{"percent is kept in our own", Headers, "a=b%20c", []Header{{"a", "b%20c"}}},
		{"percent is decoded in OTEL's", OTLPHeaders, "a=b%20c,p=1+2,bad=100%,worse=%ZZ,x=%0D%0Ay: z", []Header{{"a", "b c"}, {"p", "1+2"}, {"bad", "100%"}, {"worse", "%ZZ"}}},
		{"comma cannot be escaped away", OTLPHeaders, "a=b%2Cc", []Header{{"a", "b,c"}}},
	} {
		if got := env(map[string]string{c.key: c.value}, "").TelemetryHeaders(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := env(map[string]string{Headers: "", OTLPHeaders: "a=b"}, "").TelemetryHeaders(); got != nil {
		t.Errorf("switched off: %v", got)
	}
}

func TestToken(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{RelayToken: " t "}, "t"},
		{map[string]string{RelayToken: "t", Headers: "x-pinta-relay-token=u"}, "t"},
		{map[string]string{Headers: "a=b,X-Pinta-Relay-Token=u"}, "u"},
		{map[string]string{RelayToken: "", Headers: "x-pinta-relay-token=u"}, ""},
		{map[string]string{RelayToken: "a\r\nb"}, ""},
	} {
		if got := env(c.set, "").Token(); got != c.want {
			t.Errorf("%v: %q, want %q", c.set, got, c.want)
		}
	}
}

func TestBudgets(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 100, "0": 100, "-5": 100, "soon": 100, "NaN": 100, "Inf": 100, "-Inf": 100, "1e999": 100, "1e308": 8000, "250": 250, " 250 ": 250, "2e2": 200, "150.5": 150, "0.001": 1, "8000": 8000, "99999": 8000,
	} {
		e := env(map[string]string{GuardTimeout: value}, "")
		if got := e.GuardBudget(1 << 19).Truncate(time.Millisecond); got != want*time.Millisecond {
			t.Errorf("%q: %v, want %d ms", value, got, want)
		}
	}
	e := env(nil, "")
	for size, want := range map[int]time.Duration{0: 100, 1<<20 - 1: 100, 1 << 20: 200, 4 << 20: 500, 200 << 20: 8000} {
		if got := e.GuardBudget(size); got != want*time.Millisecond {
			t.Errorf("%d bytes: %v, want %d ms", size, got, want)
		}
	}
	for value, want := range map[string]time.Duration{"": 1000, "50": 50, "9999": 4000, "x": 1000} {
		if got := env(map[string]string{TelemetryTimeout: value}, "").TelemetryBudget(); got != want*time.Millisecond {
			t.Errorf("telemetry %q: %v", value, got)
		}
	}
}

func TestFolders(t *testing.T) {
	for _, c := range []struct {
		set              map[string]string
		home, data, file string
	}{
		{nil, "", "", ""},
		{map[string]string{"HOME": "/h", "USERPROFILE": "/h"}, "/h/.copilot", "/h/.copilot/pinta-copilot-data", "/h/.copilot/pinta-copilot.env"},
		{map[string]string{"HOME": "/h", Home: "/c"}, "/c", "/c/pinta-copilot-data", "/c/pinta-copilot.env"},
		{map[string]string{Home: "", DataDir: "/d"}, "", "/d", ""},
		{map[string]string{Home: "/c", DataDir: "/d"}, "/c", "/d", "/c/pinta-copilot.env"},
	} {
		e := env(c.set, "")
		if filepath.ToSlash(e.CopilotHome()) != c.home || filepath.ToSlash(e.Data()) != c.data || filepath.ToSlash(e.File()) != c.file {
			t.Errorf("%v: %q %q %q", c.set, e.CopilotHome(), e.Data(), e.File())
		}
	}
}

func TestGuardSwitch(t *testing.T) {
	for value, want := range map[string]string{"1": "", "0": "http://g", "true": "http://g", " 1": "http://g", "": "http://g"} {
		if got := env(map[string]string{GuardDisabled: value, GuardEndpoint: " http://g "}, "").Guard(); got != want {
			t.Errorf("%q: %q", value, got)
		}
	}
}

func FuzzFill(f *testing.F) {
	f.Add("export A=\"1\"\r\n# x\nB='2")
	f.Add("PINTA_GUARD_TIMEOUT_MS=1e400\nCOPILOT_PLUGIN_OPTION_HEADERS=a=%41,b\x00=c")
	f.Fuzz(func(t *testing.T, file string) {
		e := env(nil, file)
		for k := range e.file {
			if k == "" || strings.ContainsAny(k, "\r\n=") {
				t.Errorf("key %q", k)
			}
		}
		for _, h := range e.TelemetryHeaders() {
			if !token(h.Name) || strings.ContainsAny(h.Value, "\r\n") {
				t.Errorf("header %q: %q", h.Name, h.Value)
			}
		}
		if b := e.GuardBudget(1); b <= 0 || b > maxGuard {
			t.Errorf("budget %v", b)
		}
		e.Collector()
	})
}
