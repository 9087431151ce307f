package manager

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// bed is a Manager with a server before it and a clock that can be turned.
type bed struct {
	*testing.T
	m      *Manager
	srv    *httptest.Server
	dir    string
	offset atomic.Int64 // of the Manager's clock
	stop   func()
}

func newBed(t *testing.T, change ...func(*Options)) *bed {
	t.Helper()
	b := &bed{T: t, dir: t.TempDir()}
	b.open(change...)
	t.Cleanup(func() { b.close() })
	return b
}

func (b *bed) open(change ...func(*Options)) {
	b.Helper()
	b.srv = httptest.NewUnstartedServer(nil)
	o := Options{Dir: b.dir, URL: "http://" + b.srv.Listener.Addr().String(), Policies: Guard{}, Now: b.now}
	for _, f := range change {
		f(&o)
	}
	m, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	b.m, b.srv.Config = m, newServer(m.Handler(), m.opt.Log)
	b.srv.Start()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	b.stop = func() { cancel(); <-done }
	if _, err := m.FoundAdmin(ctx); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) close() {
	b.Helper()
	if b.stop == nil {
		return
	}
	b.m.Release()
	b.srv.Close()
	b.stop()
	b.stop = nil
	if err := b.m.Close(); err != nil {
		b.Error(err)
	}
}

// restart ends the Manager and starts it anew on the same data.
func (b *bed) restart(change ...func(*Options)) {
	b.Helper()
	b.close()
	b.open(change...)
}

func (b *bed) now() time.Time { return time.Now().Add(time.Duration(b.offset.Load())) }

// later turns the Manager's clock.
func (b *bed) later(d time.Duration) { b.offset.Add(int64(d)) }

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// code checks which problem an error is; "" is none.
func (b *bed) code(err error, want api.ProblemCode) {
	b.Helper()
	if got := api.CodeOf(err); got != want || want == "" && err != nil {
		b.Fatalf("got %q (%v), want %q", got, err, want)
	}
}

// dump is a hash over all records, less what may change by itself.
func (b *bed) dump() string {
	b.Helper()
	h := sha256.New()
	b.must(b.m.view(context.Background(), func(tx store.Tx) error {
		for _, t := range []string{string(tokens), string(groups), string(devices), string(deviceKeys), string(policies), string(configs), string(appeals), string(audits), string(events), string(batches), string(keysets)} {
			for k, v := range tx.Scan(t, store.Range{}) {
				io.WriteString(h, t+"\x00"+k+"\x00")
				h.Write(v)
			}
		}
		return nil
	}))
	return hex.EncodeToString(h.Sum(nil))
}

func newTestKey() ed25519.PrivateKey {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return k
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// admin is a client with a key of a role, bound to groups if any are named.
func (b *bed) admin(role api.Role, groups ...string) *api.Client {
	b.Helper()
	secret, rec := b.m.newAPIKey(api.APIKey{Name: "test " + string(role), Role: role, Groups: groups, LastUsed: b.now()})
	b.must(b.m.update(context.Background(), func(tx store.Tx) error { return apiKeys.Put(tx, rec.ID, rec) }))
	return b.client(secret)
}

// client calls with a bearer credential.
func (b *bed) client(secret string) *api.Client {
	return &api.Client{BaseURL: b.srv.URL, HTTP: b.srv.Client(), Authorize: func(r *http.Request, _ []byte) error {
		if secret != "" {
			r.Header.Set("Authorization", "Bearer "+secret)
		}
		return nil
	}}
}

// tok is an enrolment token and its secret.
type tok struct {
	id  string
	key ed25519.PrivateKey
}

func (b *bed) token(change ...func(*api.TokenCreate)) tok {
	b.Helper()
	t := tok{ulid.Make().String(), newTestKey()}
	in := api.TokenCreate{ID: t.id, PublicKey: api.EncodeKey(public(t.key)), Uses: 1, TTLSeconds: 3600}
	for _, f := range change {
		f(&in)
	}
	b.must(api.Done(b.admin(api.RoleAdmin).CreateToken(b.Context(), in)))
	return t
}

// dev is a device that can be told to lie.
type dev struct {
	b        *bed
	key      ed25519.PrivateKey
	id       string
	boot     string
	audience string
	reply    api.EnrolReply
}

func (b *bed) request(t tok, key ed25519.PrivateKey) *api.EnrolRequest {
	return &api.EnrolRequest{Schema: api.Schema, TokenID: t.id, Reason: api.EnrolReasonFirst, Nonce: "nonce-1", Iat: b.now().Unix(), Aud: b.m.opt.URL,
		Device: api.EnrolDevice{PublicKey: api.EncodeKey(public(key)), Hostname: "host", Os: "linux", OsVersion: "6", Arch: "amd64", AgentVersion: "1.0.0", MachineHint: "SERIAL-1"}}
}

func (b *bed) post(body []byte) (*http.Response, error) {
	return (&api.Client{BaseURL: b.srv.URL, HTTP: b.srv.Client()}).Enroll(b.Context(), body)
}

// tryEnrol enrols a key and checks the reply as an agent does.
func (b *bed) tryEnrol(t tok, key ed25519.PrivateKey, change ...func(*api.EnrolRequest)) (*dev, error) {
	b.Helper()
	req := b.request(t, key)
	for _, f := range change {
		f(req)
	}
	body, err := api.SignEnrol(req, t.key, key)
	b.must(err)
	doc, err := api.Raw(b.post(body))
	if err != nil {
		return nil, err
	}
	d := &dev{b: b, key: key, boot: "boot-1"}
	b.must(api.VerifyRoot(string(doc), &d.reply, b.root()))
	if d.reply.Nonce != req.Nonce {
		b.Fatal("the reply is to another request")
	}
	d.id, d.audience = d.reply.DeviceID, d.reply.Audience
	return d, nil
}

func (b *bed) enrol(t tok) *dev {
	b.Helper()
	d, err := b.tryEnrol(t, newTestKey())
	b.must(err)
	return d
}

func (b *bed) device() *dev { b.Helper(); return b.enrol(b.token()) }

func (b *bed) root() [32]byte {
	raw, err := base64.RawURLEncoding.DecodeString(b.m.Root())
	b.must(err)
	return [32]byte(raw)
}

// client signs calls as a good device does.
func (d *dev) client() *api.Client {
	return &api.Client{BaseURL: d.b.srv.URL, HTTP: d.b.srv.Client(), Authorize: func(r *http.Request, body []byte) error {
		return d.caller().Authorize(r, body, d.b.now())
	}}
}

func (d *dev) caller() api.Caller {
	return api.Caller{DeviceID: d.id, Audience: d.audience, Boot: d.boot, Key: d.key}
}

// report sends the least report.
func (d *dev) report(change ...func(*api.Report)) (api.ReportReply, error) {
	r := api.Report{ConfigVersion: 1, State: api.ConfigStateApplied}
	for _, f := range change {
		f(&r)
	}
	return api.JSON[api.ReportReply](d.client().ReportDevice(d.b.Context(), r))
}

// poll fetches the config unless it still has the etag, and checks it as an agent does.
func (d *dev) poll(etag string, wait int) (*api.GuardConfig, *http.Response, error) {
	d.b.Helper()
	res, err := d.client().GetDeviceConfig(d.b.Context(), api.GetDeviceConfigParams{Wait: wait, IfNoneMatch: etag})
	doc, err := api.Raw(res, err)
	if errors.Is(err, api.ErrNotModified) {
		return nil, res, nil
	}
	if err != nil {
		return nil, res, err
	}
	var c api.GuardConfig
	d.b.must(api.Verify(string(doc), &c, d.keys()))
	return &c, res, nil
}

// keys are the signing keys as the root key states them now.
func (d *dev) keys() api.Keys {
	d.b.Helper()
	doc, err := api.Raw(d.client().GetDeviceKeys(d.b.Context()))
	d.b.must(err)
	var s api.KeyStatement
	d.b.must(api.VerifyRoot(string(doc), &s, d.b.root()))
	keys, err := api.ParseKeys(s.Keys)
	d.b.must(err)
	return keys
}

const denyRm = "rules:\n  - {id: no_rm, on: tool_input, tools: [shell], when: \"commands.exists(c, c.name == 'rm')\", action: deny, message: no}\n"

func (b *bed) publish(yaml, group string) (api.PolicyVersion, error) {
	return api.JSON[api.PolicyVersion](b.admin(api.RoleAuthor).PublishPolicy(b.Context(), api.PolicyPublish{Files: []api.PolicyFile{{Name: "p.yaml", Content: yaml}}, Group: group}))
}

func (b *bed) show(id string) api.Device {
	b.Helper()
	d, err := api.JSON[api.Device](b.admin(api.RoleViewer).GetDevice(b.Context(), id))
	b.must(err)
	return d
}

// contains is for problem details and texts.
func (b *bed) contains(text, part string) {
	b.Helper()
	if !strings.Contains(text, part) {
		b.Fatalf("%q lacks %q", text, part)
	}
}

func equal[T comparable](b testing.TB, got, want T) {
	b.Helper()
	if got != want {
		b.Fatalf("got %v, want %v", got, want)
	}
}
