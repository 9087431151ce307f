package enrolltest_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/manager"
	"github.com/pinta-ai/pinta-agent/sync/device"
)

// The life of an enrolment against the real Manager: each test reads as the
// administrator would tell it.

// site is a Manager and its administrator.
type site struct {
	t     *testing.T
	m     *manager.Manager
	admin *api.Client
	srv   *httptest.Server
	// lose is asked after each answer whether it gets lost.
	lose atomic.Pointer[func(*http.Request) bool]
	// turned is how far the Manager's clock is ahead of ours.
	turned atomic.Int64
}

func (s *site) loseReplies(to func(*http.Request) bool) { s.lose.Store(&to) }

func newSite(t *testing.T) *site {
	s := &site{t: t}
	s.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lost := s.lose.Load()
		if lost == nil {
			s.m.Handler().ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		s.m.Handler().ServeHTTP(rec, r)
		if (*lost)(r) {
			panic(http.ErrAbortHandler)
		}
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = io.Copy(w, rec.Body)
	}))
	dir := t.TempDir()
	var err error
	s.m, err = manager.Open(manager.Options{Dir: dir, URL: s.srv.URL, Policies: manager.Guard{}, CloneGrace: time.Nanosecond,
		Now: func() time.Time { return time.Now().Add(time.Duration(s.turned.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.m.Run(ctx) }()
	t.Cleanup(func() {
		s.m.Release()
		s.srv.Close()
		cancel()
		<-done
		if err := s.m.Close(); err != nil {
			t.Error(err)
		}
	})
	file, err := s.m.FoundAdmin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	key, err := manager.ReadAdminKeyFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.admin = &api.Client{BaseURL: s.srv.URL, HTTP: s.srv.Client(), Authorize: func(r *http.Request, _ []byte) error {
		r.Header.Set("Authorization", "Bearer "+key.Key)
		return nil
	}}
	return s
}

// token is `pinta-manager token create --uses n`.
func (s *site) token(uses int) token.Token {
	s.t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	made, err := api.JSON[api.TokenCreated](s.admin.CreateToken(s.t.Context(), api.TokenCreate{ID: ulid.Make().String(), PublicKey: api.EncodeKey(pub), Uses: uses, TTLSeconds: 3600}))
	if err != nil {
		s.t.Fatal(err)
	}
	root, err := token.ParseFingerprint(made.Root)
	if err != nil {
		s.t.Fatal(err)
	}
	tok, err := token.FromKey(key, made.URL, made.ID, root, token.Fingerprint{})
	if err != nil {
		s.t.Fatal(err)
	}
	return tok
}

func (s *site) devices() []api.Device {
	s.t.Helper()
	page, err := api.JSON[api.DevicePage](s.admin.ListDevices(s.t.Context(), api.ListDevicesParams{}))
	if err != nil {
		s.t.Fatal(err)
	}
	return page.Devices
}

func (s *site) device(id string) api.Device {
	s.t.Helper()
	d, err := api.JSON[api.Device](s.admin.GetDevice(s.t.Context(), id))
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// host is a machine with an agent.
type host struct {
	t     *testing.T
	dir   string
	state *enroll.State
	log   bytes.Buffer
}

func newHost(t *testing.T) *host { return hostAt(t, t.TempDir()) }

func hostAt(t *testing.T, dir string) *host {
	t.Helper()
	s, err := enroll.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &host{t: t, dir: dir, state: s}
}

// restart is the agent started again.
func (h *host) restart() { *h = *hostAt(h.t, h.dir) }

// copied is the machine's disk put into a second machine.
func (h *host) copied() *host {
	h.t.Helper()
	dir := h.t.TempDir()
	raw, err := os.ReadFile(filepath.Join(h.dir, "agent.db"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "agent.db"), raw, 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return hostAt(h.t, dir)
}

func (h *host) enrol(tok token.Token, wait time.Duration) (enroll.Result, error) {
	return enroll.Enroll(context.Background(), enroll.Options{State: h.state, Wait: wait, Log: slog.New(slog.NewTextHandler(&h.log, nil)),
		Routes: enroll.Routes{Argument: settings.Secret(tok.Reveal())}})
}

func (h *host) mustEnrol(tok token.Token) enroll.Result {
	h.t.Helper()
	r, err := h.enrol(tok, 10*time.Second)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *host) client() *enroll.Client {
	c := enroll.NewClient(h.state, settings.Network{}, slog.New(slog.NewTextHandler(&h.log, nil)))
	h.t.Cleanup(c.Close)
	return c
}

// report is a device call.
func (h *host) report() (api.ReportReply, error) {
	c, err := h.client().API()
	if err != nil {
		return api.ReportReply{}, err
	}
	return api.JSON[api.ReportReply](c.ReportDevice(h.t.Context(), api.Report{State: api.ConfigStateApplied}))
}

func (h *host) mustReport() api.ReportReply {
	h.t.Helper()
	r, err := h.report()
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func TestLifeEnrol(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	r := laptop.mustEnrol(site.token(1))
	d := site.device(r.DeviceID)
	if d.State != api.DeviceStateActive || d.Group != "default" || d.Reason != api.EnrolReasonFirst || d.Hostname == "" {
		t.Errorf("%+v", d)
	}
	laptop.restart()
	laptop.mustReport()
}

func TestLifeOneTimeTokenIsForOneMachine(t *testing.T) {
	site := newSite(t)
	tok := site.token(1)
	newHost(t).mustEnrol(tok)
	if _, err := newHost(t).enrol(tok, time.Second); enroll.Code(err) != enroll.CodeRefused || api.CodeOf(err) != api.ProblemCodeTokenExhausted {
		t.Errorf("%v", err)
	}
}

func TestLifeLostReply(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	tok := site.token(1)
	site.loseReplies(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/enroll") })
	if _, err := laptop.enrol(tok, 500*time.Millisecond); enroll.Code(err) != enroll.CodeUnreachable {
		t.Fatalf("%v", err)
	}
	laptop.restart()
	site.lose.Store(nil)
	r := laptop.mustEnrol(tok)
	if all := site.devices(); len(all) != 1 || all[0].DeviceID != r.DeviceID {
		t.Errorf("%+v", all)
	}
}

func TestLifeReenrol(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	first := laptop.mustEnrol(site.token(1))
	laptop.mustReport()

	revoked := site.token(1)
	if err := api.Done(site.admin.RevokeToken(t.Context(), revoked.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := laptop.enrol(revoked, time.Second); api.CodeOf(err) != api.ProblemCodeTokenRevoked {
		t.Fatalf("%v", err)
	}
	laptop.mustReport() // still the first identity

	second := laptop.mustEnrol(site.token(1))
	laptop.mustReport()
	if second.DeviceID == first.DeviceID || site.device(second.DeviceID).Reason != api.EnrolReasonAdmin {
		t.Errorf("%+v", site.device(second.DeviceID))
	}
}

func TestLifeRotate(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	laptop.mustEnrol(site.token(1))
	old := laptop.copied()
	if err := laptop.client().RotateKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	laptop.mustReport()
	if _, err := old.report(); api.CodeOf(err) != api.ProblemCodeDeviceUnknown {
		t.Errorf("the old key is still good: %v", err)
	}
}

// The reply to the offer, or to the first use of the new key, gets lost and the
// agent is started again: one of the two keys is good, and it finds out which.
func TestLifeRotateCutOff(t *testing.T) {
	for _, path := range []string{"/device/key", "/device/keys"} {
		t.Run("reply lost of "+path, func(t *testing.T) {
			site, laptop := newSite(t), newHost(t)
			laptop.mustEnrol(site.token(1))
			site.loseReplies(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, path) })
			if err := laptop.client().RotateKey(t.Context()); err == nil && path == "/device/keys" {
				t.Fatal("nothing was lost")
			}
			site.lose.Store(nil)
			laptop.restart()
			laptop.mustReport()
			if o, err := laptop.state.Overview(); err != nil || o.Rotating {
				t.Errorf("%+v %v", o, err)
			}
			if err := laptop.client().RotateKey(t.Context()); err != nil {
				t.Error(err)
			}
			laptop.mustReport()
		})
	}
}

// Nothing gets out at all: the candidate was never offered.
func TestLifeRotateOffline(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	laptop.mustEnrol(site.token(1))
	c := laptop.client()
	c.Via = roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })
	if err := c.RotateKey(t.Context()); err == nil {
		t.Fatal("it says that it worked")
	}
	laptop.restart()
	laptop.mustReport()
	if o, err := laptop.state.Overview(); err != nil || o.Rotating {
		t.Errorf("%+v %v", o, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestLifeRetire(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	tok := site.token(0)
	r := laptop.mustEnrol(tok)
	if err := api.Done(site.admin.RetireDevice(t.Context(), r.DeviceID)); err != nil {
		t.Fatal(err)
	}
	if _, err := laptop.report(); api.CodeOf(err) != api.ProblemCodeDeviceRetired {
		t.Errorf("%v", err)
	}
	if _, err := laptop.state.Identity(); !errors.Is(err, enroll.ErrNotEnrolled) {
		t.Errorf("%v", err)
	}
	if o, err := laptop.state.Overview(); err != nil || o.Retired == nil || o.Retired.DeviceID != r.DeviceID || o.Retired.Statement == "" {
		t.Errorf("%+v %v", o, err)
	}
	again := laptop.mustEnrol(tok) // a person may bring it back
	if d := site.device(again.DeviceID); d.Reason != api.EnrolReasonReinstall {
		t.Errorf("%+v", d)
	}
}

func TestLifeClone(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	tok := site.token(0)
	r := laptop.mustEnrol(tok)
	laptop.mustReport()
	twin := laptop.copied()
	if _, err := twin.report(); err != nil {
		t.Fatal(err) // nobody can tell yet: the machine could have been started anew
	}
	if reply := laptop.mustReport(); reply.Reenroll != api.ReportReplyReenrollClone {
		t.Errorf("the older one is not asked: %+v", reply)
	}
	if _, err := twin.report(); api.CodeOf(err) != api.ProblemCodeClone {
		t.Errorf("the newer one is not held off: %v", err)
	}
	if o, err := twin.state.Overview(); err != nil || o.Identity == nil || o.Reenrol != api.EnrolReasonClone {
		t.Fatalf("%+v %v", o, err)
	}
	// Both have a token source still; each becomes a device of its own.
	if err := laptop.state.AskReenrol(api.EnrolReasonClone); err != nil {
		t.Fatal(err)
	}
	a, b := laptop.mustEnrol(tok), twin.mustEnrol(tok)
	if a.DeviceID == b.DeviceID || a.DeviceID == r.DeviceID || b.DeviceID == r.DeviceID {
		t.Errorf("%s %s %s", r.DeviceID, a.DeviceID, b.DeviceID)
	}
	laptop.mustReport()
	twin.mustReport()
	if d := site.device(b.DeviceID); d.Reason != api.EnrolReasonClone {
		t.Errorf("%+v", d)
	}
}

func TestLifeWrongClock(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	site.turned.Store(int64(26 * time.Hour))
	laptop.mustEnrol(site.token(1))
	laptop.mustReport()
	laptop.restart()
	site.turned.Store(int64(52 * time.Hour))
	laptop.mustReport()
}

// SignRequest is what the relay sends spans with.
func TestLifeSignRequest(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	laptop.mustEnrol(site.token(1))
	body, err := json.Marshal(api.Report{State: api.ConfigStateApplied})
	if err != nil {
		t.Fatal(err)
	}
	post := func(jwt string, body []byte) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site.srv.URL+api.Prefix+"/device/report", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+jwt)
		r.Header.Set("Content-Type", "application/json")
		res, err := site.srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	jwt, err := laptop.state.SignRequest(http.MethodPost, api.Prefix+"/device/report", body)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		body []byte
		want int
	}{{"another body", []byte(`{"state":"failed"}`), 401}, {"used once already", body, 401}} {
		if got := post(jwt, c.body); got != c.want {
			t.Errorf("%s: %d", c.name, got)
		}
	}
	if jwt, err = laptop.state.SignRequest(http.MethodPost, api.Prefix+"/device/report", body); err != nil || post(jwt, body) != 200 {
		t.Errorf("%v", err)
	}
}

// eventually waits for what happens in the background.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestLifeConfigAndActions(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	r := laptop.mustEnrol(site.token(1))
	var rules atomic.Int64
	var acted atomic.Value
	dev := device.New(device.Options{State: laptop.state, Client: laptop.client(), Callbacks: device.Callbacks{
		Apply: func(_ context.Context, c *api.GuardConfig) error {
			rules.Store(int64(bytes.Count(c.Guard, []byte("no_rm"))))
			return nil
		},
		Report: func() api.Report { return api.Report{} },
		Action: func(_ context.Context, a api.Action) (string, error) { acted.Store(a.Kind); return "done here", nil },
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- dev.Run(ctx) }()
	defer func() { cancel(); <-ended }()

	acked := func(version int64) func() bool {
		return func() bool {
			d := site.device(r.DeviceID)
			return d.ConfigVersion == version && d.ConfigState == api.ConfigStateApplied
		}
	}
	eventually(t, "the founding config", acked(1))
	v, err := api.JSON[api.PolicyVersion](site.admin.PublishPolicy(t.Context(), api.PolicyPublish{Files: []api.PolicyFile{{Name: "p.yaml",
		Content: "rules:\n  - {id: no_rm, on: tool_input, tools: [shell], when: \"commands.exists(c, c.name == 'rm')\", action: deny, message: no}\n"}}}))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the published config", acked(v.Version))
	if rules.Load() == 0 {
		t.Error("the rule did not arrive")
	}

	for _, kind := range []api.ActionKind{api.ActionKindRepair, api.ActionKindRotateKey} {
		if err := api.Done(site.admin.OrderAction(t.Context(), r.DeviceID, api.ActionOrder{Kind: kind})); err != nil {
			t.Fatal(err)
		}
	}
	dev.Wake()
	eventually(t, "both actions done", func() bool {
		done := 0
		for _, a := range site.device(r.DeviceID).Actions {
			if a.State == api.ActionStateStateDone {
				done++
			}
		}
		return done == 2
	})
	if acted.Load() != api.ActionKindRepair {
		t.Errorf("%v", acted.Load())
	}

	if err := api.Done(site.admin.RetireDevice(t.Context(), r.DeviceID)); err != nil {
		t.Fatal(err)
	}
	dev.Wake()
	eventually(t, "the identity dropped", func() bool { _, err := laptop.state.Identity(); return errors.Is(err, enroll.ErrNotEnrolled) })
}

// The reply got lost, and the administrator retired the device that nobody
// seemed to use: the machine is told what to do.
func TestLifeRetiredBeforeTheReply(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	tok := site.token(2)
	site.loseReplies(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/enroll") })
	if _, err := laptop.enrol(tok, 500*time.Millisecond); enroll.Code(err) != enroll.CodeUnreachable {
		t.Fatalf("%v", err)
	}
	site.lose.Store(nil)
	if err := api.Done(site.admin.RetireDevice(t.Context(), site.devices()[0].DeviceID)); err != nil {
		t.Fatal(err)
	}
	if _, err := laptop.enrol(tok, 5*time.Second); enroll.Code(err) != enroll.CodeRefused || !strings.Contains(err.Error(), "token create") {
		t.Errorf("%v", err)
	}
	laptop.mustEnrol(site.token(1))
	laptop.mustReport()
}

// The Manager changed its signing key while the laptop was away, and retired it
// then: the laptop learns the key from the root key's statement, and goes.
func TestLifeRetireAfterKeyRotation(t *testing.T) {
	site, laptop := newSite(t), newHost(t)
	r := laptop.mustEnrol(site.token(1))
	for range 5 {
		if err := api.Done(site.admin.RotateSigningKey(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Done(site.admin.RetireDevice(t.Context(), r.DeviceID)); err != nil {
		t.Fatal(err)
	}
	if _, err := laptop.report(); api.CodeOf(err) != api.ProblemCodeDeviceRetired {
		t.Errorf("%v", err)
	}
	if _, err := laptop.state.Identity(); !errors.Is(err, enroll.ErrNotEnrolled) {
		t.Errorf("%v\n%s", err, laptop.log.String())
	}
}
