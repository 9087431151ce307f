// Package enrolltest is a Manager small enough to lie: tests make it lose
// replies, sign with the wrong key, or answer for another device. What a real
// Manager does is package manager's; no binary links this one.
package enrolltest

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
)

// Manager is the double. Its fields may be changed between requests, under Mu.
type Manager struct {
	URL           string
	Root, Signing ed25519.PrivateKey

	Mu      sync.Mutex
	Tokens  map[string]*Token
	Devices map[string]*Device // by device id
	Keys    api.KeyStatement
	// Config is what GET /device/config answers under ETag; empty holds the
	// request until its wait ends.
	Config, ETag, Override string
	Move                   string // Pinta-Group
	Reply                  api.ReportReply
	Reports                []api.Report
	Down                   bool     // RoundTrip only
	Log                    []string // "METHOD path status" of each request
	// Now is the Manager's clock.
	Now func() time.Time
	// Before may answer a request itself; After is called with the answer
	// written and may lose it by returning true.
	Before func(w http.ResponseWriter, r *http.Request) bool
	After  func(r *http.Request) bool
	// OnReply may falsify the enrolment reply.
	OnReply func(*api.EnrolReply)

	changed chan struct{}
}

// Token is what the double knows of a token.
type Token struct {
	Key     ed25519.PublicKey
	Uses    int // 0: reusable
	Refuse  api.ProblemCode
	Devices map[string]string // device key id → device id
}

// Device is an enrolled device.
type Device struct {
	Keys    []ed25519.PublicKey // the newest last; using it drops the others
	Reason  api.EnrolReason
	Retired bool
	Clone   bool
	jti     map[string]bool
}

// T is what this package needs of a test, whether testing's or rapid's.
type T interface {
	Helper()
	Fatal(args ...any)
}

// New starts a Manager on loopback, ended with the test.
func New(t testing.TB) *Manager {
	srv := httptest.NewUnstartedServer(nil)
	m := Offline(t, "http://"+srv.Listener.Addr().String())
	srv.Config.Handler = m
	srv.Start()
	t.Cleanup(srv.Close)
	return m
}

// Offline makes a Manager without a network: it is its own http.RoundTripper.
func Offline(t T, url string) *Manager {
	m := &Manager{URL: url, Tokens: map[string]*Token{}, Devices: map[string]*Device{}, Now: time.Now, changed: make(chan struct{})}
	m.Root, m.Signing = newKey(t), newKey(t)
	m.Keys = api.KeyStatement{Schema: api.Schema, Version: 1, Aud: m.URL, IssuedAt: time.Now().UTC(), Keys: []api.Key{api.JWK(m.Signing.Public().(ed25519.PublicKey))}}
	return m
}

func newKey(t T) ed25519.PrivateKey {
	_, k, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// RootPrint is the fingerprint of the root key.
func (m *Manager) RootPrint() token.Fingerprint {
	return api.Thumbprint(m.Root.Public().(ed25519.PublicKey))
}

// Token makes a token with so many uses; 0 is reusable.
func (m *Manager) Token(t T, uses int) token.Token {
	tok, err := token.New(m.URL, ulid.Make().String(), m.RootPrint(), token.Fingerprint{})
	if err != nil {
		t.Fatal(err)
	}
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.Tokens[tok.ID] = &Token{Key: tok.Key().Public().(ed25519.PublicKey), Uses: uses, Devices: map[string]string{}}
	return tok
}

// Sign signs a document with the signing key.
func (m *Manager) Sign(t T, d api.Document) string {
	s, err := api.Sign(d, m.Signing)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Publish makes config the newest and wakes the polls.
func (m *Manager) Publish(jws, etag string) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.Config, m.ETag = jws, etag
	close(m.changed)
	m.changed = make(chan struct{})
}

// Requests is what was asked so far, as in Log.
func (m *Manager) Requests() []string {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	return slices.Clone(m.Log)
}

// GuardConfig is a valid config of this Manager for the group "default".
func (m *Manager) GuardConfig(version int64) *api.GuardConfig {
	return &api.GuardConfig{
		Schema: api.Schema, Version: version, Aud: m.URL, Group: "default", IssuedAt: m.Now().UTC(), ExpiresAt: m.Now().Add(time.Hour).UTC(),
		Guard: json.RawMessage(`{"mode":"enforce","rules":[]}`), Telemetry: api.TelemetryConfig{Enabled: true, Endpoint: "manager"},
		Hooks: api.HooksConfig{User: true, Machine: true}, Agent: api.AgentConfig{CheckinSeconds: 60, LogLevel: api.LogLevelInfo},
	}
}

// ServeHTTP answers like a Manager.
func (m *Manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	rec := httptest.NewRecorder()
	if m.Before == nil || !m.Before(rec, r) {
		m.route(rec, r, body)
	}
	m.Mu.Lock()
	m.Log = append(m.Log, r.Method+" "+strings.TrimPrefix(r.URL.Path, api.Prefix)+" "+strconv.Itoa(rec.Code))
	m.Mu.Unlock()
	if m.After != nil && m.After(r) {
		panic(http.ErrAbortHandler)
	}
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// RoundTrip hands a request to the Manager without a network. Down makes it
// fail; a lost reply is an error as well.
func (m *Manager) RoundTrip(r *http.Request) (res *http.Response, err error) {
	m.Mu.Lock()
	down := m.Down
	if down {
		m.Log = append(m.Log, r.Method+" "+strings.TrimPrefix(r.URL.Path, api.Prefix)+" down")
	}
	m.Mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	defer func() {
		if recover() != nil {
			res, err = nil, errors.New("connection reset")
		}
	}()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	rec := httptest.NewRecorder()
	m.ServeHTTP(rec, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

func (m *Manager) route(w http.ResponseWriter, r *http.Request, body []byte) {
	path := strings.TrimPrefix(r.URL.Path, api.Prefix)
	if path == "/enroll" {
		m.enrol(w, body)
		return
	}
	d, p := m.device(r, body)
	if p != nil {
		p.Write(w)
		return
	}
	switch path {
	case "/device/config":
		m.config(w, r)
	case "/device/keys":
		m.Mu.Lock()
		defer m.Mu.Unlock()
		s, _ := api.SignRoot(&m.Keys, m.Root)
		_, _ = io.WriteString(w, s)
	case "/device/report":
		m.Mu.Lock()
		defer m.Mu.Unlock()
		var report api.Report
		if json.Unmarshal(body, &report) != nil {
			api.NewProblem(api.ProblemCodeMalformed, "").Write(w)
			return
		}
		m.Reports = append(m.Reports, report)
		_ = json.NewEncoder(w).Encode(m.Reply)
	case "/device/key":
		m.rotate(w, d, body)
	default:
		api.NewProblem(api.ProblemCodeNotFound, "").Write(w)
	}
}

func (m *Manager) enrol(w http.ResponseWriter, body []byte) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	e, err := api.ParseEnrol(body)
	if err != nil {
		api.NewProblem(api.ProblemCodeMalformed, "").Write(w)
		return
	}
	tok := m.Tokens[e.Request.TokenID]
	skew := m.Now().Sub(time.Unix(e.Request.Iat, 0))
	kid := api.KeyID(e.Device)
	switch {
	case tok == nil:
		api.NewProblem(api.ProblemCodeTokenUnknown, "").Write(w)
		return
	case e.Verify(tok.Key) != nil:
		api.NewProblem(api.ProblemCodeSignature, "").Write(w)
		return
	case skew.Abs() > 5*time.Minute:
		p := api.NewProblem(api.ProblemCodeClockSkew, "")
		p.ServerTime = m.Now()
		p.Write(w)
		return
	case tok.Refuse != "":
		api.NewProblem(tok.Refuse, "").Write(w)
		return
	}
	id, known := tok.Devices[kid]
	if !known {
		if tok.Uses > 0 && len(tok.Devices) >= tok.Uses {
			api.NewProblem(api.ProblemCodeTokenExhausted, "").Write(w)
			return
		}
		id = ulid.Make().String()
		tok.Devices[kid] = id
		m.Devices[id] = &Device{Keys: []ed25519.PublicKey{e.Device}, Reason: e.Request.Reason, jti: map[string]bool{}}
	}
	reply := &api.EnrolReply{
		Schema: api.Schema, DeviceID: id, Group: "default", SigningKeys: api.KeySet{Keys: m.Keys.Keys}, KeysVersion: m.Keys.Version,
		Audience: m.URL, CheckinSeconds: 60, ServerTime: m.Now().UTC(), Nonce: e.Request.Nonce,
	}
	if m.OnReply != nil {
		m.OnReply(reply)
	}
	s, _ := api.SignRoot(reply, m.Root)
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, s)
}

func (m *Manager) device(r *http.Request, body []byte) (*Device, *api.Problem) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	call, err := api.ParseCall(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if err != nil {
		return nil, api.NewProblem(api.ProblemCodeUnauthenticated, "")
	}
	d := m.Devices[call.Claims.Iss]
	if d == nil {
		return nil, api.NewProblem(api.ProblemCodeDeviceUnknown, "")
	}
	used := -1
	for i, k := range d.Keys {
		if api.KeyID(k) == call.KeyID {
			used = i
		}
	}
	if used < 0 {
		return nil, api.NewProblem(api.ProblemCodeSignature, "")
	}
	err = call.Verify(d.Keys[used], m.URL, m.Now())
	if err == nil {
		err = call.Match(r, body)
	}
	switch {
	case err == nil:
	case errors.Is(err, api.ErrClock):
		p := api.NewProblem(api.ProblemCodeClockSkew, "")
		p.ServerTime = m.Now()
		return nil, p
	default:
		return nil, api.NewProblem(api.ProblemCodeSignature, err.Error())
	}
	if d.jti[call.Claims.Jti] {
		return nil, api.NewProblem(api.ProblemCodeReplay, "")
	}
	d.jti[call.Claims.Jti] = true
	d.Keys = d.Keys[used:] // a call by the newer key ends the older
	switch {
	case d.Retired:
		p := api.NewProblem(api.ProblemCodeDeviceRetired, "")
		p.Statement, _ = api.Sign(&api.Retirement{Schema: api.Schema, ID: "r1", DeviceID: call.Claims.Iss, Aud: m.URL, IssuedAt: m.Now().UTC()}, m.Signing)
		return nil, p
	case d.Clone:
		return nil, api.NewProblem(api.ProblemCodeClone, "")
	}
	return d, nil
}

func (m *Manager) config(w http.ResponseWriter, r *http.Request) {
	wait, _ := strconv.Atoi(r.URL.Query().Get("wait"))
	end := time.After(time.Duration(wait) * time.Second)
	for {
		m.Mu.Lock()
		jws, etag, override, move, changed := m.Config, m.ETag, m.Override, m.Move, m.changed
		m.Mu.Unlock()
		if jws != "" && etag != r.Header.Get("If-None-Match") {
			w.Header().Set("ETag", etag)
			if override != "" {
				w.Header().Set("Pinta-Override", override)
			}
			if move != "" {
				w.Header().Set("Pinta-Group", move)
			}
			_, _ = io.WriteString(w, jws)
			return
		}
		select {
		case <-changed:
		case <-end:
			w.WriteHeader(http.StatusNotModified)
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (m *Manager) rotate(w http.ResponseWriter, d *Device, body []byte) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	var doc api.KeyRotation
	var raw struct {
		PublicKey string `json:"publicKey"`
	}
	// The offered key signs its own offer, so it is read before it is believed.
	if parts := strings.Split(string(body), "."); len(parts) == 3 {
		_ = json.Unmarshal(decode64(parts[1]), &raw)
	}
	pub, err := api.DecodeKey(raw.PublicKey)
	if err != nil || api.Verify(string(body), &doc, api.KeysOf(pub)) != nil {
		api.NewProblem(api.ProblemCodeSignature, "").Write(w)
		return
	}
	for _, k := range d.Keys {
		if k.Equal(pub) {
			api.NewProblem(api.ProblemCodeKeyInUse, "").Write(w)
			return
		}
	}
	d.Keys = append(d.Keys[:1:1], pub)
	w.WriteHeader(http.StatusNoContent)
}
func decode64(s string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}
