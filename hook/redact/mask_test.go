package redact

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pairs makes a list of value, category, value, category …
func pairs(s ...string) (out []Redaction) {
	for i := 0; i < len(s); i += 2 {
		out = append(out, Redaction{s[i], s[i+1]})
	}
	return out
}

func TestMask(t *testing.T) {
	for _, c := range []struct {
		name, in string
		list     []Redaction
		want     string
	}{
		{"one value", "id=1 key=hunter22 end", pairs("hunter22", "pw"), "id=1 key=[REDACTED:pw] end"},
		{"each occurrence", "a b a", pairs("a", "x"), "[REDACTED:x] b [REDACTED:x]"},
		{"what remains is redacted", "hunter22 " + akia, pairs("hunter22", "pw"), "[REDACTED:pw] [REDACTED:aws_access_key]"},
		{"half a token beside a value", akia, pairs(akia[:8], "half"), "[REDACTED:half][REDACTED:aws_access_key]"},
		{"a value in a secret's place keeps its marker", "API_KEY=hunter22 x", pairs("hunter22", "pw"), "API_KEY=[REDACTED:pw] x"},
		{"a value within a secret", "API_KEY=ahunter22b x", pairs("hunter22", "pw"), "API_KEY=[REDACTED:env_var_secret][REDACTED:pw][REDACTED:env_var_secret] x"},
		{"a value with a line break", "API_KEY='a\nb' x", pairs("a\nb", "pw"), "API_KEY='[REDACTED:pw]' x"},

		{"overlap: the first gives the category", "abcdefgh", pairs("cdef", "b", "abcd", "a"), "[REDACTED:a]gh"},
		{"same start: the longer", "abcdefgh", pairs("ab", "short", "abcd", "long"), "[REDACTED:long]efgh"},
		{"same value: list order", "ab", pairs("ab", "one", "ab", "two"), "[REDACTED:one]"},
		{"a chain", "abcdefgh", pairs("ab", "1", "bcd", "2", "def", "3"), "[REDACTED:1]gh"},
		{"within another", "abcdef", pairs("cd", "in", "abcdef", "out"), "[REDACTED:out]"},
		{"adjacent ranges stay apart", "abab cd", pairs("ab", "x"), "[REDACTED:x][REDACTED:x] cd"},
		{"a value that overlaps itself", "xaaax", pairs("aa", "k"), "x[REDACTED:k]x"},

		{"JSON: decoded strings", `{"a": "p\"w\\d\nx", "n": 1, "keep": [1, 2]}`, pairs("p\"w\\d\nx", "password"), `{"a": "[REDACTED:password]", "n": 1, "keep": [1, 2]}`},
		{"JSON: keys", `{"hunter22": {"hunter22x": 1.0}}`, pairs("hunter22", "k"), `{"[REDACTED:k]": {"[REDACTED:k]x": 1.0}}`},
		{"JSON: escaped spellings", `["\u0068unter22 caf\u00e9 \/"]`, pairs("hunter22", "k"), `["[REDACTED:k] caf\u00e9 \/"]`},
		{"JSON in JSON", `{"a":"{\"b\":\"x\\\"hunter22\\\"\"}"}`, pairs(`"hunter22"`, "k"), `{"a":"{\"b\":\"x[REDACTED:k]\"}"}`},
		{"JSON: numbers become strings", `{"pin": 912345678 , "n": 1}`, pairs("12345678", "pin"), `{"pin": "9[REDACTED:pin]" , "n": 1}`},
		{"JSON: numbers in a string", `{"a":"{\"pin\":12345678}"}`, pairs("12345678", "pin"), `{"a":"{\"pin\":\"[REDACTED:pin]\"}"}`},
		{"JSON: the rest is redacted", `{"a":"hunter22","b":"\u0041KIA` + akia[4:] + `"}`, pairs("hunter22", "k"), `{"a":"[REDACTED:k]","b":"[REDACTED:aws_access_key]"}`},
		{"JSON: surrogates", `["\ud83d\ude00x\ud800"]`, pairs("😀", "k"), `["[REDACTED:k]x\ud800"]`},
		{"JSON: lone surrogates are U+FFFD", `["a\ud800b"]`, pairs("a\ufffdb", "k"), `["[REDACTED:k]"]`},
		{"JSON lines", "{\"a\":\"\\u0068unter22\"}\n{\"b\":1}\n", pairs("hunter22", "k"), "{\"a\":\"[REDACTED:k]\"}\n{\"b\":1}\n"},
		{"a service account goes as a whole", `{"a":` + account + `}`, pairs("0123abcd", "id"), `{"a":"[REDACTED:gcp_service_account]"}`},

		{"category: cleaned", "hunter22", pairs("hunter22", "a b]\n/é_-.9"), "[REDACTED:ab_-.9]"},
		{"category: empty", "hunter22", pairs("hunter22", "[]"), "[REDACTED:value]"},
		{"category: 64", "hunter22", pairs("hunter22", strings.Repeat("c", 65)), "[REDACTED:" + strings.Repeat("c", 64) + "]"},
		{"category: no value", "hunter22 swordfish", pairs("hunter22", "pw-swordfish", "swordfish", "fish"), "[REDACTED:value] [REDACTED:fish]"},

		{"a marker in the input is text", "[REDACTED:hunter2] x", pairs("hunter2", "k"), "[REDACTED:[REDACTED:k]] x"},
		{"markers of this run are not masked", "key sword REDACTED", pairs("sword", "k", "REDACTED", "r", "k", "c"), "[REDACTED:c]ey [REDACTED:k] [REDACTED:r]"},
		{"a value that is a marker of this run", "x " + akia, pairs("[REDACTED:aws_access_key]", "k"), "x [REDACTED:aws_access_key]"},
		{"a marker that stood in the input", "x [REDACTED:jwt]", pairs("[REDACTED:jwt]", "k"), "x [REDACTED:k]"},
		{"a value of the redacted form", "pw: " + akia + "; tail", pairs("pw: [REDACTED:aws_access_key]; tail", "k"), "[REDACTED:k][REDACTED:aws_access_key][REDACTED:k]"},
		{"a value of the judged form", account, pairs(`"private_key_id": "[REDACTED:gcp_service_account]"`, "k"), `"[REDACTED:gcp_service_account]"`},
		{"a value that two markers spell", "aabb", pairs("aa", "x", "bb", "y", "aabb", "z"), "[REDACTED:z]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := Mask(c.in, c.list)
			if !ok || got != c.want {
				t.Errorf("Mask(%q) = %q, %v\nwant %q", c.in, got, ok, c.want)
			}
		})
	}
}

func TestWithhold(t *testing.T) {
	many := make([]Redaction, 1001)
	text := ""
	for i := range many {
		many[i].Value = "v" + strconv.Itoa(10000+i)
		text += many[i].Value + " "
	}
	if _, ok := Mask(text, many[:1000]); !ok {
		t.Error("1000 values are allowed")
	}
	for _, c := range []struct {
		name, in string
		list     []Redaction
	}{
		{"no list", "x", nil},
		{"an empty value", "x", pairs("x", "k", "", "k")},
		{"a value that is not there", "x", pairs("x", "k", "y", "k")},
		{"too many values", text, many},
		{"values too long", strings.Repeat("x", 2<<20), pairs(strings.Repeat("x", 2<<20), "k")},
		{"a value across JSON's structure", `{"a":"b","c":1}`, pairs(`"b","c"`, "k")},
		{"an escaped spelling in text", `x hunter22 \u0068unter22`, pairs("hunter22", "k")},
		{"escaped twice in text", `x hunter22 \\u0068unter22`, pairs("hunter22", "k")},
		{"in JSON that breaks off", `{"a":"hunter22","b":"hunter\u00322"`, pairs("hunter22", "k")},
		{"more escapes than anyone reads", "x" + strings.Repeat(`\u005c`, 1) + strings.Repeat("u005c", 40) + " hunter22", pairs("hunter22", "k")},
		{"a value in the escapes of JSON", `{"a":"x\ny"}`, pairs("ny", "k")},
		{"an empty output", "", pairs("x", "k")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, ok := Mask(c.in, c.list); ok || got != "" {
				t.Errorf("Mask(%.80q) = %.80q, %v; want it withheld", c.in, got, ok)
			}
		})
	}
}

func TestMaskerRunsOutOfTime(t *testing.T) {
	clock := time.Unix(0, 0)
	m := newMasker(pairs("hunter22", "k"), func() time.Time {
		clock = clock.Add(300 * time.Millisecond)
		return clock
	})
	text := strings.Repeat("hunter22 "+strings.Repeat("x", 100<<10), 8)
	if out, ok := m.Output(text); ok {
		t.Errorf("more than a second of work gave %d bytes", len(out))
	}
	if got := m.Text("a hunter22"); got != unmaskable {
		t.Errorf("late text became %q", got)
	}
	if got := string(m.JSON([]byte(`{"a":1}`), Tool)); got != `"`+unmaskable+`"` {
		t.Errorf("late JSON became %s", got)
	}
}

// TestMaskerRunsOutOfTimeWithinAText: one long text is no single step.
func TestMaskerRunsOutOfTimeWithinAText(t *testing.T) {
	clock := time.Unix(0, 0)
	m := newMasker(pairs("hunter22", "k"), func() time.Time {
		clock = clock.Add(30 * time.Millisecond)
		return clock
	})
	if out, ok := m.Output("hunter22 " + strings.Repeat("x", 4<<20)); ok {
		t.Errorf("more than a second of work gave %d bytes", len(out))
	}
	if got := m.Text("a hunter22"); got != unmaskable {
		t.Errorf("late text became %q", got)
	}
}

func TestMaskerText(t *testing.T) {
	m := NewMasker(pairs("hunter22", "k"))
	for in, want := range map[string]string{
		"":                          "",
		"nothing":                   "nothing",
		"a hunter22 " + akia:        "a [REDACTED:k] [REDACTED:aws_access_key]",
		`{"a":"\u0068unter22"}`:     `{"a":"[REDACTED:k]"}`,
		`no JSON \u0068unter22`:     "[REDACTED:value]",
		"API_KEY=hunter22":          "API_KEY=[REDACTED:k]",
		"mysql -psecret hunter22":   "mysql -p[REDACTED:cli_password_short] [REDACTED:k]",
		strings.Repeat(`\u005c`, 9): strings.Repeat(`\u005c`, 9),
	} {
		if got := m.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	if got := m.Clean("mysql -psecret hunter22", 0); got != "mysql -psecret [REDACTED:k]" {
		t.Errorf("Clean gave %q", got)
	}
	if got := m.Hide(akia + " hunter22 " + account); got != akia+" [REDACTED:k] "+account {
		t.Errorf("Hide gave %q", got)
	}
	if got := string(m.JSON([]byte(`{"pin":"hunter22","a":["`+akia+`"]}`), Tool)); got != `{"pin":"[REDACTED:k]","a":["[REDACTED:aws_access_key]"]}` {
		t.Errorf("JSON gave %s", got)
	}
	if got := string(NewMasker(pairs("234", "n")).JSON([]byte("12345"), Tool)); got != `"1[REDACTED:n]5"` {
		t.Errorf("a number became %s", got)
	}
	if got := NewMasker(nil).Text(akia); got != markers[awsAccessKey] {
		t.Errorf("without values: %q", got)
	}
	if got := NewMasker(nil).Hide(akia); got != akia {
		t.Errorf("Hide without values: %q", got)
	}
}

// Values of every length, in every nesting, next to each other: what a slow search finds must be gone, and nothing else.
func TestMaskedOutputIsJSON(t *testing.T) {
	list := pairs("hunter22", "k", "12", "n", `"`, "q")
	in := `{"a\"":[12,"\"",{"b":"{\"c\":\"\\\"hunter22\\\"\",\"d\":[3124]}"}],"hunter22":null}`
	got, ok := Mask(in, list)
	if ok {
		t.Fatalf("a quote is part of every JSON text, yet: %s", got)
	}
	got, ok = Mask(in, list[:2])
	if !ok || !json.Valid([]byte(got)) {
		t.Fatalf("got %s, %v", got, ok)
	}
	if want := `{"a\"":["[REDACTED:n]","\"",{"b":"{\"c\":\"\\\"[REDACTED:k]\\\"\",\"d\":[\"3[REDACTED:n]4\"]}"}],"[REDACTED:k]":null}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
