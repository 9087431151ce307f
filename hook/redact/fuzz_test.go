package redact

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var seeds = []string{
	"", "plain", "use " + akia + " now", "aws_secret_access_key = " + base40, "key: " + account, account, ghp + " " + ghPat, glpat + xoxb, openai, anthropic,
	stripe, token, pemKey, "Bearer " + token, "basic dXNlcjpwYXNzd29yZA==", "psql postgres://bob:hunter2/x@db/x", "redis://:p@[::1]/0",
	"x --password \"a b\" --pwd=$(id)", `mysql -u root -p"hunter 2" -e 'x;y' app`, `bash -c "mysql -psecret"; find . -path x`, "export API_KEY='a\nb'; TOKEN=x|y",
	`{"a":"\u0041KIA` + akia[4:] + `","b":["{\"k\":\"A=1\\nKEY=x\"}",1.50,null]}`, "{\"a\":1}\n{\"b\":\"KEY=x\"}\n", `"A=1\nKEY=x"`, `["\ud83d\ude00\ud800"]`,
	"[REDACTED:hunter2] KEY=[REDACTED:jwt]", "-----BEGIN PRIVATE KEY-----\nQUJD\nrm -rf /", `{"type":"service_account","private_key":{"a":1},"private_key_id":7}`, "\xff\xfe\x00",
}

// code is what a shell might run, and what the judged form therefore never hides.
var code = regexp.MustCompile("[`;|&\n\r]|[$<][(]")

func FuzzRedact(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for name, do := range map[string]func(string) string{"Text": Text, "JudgedText": JudgedText, "plain rules": Rules(0).Text} {
			out := do(in)
			if json.Valid([]byte(in)) && !json.Valid([]byte(out)) {
				t.Fatalf("%s: %q was JSON, %q is not", name, in, out)
			}
			if utf8.ValidString(in) && !utf8.ValidString(out) {
				t.Fatalf("%s: %q was UTF-8, %q is not", name, in, out)
			}
			if again := do(do(out)); name == "Text" && again != do(again) {
				t.Fatalf("%s of %q doesn't come to rest: %q, %q", name, in, again, do(again))
			}
			pieces(t, in, out)
		}
		if strings.Contains(in, "PRIVATE KEY") || strings.Contains(in, "service") || edits(in, Rules(0), 0) == nil {
			return
		}
		if a, b := code.FindAllString(in, -1), code.FindAllString(JudgedText(in), -1); !looksJSON(in) && strings.Join(a, "") != strings.Join(b, "") {
			t.Fatalf("the judged form of %q hides code: %q", in, JudgedText(in))
		}
	})
}

var anyMarker = regexp.MustCompile(`\[REDACTED:[A-Za-z0-9_.-]+\]`)

// pieces checks that what stands between markers stood in the input, in the same order and spelling.
func pieces(t *testing.T, in, out string) {
	t.Helper()
	if in == out {
		return
	}
	quotes := strings.NewReplacer(`"`, "", `\`, "") // a number becomes a string, and so gets quotes
	rest := quotes.Replace(in)
	for _, piece := range anyMarker.Split(out, -1) {
		piece = quotes.Replace(piece)
		at := strings.Index(rest, piece)
		if at < 0 {
			t.Fatalf("%q holds %q, which doesn't stand there in %q", out, piece, in)
		}
		rest = rest[at+len(piece):]
	}
}

func FuzzMask(f *testing.F) {
	for _, s := range seeds {
		f.Add(s, "hunter2", "x")
		f.Add(s+" hunter2 x", "hunter2", "x")
		f.Add(`{"hunter2":"`+strings.ReplaceAll(strings.ToValidUTF8(s, ""), `"`, `\"`)+`","x":12}`, "hunter2", "12")
	}
	f.Add(`{"a":"{\"b\":\"x\\\"hunter2\\\"\"}"}`, `"hunter2"`, "x")
	f.Add(`x hunter2 \u0068unter2`, "hunter2", "2")
	f.Add("aaaa", "aa", "a")
	f.Add("pw: "+akia, "pw: [REDACTED:aws_access_key]", "w")
	f.Fuzz(func(t *testing.T, in, a, b string) {
		a, b = strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?") // as decoded JSON strings are
		list := pairs(a, "fuzz-a", b, "fuzz-b")
		out, ok := Mask(in, list)
		if text := NewMasker(list).Text(in); text != unmaskable {
			checkMasked(t, in, text, list)
		}
		hidden := string(NewMasker(list).JSON([]byte(in), Tool))
		if json.Valid([]byte(in)) && !json.Valid([]byte(hidden)) {
			t.Fatalf("%q was JSON, %q is not", in, hidden)
		}
		if !ok {
			return
		}
		if a == "" || b == "" {
			t.Fatal("an empty value is no sound list")
		}
		checkMasked(t, in, out, list)
	})
}

func checkMasked(t *testing.T, in, out string, list []Redaction) {
	if looksJSON(in) && json.Valid([]byte(in)) && !json.Valid([]byte(out)) { // a lone number is text
		t.Fatalf("%q was JSON, %q is not", in, out)
	}
	pieces(t, in, out)
	// A private-use character in the place of markers, which no value here holds.
	bare := anyMarker.ReplaceAllString(out, "\ue000")
	for _, r := range list {
		if r.Value == "" || strings.Contains(r.Value, "\ue000") {
			continue
		}
		for level, s := 0, bare; level < 4; level++ {
			if strings.Contains(s, r.Value) {
				t.Fatalf("%q is left in %q at level %d of escapes; the input was %q", r.Value, out, level, in)
			}
			s = unescaped(s)
		}
		for _, s := range decodedStrings(bare, 3) {
			if strings.Contains(s, r.Value) {
				t.Fatalf("%q is left in the string %q of %q", r.Value, s, out)
			}
		}
	}
}

var escape = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]`)

// unescaped decodes JSON escapes anywhere in s.
func unescaped(s string) string {
	return escape.ReplaceAllStringFunc(s, func(e string) string {
		var out string
		_ = json.Unmarshal([]byte(`"`+e+`"`), &out)
		return out
	})
}

// decodedStrings lists all strings in JSON text, and in JSON text within them.
func decodedStrings(s string, levels int) (out []string) {
	var v any
	if levels == 0 || json.Unmarshal([]byte(s), &v) != nil {
		return nil
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			out = append(append(out, v), decodedStrings(v, levels-1)...)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for k, e := range v {
				walk(k)
				walk(e)
			}
		}
	}
	walk(v)
	return out
}
