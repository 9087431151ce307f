package token

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/vectors.json anew")

// A vector is everything that a token says beside the token: the spec for
// another implementation.
type vector struct {
	Name, Manager, ID, Root, Pin, Seed, PublicKey, Token string
}

func TestVectors(t *testing.T) {
	const file = "testdata/vectors.json"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var vs []vector
	if err := json.Unmarshal(raw, &vs); err != nil {
		t.Fatal(err)
	}
	for i, v := range vs {
		t.Run(v.Name, func(t *testing.T) {
			want := Token{Manager: v.Manager, ID: v.ID, seed: new([32]byte)}
			for _, f := range []struct {
				dst []byte
				src string
			}{{want.Root[:], v.Root}, {want.Pin[:], v.Pin}, {want.seed[:], v.Seed}} {
				if _, err := hex.Decode(f.dst, []byte(f.src)); err != nil {
					t.Fatal(err)
				}
			}
			if *update {
				vs[i].Token, vs[i].PublicKey = want.Reveal(), hex.EncodeToString(want.Key().Public().(ed25519.PublicKey))
				return
			}
			got, err := Parse(v.Token)
			if err != nil {
				t.Fatal(err)
			}
			if got.Manager != want.Manager || got.ID != want.ID || got.Root != want.Root || got.Pin != want.Pin || *got.seed != *want.seed {
				t.Errorf("parsed %s %s %s", got.Manager, got.Root, got.Pin)
			}
			if pub := hex.EncodeToString(got.Key().Public().(ed25519.PublicKey)); pub != v.PublicKey {
				t.Errorf("public key %s, want %s", pub, v.PublicKey)
			}
			if got.Reveal() != v.Token {
				t.Error("does not write what it read")
			}
		})
	}
	if *update {
		out, _ := json.MarshalIndent(vs, "", "  ")
		if err := os.WriteFile(file, append(out, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func sample(t testing.TB) Token {
	t.Helper()
	tok, err := New("https://manager.example.com", "01J9ZQ3V5K8M2N4P6R7S8T9V0W", Fingerprint{1}, Fingerprint{})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestAlphabet(t *testing.T) {
	pinned, err := New("https://[2001:db8::1]:8443/pinta/", "01J9ZQ3V5K8M2N4P6R7S8T9V0W", Fingerprint{1}, Fingerprint{2})
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range []Token{sample(t), pinned} {
		if s := tok.Reveal(); !regexp.MustCompile(`^pinta_[A-Za-z0-9]+$`).MatchString(s) {
			t.Errorf("%q leaves the alphabet", s)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"https://manager.example.com", "https://manager.example.com"},
		{" https://Manager.Example.com/ ", "https://manager.example.com"},
		{"https://m.example:8443/pinta/", "https://m.example:8443/pinta"},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"http://[::1]:8080", "http://[::1]:8080"},
		{"http://localhost:8080", "http://localhost:8080"},
		{"http://manager.example.com", ""},
		{"http://127.0.0.1.example.com", ""},
		{"https://user:pw@manager.example.com", ""},
		{"https://manager.example.com?x=1", ""},
		{"https://manager.example.com#x", ""},
		{"https:manager.example.com", ""},
		{"manager.example.com", ""},
		{"ftp://manager.example.com", ""},
		{"", ""},
	} {
		got, err := CheckURL(c.in)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("CheckURL(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func TestEveryTypoIsTold(t *testing.T) {
	s := sample(t).Reveal()
	for i := len(Prefix); i < len(s); i++ {
		b := []byte(s)
		if b[i]++; b[i] == '9'+1 || b[i] == 'z'+1 || b[i] == 'Z'+1 {
			b[i] = '0'
		}
		if _, err := Parse(string(b)); !errors.Is(err, ErrChecksum) {
			t.Fatalf("digit %d changed: %v", i, err)
		}
	}
	for _, cut := range []int{1, 6, 40, len(s) - len(Prefix) - checkLen - 1} {
		if _, err := Parse(s[:len(s)-cut]); !errors.Is(err, ErrChecksum) {
			t.Errorf("%d digits lost: %v", cut, err)
		}
	}
}

func TestFingerprintInJSON(t *testing.T) {
	f := Fingerprint{1, 2, 0xff}
	text, err := json.Marshal(f)
	if err != nil || string(text) != `"`+f.String()+`"` {
		t.Fatalf("%s %v", text, err)
	}
	var back Fingerprint
	if err := json.Unmarshal(text, &back); err != nil || back != f {
		t.Errorf("%s %v", back, err)
	}
	array, err := json.Marshal([32]byte(f))
	if err != nil || json.Unmarshal(array, &back) != nil || back != f {
		t.Errorf("%s: %s %v", array, back, err)
	}
	for _, bad := range []string{`""`, `"AQL_"`, `7`, `{}`, `["a"]`} {
		if json.Unmarshal([]byte(bad), &back) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// What is wrong under a right checksum comes from another program, not a typo.
func TestForeignBodies(t *testing.T) {
	good := sample(t)
	with := func(change func(*Token)) string {
		c := good
		change(&c)
		return c.Reveal()
	}
	raw := func(body string) string { s := Prefix + body; return s + checksum(s) }
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"plain http to a remote host", with(func(c *Token) { c.Manager = "http://manager.example.com" }), ErrFormat},
		{"URL in another spelling", with(func(c *Token) { c.Manager += "/" }), ErrFormat},
		{"no URL", with(func(c *Token) { c.Manager = "" }), ErrFormat},
		{"no root", with(func(c *Token) { c.Root = Fingerprint{} }), ErrFormat},
		{"leading zero", raw("0" + good.Reveal()[len(Prefix):len(good.Reveal())-checkLen]), ErrFormat},
		{"short", raw("1"), ErrFormat},
		{"newer version", raw("8"), ErrVersion},
		{"sign", "pinta_+1" + checksum("pinta_+1"), ErrFormat},
		{"too long", raw(strings.Repeat("1", MaxLen)), ErrFormat},
	} {
		if _, err := Parse(c.in); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// The field-report inputs (R127, R129) carry FAKE-TOKEN-0001 instead of a real
// token: the cleaning must find it, the parser must call it no token.
func TestFieldReports(t *testing.T) {
	for file, want := range map[string]error{
		"R127.lf.txt": nil, "R127.crlf.txt": nil, "R127.quoted.txt": nil, "R127.bom.txt": nil, "R127.utf16.txt": nil,
		"R127.blanks.txt": nil, "R127.zwsp.txt": nil, "R127.two.txt": ErrTwoLines, "R129.txt": ErrTwoLines,
	} {
		raw, err := os.ReadFile(filepath.Join("testdata/delivered", file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Clean(raw)
		if !errors.Is(err, want) || want == nil && got != "FAKE-TOKEN-0001" {
			t.Errorf("%s: %q, %v; want %v", file, got, err, want)
		}
		// The same damage around a real token, which must come through whole.
		if want == nil {
			s := sample(t).Reveal()
			damaged := bytes.ReplaceAll(raw, []byte("FAKE-TOKEN-0001"), []byte(s))
			if file == "R127.zwsp.txt" {
				damaged = bytes.ReplaceAll(raw, []byte("FAKE-\u200bTOKEN-0001"), []byte(s[:9]+"\u200b"+s[9:]))
			}
			if file == "R127.utf16.txt" {
				damaged = utf16le("\ufeff" + s + "\r\n")
			}
			if tok, err := Parse(string(damaged)); err != nil || tok.Reveal() != s {
				t.Errorf("%s around a real token: %v", file, err)
			}
		}
	}
}

func utf16le(s string) (b []byte) {
	for _, r := range s {
		b = append(b, byte(r), byte(r>>8))
	}
	return b
}

func utf16be(s string) (b []byte) {
	for _, r := range s {
		b = append(b, byte(r>>8), byte(r))
	}
	return b
}

func TestDelivered(t *testing.T) {
	s := sample(t).Reveal()
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"bare", s, nil},
		{"newline", s + "\n", nil},
		{"carriage return", s + "\r", nil},
		{"blank lines", "\n\r\n  " + s + "\t\n\n", nil},
		{"double quotes", `"` + s + `"`, nil},
		{"single quotes", "'" + s + "'\r\n", nil},
		{"nested quotes", `"'` + s + `'" `, nil},
		{"typographic quotes", "\u201c" + s + "\u201d", nil},
		{"one quote lost", s + `"`, nil},
		{"BOM and CRLF", "\ufeff" + s + "\r\n", nil},
		{"BOM inside quotes", "\"\ufeff" + s + "\"", nil},
		{"UTF-16LE", string(utf16le("\ufeff" + s + "\r\n")), nil},
		{"UTF-16BE", string(utf16be("\ufeff" + s + "\r\n")), nil},
		{"UTF-16LE without mark", string(utf16le(s + "\r\n")), nil},
		{"UTF-16BE without mark", string(utf16be(s + "\r\n")), nil},
		{"UTF-16 odd tail", string(utf16le("\ufeff"+s)) + "\n", nil},
		{"NUL-terminated", s + "\x00\x00", nil},
		{"zero width", s[:3] + "\u200b" + s[3:20] + "\u200d\u2060" + s[20:] + "\u200e", nil},
		{"no-break space", "\u00a0" + s + "\u3000", nil},
		{"same line twice", s + "\n" + s + "\n", nil},
		{"two tokens", s + "\n" + sample(t).Reveal(), ErrTwoLines},
		{"two tokens, CR only", s + "\r" + sample(t).Reveal(), ErrTwoLines},
		{"token and comment", "# enrolment\n" + s, ErrTwoLines},
		{"two tokens on a line", s + " " + s, ErrFormat},
		{"empty", "", ErrEmpty},
		{"blank", " \r\n\t", ErrEmpty},
		{"only a BOM", "\ufeff", ErrEmpty},
		{"only quotes", `""`, ErrEmpty},
		{"cmd variable", "%TOKEN%", ErrPlaceholder},
		{"cmd variable, long", "%PINTA_ENROLLMENT_TOKEN%", ErrPlaceholder},
		{"sh variable", "$TOKEN", ErrPlaceholder},
		{"sh variable in braces", `"${TOKEN}"`, ErrPlaceholder},
		{"PowerShell variable", "$env:TOKEN", ErrPlaceholder},
		{"jinja", "{{token}}", ErrPlaceholder},
		{"jinja with blanks", "{{ enrollment_token }}", ErrPlaceholder},
		{"angle brackets", "<token>", ErrPlaceholder},
		{"prefix and angle brackets", "pinta_<your token>", ErrPlaceholder},
		{"ant", "@TOKEN@", ErrPlaceholder},
		{"words", "YOUR-TOKEN", ErrPlaceholder},
		{"words of a manual", "YOUR_TOKEN_HERE", ErrPlaceholder},
		{"words after the prefix", "pinta_YOUR_TOKEN", ErrPlaceholder},
		{"name only", "TOKEN", ErrPlaceholder},
		{"the letter x", "pinta_xxxxxxxx", ErrPlaceholder},
		{"ellipsis", "pinta_...", ErrPlaceholder},
		{"prefix only", "pinta_", ErrPlaceholder},
		{"template engine's nothing", "None", ErrPlaceholder},
		{"other secret", "glpat-0123456789abcdef", ErrFormat},
		{"prefix in capitals", "PINTA_" + s[6:], ErrFormat},
		{"half", s[:len(s)/2], ErrChecksum},
		{"one more digit", s + "0", ErrChecksum},
		{"blank in the middle", s[:20] + " " + s[20:], ErrFormat},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok, err := Parse(c.in)
			if !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if err == nil && tok.Reveal() != s {
				t.Error("another token came out")
			}
			if err != nil && strings.Contains(err.Error(), s[8:20]) {
				t.Error("the error quotes the token")
			}
		})
	}
}

func TestPrintsAsAMask(t *testing.T) {
	tok := sample(t)
	seed := tok.seed[:]
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", tok)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", tok, "in", struct{ T Token }{tok})
	js, err := json.Marshal(map[string]any{"t": tok, "p": &tok})
	if err != nil {
		t.Fatal(err)
	}
	hidden := struct{ t Token }{tok} // fmt can't ask an unexported field for its methods
	for _, out := range []string{fmt.Sprint(tok), fmt.Sprintf("%v %+v %#v %s %q %x %d", tok, tok, tok, tok, tok, tok, tok),
		fmt.Sprintf("%v %+v %#v", hidden, hidden, hidden), fmt.Sprintf("%v %#v", &tok, &tok), string(js), log.String()} {
		for _, leak := range []string{tok.Reveal(), tok.Reveal()[100:120], hex.EncodeToString(seed[:4]), strings.Trim(fmt.Sprintf("%d", seed[:3]), "[]")} {
			if strings.Contains(out, leak) {
				t.Errorf("%q leaks", out)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	s := sample(f).Reveal()
	for _, seed := range []string{s, "pinta_", s[:50], string(utf16le("\ufeff" + s)), "{{token}}", s + "\n" + s, ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		tok, err := Parse(in)
		if err != nil {
			if !tok.IsZero() {
				t.Error("a token beside an error")
			}
			return
		}
		again, err := Parse(tok.Reveal())
		if err != nil || again.Reveal() != tok.Reveal() || again.Manager != tok.Manager {
			t.Errorf("accepted, but does not survive being written: %v", err)
		}
	})
}
