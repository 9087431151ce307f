package enroll

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pinta-ai/pinta-agent/enroll/enrolltest"
	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a machine with its state folder, and what it logs.
type bench struct {
	t     *testing.T
	dir   string
	state *State
	log   syncBuffer
	net   settings.Network
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir()}
	b.restart()
	return b
}

// restart is a new process over the same state folder.
func (b *bench) restart() {
	s, err := Open(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	b.state = s
}

func (b *bench) options(tok token.Token) Options {
	return Options{State: b.state, Routes: Routes{Argument: settings.Secret(tok.Reveal())}, Wait: 2 * time.Second, Network: b.net, Log: b.logger()}
}

func (b *bench) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(&b.log, nil)) }

func (b *bench) enrol(tok token.Token) (Result, error) {
	return Enroll(context.Background(), b.options(tok))
}

func (b *bench) mustEnrol(tok token.Token) Result {
	b.t.Helper()
	r, err := b.enrol(tok)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) client() *Client {
	c := NewClient(b.state, b.net, b.logger())
	b.t.Cleanup(c.Close)
	return c
}

// call makes a device call and returns its error.
func (b *bench) call() error {
	b.t.Helper()
	a, err := b.client().API()
	if err != nil {
		return err
	}
	return api.Done(a.ReportDevice(context.Background(), api.Report{State: api.ConfigStateApplied}))
}

func (b *bench) identity() Identity {
	b.t.Helper()
	id, err := b.state.Identity()
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

func TestEnrolThenCall(t *testing.T) {
	m, b := enrolltest.New(t), newBench(t)
	r := b.mustEnrol(m.Token(t, 1))
	if r.DeviceID == "" || r.Group != "default" || r.Manager != m.URL {
		t.Errorf("%+v", r)
	}
	if d := m.Devices[r.DeviceID]; d == nil || d.Reason != api.EnrolReasonFirst {
		t.Errorf("the manager knows %+v", d)
	}
	b.restart()
	if err := b.call(); err != nil {
		t.Error(err)
	}
}

func TestEnrolAgainWithTheSameTokenChangesNothing(t *testing.T) {
	m, b := enrolltest.New(t), newBench(t)
	tok := m.Token(t, 1)
	first := b.mustEnrol(tok)
	b.restart()
	if again := b.mustEnrol(tok); again != first {
		t.Errorf("%+v, then %+v", first, again)
	}
	if len(m.Requests()) != 1 {
		t.Errorf("asked again: %v", m.Log)
	}
}

func TestLostReplyDoesNotBurnAOneTimeToken(t *testing.T) {
	m, b := enrolltest.New(t), newBench(t)
	tok, lost := m.Token(t, 1), 2
	m.After = func(*http.Request) bool { lost--; return lost >= 0 }
	if _, err := Enroll(context.Background(), func() Options { o := b.options(tok); o.Wait = time.Millisecond; return o }()); Code(err) != CodeUnreachable {
		t.Fatalf("%v", err)
	}
	b.restart() // the machine was switched off before it tried again
	r := b.mustEnrol(tok)
	if len(m.Devices) != 1 || m.Devices[r.DeviceID] == nil {
		t.Errorf("devices %v, enrolled as %s", m.Devices, r.DeviceID)
	}
}

func TestReenrolAcquiresThenReplaces(t *testing.T) {
	m, b := enrolltest.New(t), newBench(t)
	old := b.mustEnrol(m.Token(t, 1))

	revoked := m.Token(t, 1)
	m.Tokens[revoked.ID].Refuse = api.ProblemCodeTokenRevoked
	if _, err := b.enrol(revoked); Code(err) != CodeRefused {
		t.Fatalf("revoked token: %v", err)
	}
	if id := b.identity(); id.DeviceID != old.DeviceID {
		t.Fatal("a refused token took the identity away")
	}
	if err := b.call(); err != nil {
		t.Fatalf("the old identity no longer works: %v", err)
	}

	now := b.mustEnrol(m.Token(t, 1))
	if now.DeviceID == old.DeviceID || m.Devices[now.DeviceID].Reason != api.EnrolReasonAdmin {
		t.Errorf("%+v, reason %s", now, m.Devices[now.DeviceID].Reason)
	}
	if err := b.call(); err != nil {
		t.Error(err)
	}
}

func TestEnrolledElsewhere(t *testing.T) {
	here, there, b := enrolltest.New(t), enrolltest.New(t), newBench(t)
	old := b.mustEnrol(here.Token(t, 1))
	other := there.Token(t, 1)
	if _, err := b.enrol(other); Code(err) != CodeElsewhere || !strings.Contains(err.Error(), "--replace") {
		t.Fatalf("%v", err)
	}
	if b.identity().DeviceID != old.DeviceID || len(there.Log) != 0 {
		t.Fatal("the other Manager was asked, or the identity changed")
	}
	o := b.options(other)
	o.Replace = true
	if _, err := Enroll(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if id := b.identity(); id.Manager != there.URL {
		t.Errorf("%+v", id)
	}
}

func TestExitCodes(t *testing.T) {
	m := enrolltest.New(t)
	refuse := func(code api.ProblemCode) string {
		tok := m.Token(t, 1)
		m.Tokens[tok.ID].Refuse = code
		return tok.Reveal()
	}
	gone, err := token.New("http://127.0.0.1:1", "01J9ZQ3V5K8M2N4P6R7S8T9V0W", token.Fingerprint{1}, token.Fingerprint{})
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := token.New(m.URL, m.Token(t, 1).ID, token.Fingerprint{1}, token.Fingerprint{})
	if err != nil {
		t.Fatal(err)
	}
	good := m.Token(t, 1).Reveal()
	for _, c := range []struct {
		name, token string
		code        int
		says        string
	}{
		{"no token", "", CodeUsage, "--token-file"},
		{"placeholder", "%TOKEN%", CodeUsage, "placeholder"},
		{"two lines", good + "\n" + m.Token(t, 1).Reveal(), CodeUsage, "two different lines"},
		{"damaged", good[:len(good)-1], CodeRefused, "checksum"},
		{"no token of ours", "FAKE-TOKEN-0001", CodeRefused, "pinta_"},
		{"unknown", refuse(api.ProblemCodeTokenUnknown), CodeRefused, "token create"},
		{"expired", refuse(api.ProblemCodeTokenExpired), CodeRefused, "token create"},
		{"revoked", refuse(api.ProblemCodeTokenRevoked), CodeRefused, "token create"},
		{"exhausted", refuse(api.ProblemCodeTokenExhausted), CodeRefused, "--uses"},
		{"scope", refuse(api.ProblemCodeTokenScope), CodeRefused, "serial"},
		{"another key under the token's id", stranger.Reveal(), CodeRefused, "copy the token"},
		{"busy", refuse(api.ProblemCodeBusy), CodeUnreachable, "again"},
		{"nobody there", gone.Reveal(), CodeUnreachable, "proxy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			o := b.options(token.Token{})
			o.Routes.Argument, o.Wait = settings.Secret(c.token), 10*time.Second // for a slow disk
			if c.code == CodeUnreachable {
				o.Wait = 500 * time.Millisecond
			}
			_, err := Enroll(context.Background(), o)
			if Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("code %d: %v; want %d and %q", Code(err), err, c.code, c.says)
			}
			if _, err := b.state.Identity(); !errors.Is(err, ErrNotEnrolled) {
				t.Errorf("identity: %v", err)
			}
		})
	}
}
