package api

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// key makes a key from a letter, so that vectors stay the same.
func key(c byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = c
	}
	return ed25519.NewKeyFromSeed(seed)
}

func pub(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func config() *GuardConfig {
	return &GuardConfig{Schema: 1, Version: 12, Aud: "https://m.example", Group: "g", IssuedAt: at, ExpiresAt: at.Add(time.Hour),
		Guard: json.RawMessage(`{"mode":"enforce"}`), Telemetry: TelemetryConfig{Enabled: true, Endpoint: "manager"},
		Hooks: HooksConfig{User: true}, Agent: AgentConfig{CheckinSeconds: 60, LogLevel: LogLevelInfo}}
}

func TestThumbprintIsRFC7638(t *testing.T) {
	// RFC 8037 A.3
	x, err := DecodeKey("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
	if err != nil {
		t.Fatal(err)
	}
	if got := KeyID(x); got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Fatalf("thumbprint %s", got)
	}
}

func TestVerifyRefuses(t *testing.T) {
	signing, other := key('s'), key('o')
	good, err := Sign(config(), signing)
	if err != nil {
		t.Fatal(err)
	}
	part := strings.Split(good, ".")
	payload := func(s string) string {
		out, err := signCompact(KindConfig, []byte(s), MaxConfig, signing, false)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	header := func(h string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(h)) + "." + part[1] + "." + part[2]
	}
	text, _ := json.Marshal(config())
	body := string(text)
	foreign, _ := Sign(config(), other)
	action, _ := Sign(&Action{Schema: 1, ID: "1", DeviceID: "d", Aud: "a", Kind: ActionKindResync, IssuedAt: at, ExpiresAt: at}, signing)
	tests := []struct {
		name, doc string
		want      error
	}{
		{"good", good, nil},
		{"empty", "", ErrMalformed},
		{"truncated", good[:len(good)-8], ErrSignature},
		{"two parts", part[0] + "." + part[1], ErrMalformed},
		{"payload changed", part[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(body, "12", "13", 1))) + "." + part[2], ErrSignature},
		{"another key", foreign, ErrSignature},
		{"alg none", header(`{"alg":"none","typ":"pinta-config+jws","kid":"` + KeyID(pub(signing)) + `"}`), ErrSignature},
		{"alg HS256", header(`{"alg":"HS256","typ":"pinta-config+jws","kid":"` + KeyID(pub(signing)) + `"}`), ErrSignature},
		{"no kid", header(`{"alg":"EdDSA","typ":"pinta-config+jws"}`), ErrSignature},
		{"another kind", action, ErrMalformed},
		{"critical header", header(`{"alg":"EdDSA","typ":"pinta-config+jws","crit":["x"],"x":1,"kid":"` + KeyID(pub(signing)) + `"}`), ErrSignature},
		{"unknown field", payload(strings.Replace(body, `{"agent"`, `{"extra":1,"agent"`, 1)), ErrMalformed},
		{"unknown field below", payload(strings.Replace(body, `"logLevel"`, `"x":1,"logLevel"`, 1)), ErrMalformed},
		{"key twice", payload(strings.Replace(body, `"group":"g"`, `"group":"g","group":"h"`, 1)), ErrMalformed},
		{"key in another case", payload(strings.Replace(body, `"group":"g"`, `"Group":"g"`, 1)), ErrMalformed},
		{"field missing", payload(strings.Replace(body, `"group":"g",`, ``, 1)), ErrMalformed},
		{"null field", payload(strings.Replace(body, `"group":"g"`, `"group":null`, 1)), ErrMalformed},
		{"trailing", payload(body + "{}"), ErrMalformed},
		{"array", payload("[]"), ErrMalformed},
		{"deep", payload(strings.Replace(body, `{"mode":"enforce"}`, strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100), 1)), ErrMalformed},
		{"schema of the future", payload(`{"schema":2,"shape":"new"}`), ErrSchema},
		{"schema 0", payload(strings.Replace(body, `"schema":1`, `"schema":0`, 1)), ErrMalformed},
		{"huge", strings.Repeat("a", MaxConfig+1), ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Verify(tt.doc, &GuardConfig{}, KeysOf(pub(signing)))
			if tt.want == nil && err != nil || !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestRootDocuments(t *testing.T) {
	root, other := key('r'), key('o')
	reply := &EnrolReply{Schema: 1, DeviceID: "d", Group: "g", SigningKeys: KeySet{Keys: []Key{JWK(pub(key('s')))}}, KeysVersion: 1,
		Audience: "https://m.example", CheckinSeconds: 60, ServerTime: at, Nonce: "n"}
	doc, err := SignRoot(reply, root)
	if err != nil {
		t.Fatal(err)
	}
	var got EnrolReply
	if err := VerifyRoot(doc, &got, Thumbprint(pub(root))); err != nil || got.Nonce != "n" {
		t.Fatalf("%+v %v", got, err)
	}
	if err := VerifyRoot(doc, &got, Thumbprint(pub(other))); !errors.Is(err, ErrSignature) {
		t.Fatalf("another root: %v", err)
	}
	plain, _ := Sign(reply, root)
	if err := VerifyRoot(plain, &got, Thumbprint(pub(root))); !errors.Is(err, ErrSignature) {
		t.Fatalf("without its key: %v", err)
	}
	if err := VerifyRoot(doc, &KeyStatement{}, Thumbprint(pub(root))); !errors.Is(err, ErrMalformed) {
		t.Fatalf("as another kind: %v", err)
	}
}

func enrolment() *EnrolRequest {
	return &EnrolRequest{Schema: 1, TokenID: "t", Reason: EnrolReasonFirst, Nonce: "n", Iat: at.Unix(), Aud: "https://m.example",
		Device: EnrolDevice{PublicKey: EncodeKey(pub(key('d'))), Hostname: "h", Os: "linux", Arch: "amd64"}}
}

func TestEnrolNeedsBothSignatures(t *testing.T) {
	token, device, other := key('t'), key('d'), key('o')
	tests := []struct {
		name        string
		by1, by2    ed25519.PrivateKey
		parse, hold error
	}{
		{"both", token, device, nil, nil},
		{"any order", device, token, nil, nil},
		{"token only", token, token, nil, ErrSignature},
		{"device only", device, device, nil, ErrSignature},
		{"another token", other, device, nil, ErrSignature},
		{"another device", token, other, nil, ErrSignature},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, err := SignEnrol(enrolment(), tt.by1, tt.by2)
			if err != nil {
				t.Fatal(err)
			}
			e, err := ParseEnrol(body)
			if !errors.Is(err, tt.parse) {
				t.Fatalf("parse: %v", err)
			}
			if err := e.Verify(pub(token)); !errors.Is(err, tt.hold) {
				t.Fatalf("verify: %v", err)
			}
		})
	}
	compact, _ := Sign(enrolment(), token)
	for _, bad := range []string{"", "{}", compact, strings.Repeat("a", MaxEnrol+1)} {
		if _, err := ParseEnrol([]byte(bad)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

func TestCall(t *testing.T) {
	device := key('d')
	request := func(method, url string) *http.Request {
		r, _ := http.NewRequest(method, url, nil)
		return r
	}
	signed := func(now time.Time) string {
		r := request("POST", "https://m.example/api/v1/device/report?a=1")
		c := Caller{DeviceID: "d", Audience: "https://m.example", Boot: "b", Key: device}
		if err := c.Authorize(r, []byte("body"), now); err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	tests := []struct {
		name, method, path, body, aud string
		key                           ed25519.PrivateKey
		issued                        time.Duration // after at
		want                          error
	}{
		{"good", "POST", "/api/v1/device/report?a=1", "body", "https://m.example", device, 0, nil},
		{"another key", "POST", "/api/v1/device/report?a=1", "body", "https://m.example", key('o'), 0, ErrSignature},
		{"another audience", "POST", "/api/v1/device/report?a=1", "body", "https://n.example", device, 0, ErrAudience},
		{"another method", "PUT", "/api/v1/device/report?a=1", "body", "https://m.example", device, 0, ErrMismatch},
		{"another path", "POST", "/api/v1/device/key?a=1", "body", "https://m.example", device, 0, ErrMismatch},
		{"another query", "POST", "/api/v1/device/report?a=2", "body", "https://m.example", device, 0, ErrMismatch},
		{"another body", "POST", "/api/v1/device/report?a=1", "body2", "https://m.example", device, 0, ErrMismatch},
		{"expired", "POST", "/api/v1/device/report?a=1", "body", "https://m.example", device, -CallLife, ErrClock},
		{"from the future", "POST", "/api/v1/device/report?a=1", "body", "https://m.example", device, CallAhead + time.Second, ErrClock},
		{"clock a little ahead", "POST", "/api/v1/device/report?a=1", "body", "https://m.example", device, CallAhead, nil},
		{"clock a little behind", "POST", "/api/v1/device/report?a=1", "body", "https://m.example", device, time.Second - CallLife, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ParseCall(signed(at.Add(tt.issued)))
			if err != nil {
				t.Fatal(err)
			}
			r := request(tt.method, "http://behind.a.proxy"+tt.path)
			err = c.Verify(pub(tt.key), tt.aud, at)
			if err == nil {
				err = c.Match(r, []byte(tt.body))
			}
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
		})
	}
	claims := func(s string) string {
		out, err := signCompact(KindDevice, []byte(s), MaxJWT, device, false)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, bad := range []string{
		"", "a.b.c", strings.Repeat("a", MaxJWT+1),
		claims(`{"iss":"d","aud":"a","iat":1,"exp":122,"jti":"0123456789abcdef","req":"x"}`),
		claims(`{"iss":"d","aud":"a","iat":10,"exp":10,"jti":"0123456789abcdef","req":"x"}`),
		claims(`{"iss":"d","aud":"a","iat":10,"exp":20,"jti":"short","req":"x"}`),
		claims(`{"iss":"d","iss":"e","aud":"a","iat":10,"exp":20,"jti":"0123456789abcdef","req":"x"}`),
		claims(`{"iss":"d","aud":"a","iat":-9223372036854775808,"exp":9223372036854775807,"jti":"0123456789abcdef","req":"x"}`),
	} {
		if _, err := ParseCall(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

func TestEveryCodeHasAProblem(t *testing.T) {
	doc := string(OpenAPI)
	start := strings.Index(doc, "ProblemCode:\n      type: string\n      enum:\n")
	n := 0
	for line := range strings.Lines(doc[start:]) {
		code, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			if n > 0 {
				break
			}
			continue
		}
		n++
		if p := NewProblem(ProblemCode(code), ""); string(p.Code) != code || p.Status < 400 || p.Title == "" {
			t.Errorf("%s: %+v", code, p)
		}
	}
	if n != len(problems) {
		t.Errorf("%d codes in the document, %d in the table", n, len(problems))
	}
}

// The generated files are those that the document generates.
func TestGeneratedIsUpToDate(t *testing.T) {
	list := exec.Command("go", "-C", "gen", "tool", "-n", "oapi-codegen")
	if out, err := list.CombinedOutput(); err != nil {
		t.Skipf("the generator's modules are not to be had here: %v\n%s", err, out)
	}
	for _, name := range []string{"types", "public", "enrol", "device", "admin"} {
		out, conf := filepath.Join(t.TempDir(), name+".go"), filepath.Join(t.TempDir(), name+".yaml")
		text, err := os.ReadFile(filepath.Join("gen", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.Replace(string(text), "../"+name+".gen.go", out, 1))
		if err := os.WriteFile(conf, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if msg, err := exec.Command("go", "-C", "gen", "tool", "oapi-codegen", "-config", conf, "../openapi.yaml").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, msg)
		}
		want, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(name + ".gen.go")
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != string(have) {
			t.Errorf("%s.gen.go is not what openapi.yaml generates: run go generate ./internal/api", name)
		}
	}
}

// Whoever answers, a pause is neither negative nor longer than an hour.
func TestRetryAfterIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name, header, body string
		want               int
	}{
		{"none", "", "", 0},
		{"seconds", "7", "", 7},
		{"a date long past", "Mon, 02 Jan 2006 15:04:05 GMT", "", 0},
		{"nonsense", "soon", "", 0},
		{"negative", "-5", "", 0},
		{"a year", "31536000", "", 3600},
		{"a date far ahead", "Fri, 31 Dec 2199 23:59:59 GMT", "", 3600},
		{"of the document", "", `{"code":"busy","retryAfter":30}`, 30},
		{"of the document, negative", "", `{"code":"busy","retryAfter":-30}`, 0},
		{"of the document, overflowing", "", `{"code":"busy","retryAfter":9000000000000000000}`, 3600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}}
			if tt.header != "" {
				res.Header.Set("Retry-After", tt.header)
			}
			if tt.body != "" {
				res.Header.Set("Content-Type", "application/problem+json")
			}
			if got := problemOf(res, []byte(tt.body)).RetryAfter; got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}
