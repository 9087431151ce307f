package manager

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

// attack is a request that has to be refused.
type attack struct {
	name string
	send func(b *bed, d *dev, t tok) error
	want api.ProblemCode
}

// signedCall sends a report with a JWT of the test's making.
func signedCall(b *bed, jwt func(r *http.Request, body []byte) string) error {
	c := b.client("")
	c.Authorize = func(r *http.Request, body []byte) error {
		r.Header.Set("Authorization", "Bearer "+jwt(r, body))
		return nil
	}
	return api.Done(c.ReportDevice(b.Context(), api.Report{State: api.ConfigStateApplied}))
}

// goodJWT is what the device would send.
func goodJWT(d *dev, r *http.Request, body []byte, now time.Time) string {
	d.b.must(d.caller().Authorize(r, body, now))
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// forge changes one part of a compact JWS.
func forge(jws string, part int, change func(string) string) string {
	parts := strings.Split(jws, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[part])
	if err != nil {
		panic(err)
	}
	parts[part] = base64.RawURLEncoding.EncodeToString([]byte(change(string(raw))))
	return strings.Join(parts, ".")
}

func replaced(old, with string) func(string) string {
	return func(s string) string {
		if !strings.Contains(s, old) {
			panic("nothing to forge: " + s)
		}
		return strings.Replace(s, old, with, 1)
	}
}

func attacks() []attack {
	jwt := func(name string, want api.ProblemCode, make func(b *bed, d *dev, r *http.Request, body []byte) string) attack {
		return attack{"jwt " + name, func(b *bed, d *dev, _ tok) error {
			return signedCall(b, func(r *http.Request, body []byte) string { return make(b, d, r, body) })
		}, want}
	}
	enrol := func(name string, want api.ProblemCode, change func(*api.EnrolRequest)) attack {
		return attack{"enrol " + name, func(b *bed, _ *dev, t tok) error {
			_, err := b.tryEnrol(t, newTestKey(), change)
			return err
		}, want}
	}
	enrolBody := func(name string, want api.ProblemCode, change func(b *bed, body string) string) attack {
		return attack{"enrol " + name, func(b *bed, _ *dev, t tok) error {
			key := newTestKey()
			body, err := api.SignEnrol(b.request(t, key), t.key, key)
			b.must(err)
			return api.Done(b.post([]byte(change(b, string(body)))))
		}, want}
	}
	return []attack{
		jwt("none", api.ProblemCodeUnauthenticated, func(*bed, *dev, *http.Request, []byte) string { return "" }),
		jwt("truncated", api.ProblemCodeSignature, func(b *bed, d *dev, r *http.Request, body []byte) string {
			s := goodJWT(d, r, body, b.now())
			return s[:len(s)-8]
		}),
		jwt("two parts", api.ProblemCodeUnauthenticated, func(b *bed, d *dev, r *http.Request, body []byte) string {
			s := goodJWT(d, r, body, b.now())
			return s[:strings.LastIndex(s, ".")]
		}),
		jwt("oversized", api.ProblemCodeUnauthenticated, func(b *bed, d *dev, r *http.Request, body []byte) string {
			return strings.Repeat("a", api.MaxJWT+1)
		}),
		jwt("alg none", api.ProblemCodeSignature, func(b *bed, d *dev, r *http.Request, body []byte) string {
			s := forge(goodJWT(d, r, body, b.now()), 0, replaced("EdDSA", "none"))
			return s[:strings.LastIndex(s, ".")+1]
		}),
		jwt("alg HS256 with the public key", api.ProblemCodeSignature, func(b *bed, d *dev, r *http.Request, body []byte) string {
			s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(public(d.key))}, (&jose.SignerOptions{}).WithType(jose.ContentType(api.KindDevice)))
			b.must(err)
			payload, err := base64.RawURLEncoding.DecodeString(strings.Split(goodJWT(d, r, body, b.now()), ".")[1])
			b.must(err)
			j, err := s.Sign(payload)
			b.must(err)
			out, err := j.CompactSerialize()
			b.must(err)
			return out
		}),
		jwt("claims changed", api.ProblemCodeSignature, func(b *bed, d *dev, r *http.Request, body []byte) string {
			return forge(goodJWT(d, r, body, b.now()), 1, replaced("boot-1", "boot-9"))
		}),
		jwt("another device's key", api.ProblemCodeDeviceUnknown, func(b *bed, d *dev, r *http.Request, body []byte) string {
			other := *d
			other.key = newTestKey()
			return goodJWT(&other, r, body, b.now())
		}),
		jwt("another device's key under this one's kid", api.ProblemCodeSignature, func(b *bed, d *dev, r *http.Request, body []byte) string {
			other := *d
			other.key = newTestKey()
			return forge(goodJWT(&other, r, body, b.now()), 0, replaced(api.KeyID(public(other.key)), api.KeyID(public(d.key))))
		}),
		jwt("unknown device", api.ProblemCodeDeviceUnknown, func(b *bed, d *dev, r *http.Request, body []byte) string {
			other := *d
			other.id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
			return goodJWT(&other, r, body, b.now())
		}),
		jwt("wrong audience", api.ProblemCodeAudience, func(b *bed, d *dev, r *http.Request, body []byte) string {
			other := *d
			other.audience = "https://elsewhere.example"
			return goodJWT(&other, r, body, b.now())
		}),
		jwt("expired", api.ProblemCodeClockSkew, func(b *bed, d *dev, r *http.Request, body []byte) string {
			return goodJWT(d, r, body, b.now().Add(-api.CallLife-time.Second))
		}),
		jwt("from the future", api.ProblemCodeClockSkew, func(b *bed, d *dev, r *http.Request, body []byte) string {
			return goodJWT(d, r, body, b.now().Add(api.CallAhead+2*time.Second))
		}),
		jwt("for another body", api.ProblemCodeRequestMismatch, func(b *bed, d *dev, r *http.Request, body []byte) string {
			return goodJWT(d, r, append(body, ' '), b.now())
		}),
		{"jwt replayed", func(b *bed, d *dev, _ tok) error {
			var first string
			keep := func(r *http.Request, body []byte) string {
				if first == "" {
					first = goodJWT(d, r, body, b.now())
				}
				return first
			}
			b.must(signedCall(b, keep))
			return signedCall(b, keep)
		}, api.ProblemCodeReplay},
		{"jwt for another path", func(b *bed, d *dev, _ tok) error {
			c := d.client()
			c.Authorize = func(r *http.Request, body []byte) error {
				other := r.Clone(r.Context())
				other.URL.Path += "x"
				r.Header.Set("Authorization", "Bearer "+goodJWT(d, other, body, b.now()))
				return nil
			}
			return api.Done(c.GetDeviceKeys(b.Context()))
		}, api.ProblemCodeRequestMismatch},

		enrol("unknown token", api.ProblemCodeTokenUnknown, func(r *api.EnrolRequest) { r.TokenID = "01ARZ3NDEKTSV4RRFFQ69G5FAV" }),
		enrol("wrong audience", api.ProblemCodeAudience, func(r *api.EnrolRequest) { r.Aud = "https://elsewhere.example" }),
		enrol("expired by clock", api.ProblemCodeClockSkew, func(r *api.EnrolRequest) { r.Iat -= 400 }),
		enrol("replayed later", api.ProblemCodeClockSkew, func(r *api.EnrolRequest) { r.Iat -= 86400 }),
		enrol("reason of its own", api.ProblemCodeMalformed, func(r *api.EnrolRequest) { r.Reason = "because" }),
		enrol("control characters", api.ProblemCodeMalformed, func(r *api.EnrolRequest) { r.Device.Hostname = "a\x1b[31m" }),
		enrol("long host name", api.ProblemCodeMalformed, func(r *api.EnrolRequest) { r.Device.Hostname = strings.Repeat("a", 256) }),
		enrol("no nonce", api.ProblemCodeMalformed, func(r *api.EnrolRequest) { r.Nonce = "" }),
		enrol("schema of the future", api.ProblemCodeMalformed, func(r *api.EnrolRequest) { r.Schema = 2 }),
		enrolBody("truncated", api.ProblemCodeMalformed, func(_ *bed, s string) string { return s[:len(s)/2] }),
		enrolBody("oversized", api.ProblemCodeTooLarge, func(_ *bed, s string) string { return s + strings.Repeat(" ", 20<<10) }),
		enrolBody("alg none", api.ProblemCodeSignature, func(_ *bed, s string) string {
			var j struct {
				Payload    string              `json:"payload"`
				Signatures []map[string]string `json:"signatures"`
			}
			if err := json.Unmarshal([]byte(s), &j); err != nil {
				panic(err)
			}
			for _, g := range j.Signatures {
				g["protected"] = forge(g["protected"]+".e30", 0, replaced("EdDSA", "none"))
				g["protected"] = strings.TrimSuffix(g["protected"], ".e30")
				g["signature"] = ""
			}
			out, err := json.Marshal(j)
			if err != nil {
				panic(err)
			}
			return string(out)
		}),
		enrolBody("alg none beside the signatures", api.ProblemCodeMalformed, func(_ *bed, s string) string {
			return strings.Replace(s, `"signature":`, `"header":{"alg":"none"},"signature":`, 1)
		}),
		enrolBody("one signature", api.ProblemCodeMalformed, func(_ *bed, s string) string {
			var j struct {
				Payload    string            `json:"payload"`
				Signatures []json.RawMessage `json:"signatures"`
			}
			if err := json.Unmarshal([]byte(s), &j); err != nil {
				panic(err)
			}
			j.Signatures = j.Signatures[:1]
			out, err := json.Marshal(j)
			if err != nil {
				panic(err)
			}
			return string(out)
		}),
		{"enrol forged token signature", func(b *bed, _ *dev, t tok) error {
			_, err := b.tryEnrol(tok{t.id, newTestKey()}, newTestKey())
			return err
		}, api.ProblemCodeSignature},
		{"enrol another's public key", func(b *bed, d *dev, t tok) error {
			_, err := b.tryEnrol(t, newTestKey(), func(r *api.EnrolRequest) { r.Device.PublicKey = api.EncodeKey(public(d.key)) })
			return err
		}, api.ProblemCodeSignature},
		{"enrol key of a device", func(b *bed, d *dev, t tok) error {
			_, err := b.tryEnrol(t, d.key)
			return err
		}, api.ProblemCodeKeyInUse},

		{"no route", func(b *bed, _ *dev, _ tok) error {
			r, err := http.NewRequest("GET", b.srv.URL+api.Prefix+"/nothing", nil)
			b.must(err)
			return api.Done(b.srv.Client().Do(r))
		}, api.ProblemCodeNotFound},
		{"no route, spelled oddly", func(b *bed, _ *dev, _ tok) error {
			r, err := http.NewRequest("POST", b.srv.URL+api.Prefix+"//enroll", strings.NewReader("x"))
			b.must(err)
			return api.Done(b.srv.Client().Do(r))
		}, api.ProblemCodeNotFound},
		{"no method", func(b *bed, _ *dev, _ tok) error {
			r, err := http.NewRequest("DELETE", b.srv.URL+api.Prefix+"/enroll", nil)
			b.must(err)
			return api.Done(b.srv.Client().Do(r))
		}, api.ProblemCodeMethodNotAllowed},
		{"admin garbage", func(b *bed, _ *dev, _ tok) error { return api.Done(b.client("pintakey_x_y").ListTokens(b.Context())) }, api.ProblemCodeUnauthenticated},
		{"admin revoked", func(b *bed, _ *dev, _ tok) error {
			k, err := api.JSON[api.APIKey](b.admin(api.RoleAdmin).CreateAPIKey(b.Context(), api.APIKeyCreate{Name: "x", Role: api.RoleAdmin}))
			b.must(err)
			b.must(api.Done(b.client(k.Secret).ListTokens(b.Context())))
			b.must(api.Done(b.admin(api.RoleAdmin).RevokeAPIKey(b.Context(), k.ID)))
			return api.Done(b.client(k.Secret).ListTokens(b.Context()))
		}, api.ProblemCodeUnauthenticated},
		{"admin role", func(b *bed, _ *dev, _ tok) error {
			return api.Done(b.admin(api.RoleAuthor).RevokeToken(b.Context(), "x"))
		}, api.ProblemCodeForbidden},
		{"admin parameter", func(b *bed, _ *dev, _ tok) error {
			return api.Done(b.admin(api.RoleViewer).ListEvents(b.Context(), api.ListEventsParams{Limit: 100000}))
		}, api.ProblemCodeMalformed},
		{"token twice", func(b *bed, _ *dev, t tok) error {
			return api.Done(b.admin(api.RoleAdmin).CreateToken(b.Context(), api.TokenCreate{ID: t.id, PublicKey: api.EncodeKey(public(t.key))}))
		}, api.ProblemCodeConflict},
		{"policy", func(b *bed, _ *dev, _ tok) error { _, err := b.publish("x: 1\n", ""); return err }, api.ProblemCodePolicyInvalid},
		{"body with an admin GET", func(b *bed, _ *dev, _ tok) error {
			r, err := http.NewRequest("GET", b.srv.URL+api.Prefix+"/openapi.yaml", strings.NewReader("x"))
			b.must(err)
			return api.Done(b.srv.Client().Do(r))
		}, api.ProblemCodeTooLarge},
		{"media type", func(b *bed, _ *dev, _ tok) error {
			r, err := http.NewRequest("POST", b.srv.URL+api.Prefix+"/enroll", strings.NewReader("x"))
			b.must(err)
			return api.Done(b.srv.Client().Do(r))
		}, api.ProblemCodeUnsupportedMediaType},
		{"empty", func(b *bed, _ *dev, _ tok) error { return api.Done(b.post([]byte{})) }, api.ProblemCodeEmptyBody},
	}
}

// elsewhere lists the codes that other tests bring about, by the test's name.
var elsewhere = map[api.ProblemCode]string{
	api.ProblemCodeTokenExpired: "TestEnrolAgain", api.ProblemCodeTokenRevoked: "TestEnrolAgain", api.ProblemCodeTokenExhausted: "TestEnrolAgain",
	api.ProblemCodeTokenScope: "TestTokenKinds", api.ProblemCodeDeviceRetired: "TestRetire", api.ProblemCodeClone: "TestClone",
	api.ProblemCodeBusy: "TestBusy", api.ProblemCodeUnavailable: "TestEndingReleasesPolls", api.ProblemCodeInternal: "TestPanicTellsNothing",
}

// TestRefusals: each bad request gets its problem document and changes nothing; all codes of the document are covered.
func TestRefusals(t *testing.T) {
	b := newBed(t)
	b.later(time.Hour) // so that the past isn't before the start
	d, token := b.device(), b.token()
	_, err := d.report()
	b.must(err)
	covered := map[api.ProblemCode]bool{}
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			defer func(outer *testing.T) { b.T = outer }(b.T)
			b.T = t
			before := b.dump()
			b.code(a.send(b, d, token), a.want)
			if a.name != "admin revoked" && b.dump() != before {
				t.Fatal("something changed")
			}
		})
		covered[a.want] = true
	}
	_, err = d.report()
	b.must(err)
	b.enrol(token) // still unused
	for _, line := range strings.Split(string(api.OpenAPI[bytes.Index(api.OpenAPI, []byte("    ProblemCode:\n")):]), "\n")[3:] {
		code, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			break
		}
		if !covered[api.ProblemCode(code)] && elsewhere[api.ProblemCode(code)] == "" {
			t.Errorf("no test brings about %s", code)
		}
	}
}

// TestBusy: what can't be served soon is answered 429 with Retry-After before any work is done for it.
func TestBusy(t *testing.T) {
	b := newBed(t)
	d, token := b.device(), b.token()
	full := func() *gate {
		g := newGate(1, 0, time.Millisecond)
		g.slots <- struct{}{}
		return g
	}
	b.m.gates = gates{full(), full(), full(), full()}
	_, err := b.tryEnrol(token, newTestKey())
	b.code(err, api.ProblemCodeBusy)
	if err.(*api.Problem).RetryAfter < 1 {
		t.Fatal("no Retry-After")
	}
	_, err = d.report()
	b.code(err, api.ProblemCodeBusy)
	b.code(api.Done(b.admin(api.RoleViewer).ListTokens(t.Context())), api.ProblemCodeBusy)
	b.m.gates = newGates()
	b.m.gates.traces = full()
	b.code(d.send("batch-01", span("x", b.now())), api.ProblemCodeBusy)
	b.m.gates = newGates()
	b.m.replay.limit = 0
	_, err = d.report()
	b.code(err, api.ProblemCodeBusy)
}

func TestGateLetsWaiting(t *testing.T) {
	g := newGate(1, 10, 10*time.Second)
	leave, p := g.enter(context.Background())
	if p != nil {
		t.Fatal(p)
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			leave, p := g.enter(context.Background())
			if p != nil {
				t.Error(p)
				return
			}
			leave()
		})
	}
	leave()
	wg.Wait()
}

// A full disk is told, and that it is worth trying again.
func TestDiskFull(t *testing.T) {
	w := httptest.NewRecorder()
	newBed(t).m.fail(w, nil, fmt.Errorf("commit: %w", &fs.PathError{Op: "write", Path: "manager.db", Err: syscall.ENOSPC}))
	p := new(api.Problem)
	if err := json.Unmarshal(w.Body.Bytes(), p); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusServiceUnavailable || p.RetryAfter == 0 || !strings.Contains(p.Detail, "disk is full") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A panic is answered and logged by its place, not by what was sent.
func TestPanicTellsNothing(t *testing.T) {
	const canary = "canary-7f3a"
	var log bytes.Buffer
	var mu sync.Mutex
	b := newBed(t, func(o *Options) {
		o.Policies = panics{canary}
		o.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
	})
	err := api.Done(b.admin(api.RoleAuthor).ValidatePolicy(t.Context(), api.PolicySource{Files: []api.PolicyFile{{Name: "x", Content: canary}}}))
	b.code(err, api.ProblemCodeInternal)
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(log.String(), canary) || strings.Contains(err.Error(), canary) {
		t.Fatalf("%s\n%v", log.String(), err)
	}
	b.contains(log.String(), "panics")
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// panics is a policy engine that breaks on a canary.
type panics struct{ canary string }

func (p panics) Compile(files []api.PolicyFile) (Compiled, error) {
	if files[0].Content == p.canary {
		panic(fmt.Sprintf("can't handle %s", p.canary))
	}
	return Guard{}.Compile(files)
}
func (panics) Test(_, _ []api.PolicyFile) (api.PolicyTestResult, error) {
	return api.PolicyTestResult{}, nil
}
func (panics) CanonicalTool(s string) string { return s }

func TestReplayMemory(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := newReplay(func() time.Time { return now })
	first := func(want bool) {
		t.Helper()
		ok, busy := r.first("d", "jti-1")
		if ok != want || busy {
			t.Fatalf("first %v busy %v", ok, busy)
		}
	}
	first(true)
	first(false)
	now = now.Add(replayLife - time.Second)
	first(false)
	now = now.Add(2 * time.Second)
	first(false) // in the old set now
	now = now.Add(2 * replayLife)
	first(true)
	if ok, _ := r.first("other", "jti-1"); !ok {
		t.Fatal("one device's jti is another's")
	}
}

func TestClientAddress(t *testing.T) {
	p, err := parseProxies([]string{"10.0.0.0/8", "::1/128"})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, remote, forwarded, want string }{
		{"direct", "192.0.2.1:5", "", "192.0.2.1"},
		{"claimed by a stranger", "192.0.2.1:5", "198.51.100.1", "192.0.2.1"},
		{"by a proxy", "10.1.1.1:5", "198.51.100.1", "198.51.100.1"},
		{"by two proxies", "10.1.1.1:5", "198.51.100.1, 10.2.2.2", "198.51.100.1"},
		{"claimed before the proxy", "10.1.1.1:5", "127.0.0.1, 198.51.100.1", "198.51.100.1"},
		{"nonsense", "10.1.1.1:5", "nonsense", "10.1.1.1"},
		{"mapped", "[::ffff:10.1.1.1]:5", "198.51.100.1", "198.51.100.1"},
		{"IPv6", "[::1]:5", "2001:db8::1", "2001:db8::1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: tt.remote, Header: http.Header{}}
			if tt.forwarded != "" {
				r.Header.Set("X-Forwarded-For", tt.forwarded)
			}
			if got := p.client(r); got != netip.MustParseAddr(tt.want) {
				t.Fatalf("got %s, want %s", got, tt.want)
			}
		})
	}
	if _, err := parseProxies([]string{"10.0.0.1"}); err == nil {
		t.Fatal("an address is no CIDR")
	}
}

func TestLastAdminKeyStays(t *testing.T) {
	b := newBed(t)
	admin := b.admin(api.RoleAdmin) // beside the key file's
	keys, err := api.JSON[[]api.APIKey](admin.ListAPIKeys(t.Context()))
	b.must(err)
	equal(t, len(keys), 2)
	for _, k := range keys {
		if k.Secret != "" {
			t.Fatal("a secret is shown")
		}
		if k.Name == adminName {
			b.must(api.Done(admin.RevokeAPIKey(t.Context(), k.ID)))
		}
	}
	for _, k := range keys {
		if k.Name != adminName {
			b.code(api.Done(admin.RevokeAPIKey(t.Context(), k.ID)), api.ProblemCodeConflict)
		}
	}
}

func FuzzEnrolBody(f *testing.F) {
	key, token := newTestKey(), newTestKey()
	body, err := api.SignEnrol(&api.EnrolRequest{Schema: 1, TokenID: "t", Reason: api.EnrolReasonFirst, Nonce: "n", Iat: 1, Aud: "a", Device: api.EnrolDevice{PublicKey: api.EncodeKey(public(key))}}, token, key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"payload":"e30","signatures":[]}`))
	m, err := Open(Options{Dir: f.TempDir(), URL: "http://127.0.0.1:1", Policies: Guard{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { m.Close() })
	h := m.Handler()
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := http.NewRequest("POST", api.Prefix+"/enroll", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "192.0.2.1:5"
		r.Header.Set("Content-Type", "application/jose+json")
		w := &headerOnly{header: http.Header{}}
		h.ServeHTTP(w, r)
		if w.status < 400 || w.status == 500 {
			t.Fatalf("status %d", w.status)
		}
	})
}
