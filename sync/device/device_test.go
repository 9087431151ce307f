package device

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/enroll/enrolltest"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// rig is an enrolled machine and its Manager in one bubble of time.
type rig struct {
	t     *testing.T
	m     *enrolltest.Manager
	dir   string
	state *enroll.State
	dev   *Device
	log   bytes.Buffer
	slog  *slog.Logger // the only one on log: its lock guards the buffer

	mu       sync.Mutex
	applied  []int64
	applyErr error
	acted    []string
	actErr   error
	retired  []string
	ahead    time.Duration // of the machine's clock
}

// bubble runs a test in fake time, with an enrolled machine.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, m: enrolltest.Offline(t, "https://manager.example.com"), dir: t.TempDir()}
		r.restart()
		r.enrol()
		test(t, r)
	})
}

func (r *rig) logger() *slog.Logger {
	if r.slog == nil {
		r.slog = slog.New(slog.NewJSONHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return r.slog
}

func (r *rig) enrol() {
	r.t.Helper()
	_, err := enroll.Enroll(r.t.Context(), enroll.Options{
		State: r.state, Via: r.m, Log: r.logger(), Replace: true, Routes: enroll.Routes{Argument: settings.Secret(r.m.Token(r.t, 1).Reveal())},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// restart is a new process over the same state.
func (r *rig) restart() {
	r.t.Helper()
	s, err := enroll.Open(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	clock := settings.Clock(func() time.Time { r.mu.Lock(); defer r.mu.Unlock(); return time.Now().Add(r.ahead) })
	s.Clock = clock
	r.state = s
	client := enroll.NewClient(s, settings.Network{}, r.logger())
	client.Via = r.m
	r.dev = New(Options{State: s, Client: client, Clock: clock, Log: r.logger(), Callbacks: Callbacks{
		Apply: func(_ context.Context, c *api.GuardConfig) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.applyErr != nil {
				return r.applyErr
			}
			r.applied = append(r.applied, c.Version)
			return nil
		},
		Report: func() api.Report { return api.Report{SessionsUnguarded: 3} },
		Action: func(_ context.Context, a api.Action) (string, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.acted = append(r.acted, a.ID+" "+string(a.Kind))
			return "did it", r.actErr
		},
		Retired: func(_ context.Context, why enroll.Retirement) error {
			r.retired = append(r.retired, why.By)
			return nil
		},
	}})
}

// run lets the device run while during does, and ends it.
func (r *rig) run(during func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.dev.Run(ctx) }()
	during()
	cancel()
	<-done
}

// publish signs a config and makes it the newest.
func (r *rig) publish(version int64, change ...func(*api.GuardConfig)) {
	r.t.Helper()
	c := r.m.GuardConfig(version)
	for _, f := range change {
		f(c)
	}
	jws := r.m.Sign(r.t, c)
	r.m.Publish(jws, fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256([]byte(jws)))))
}

// sync syncs once and returns the newest report.
func (r *rig) sync() (api.Report, error) {
	err := r.dev.SyncOnce(r.t.Context())
	return r.lastReport(), err
}

func (r *rig) lastReport() api.Report {
	r.m.Mu.Lock()
	defer r.m.Mu.Unlock()
	if len(r.m.Reports) == 0 {
		return api.Report{}
	}
	return r.m.Reports[len(r.m.Reports)-1]
}

// requests counts those whose log line starts with what.
func (r *rig) requests(what string) int {
	n := 0
	for _, l := range r.m.Requests() {
		if strings.HasPrefix(l, what) {
			n++
		}
	}
	return n
}

func (r *rig) logged() int { return len(r.m.Requests()) }

func (r *rig) wantApplied(versions ...int64) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.applied, versions) {
		r.t.Errorf("applied %v, want %v", r.applied, versions)
	}
}

func TestConfigIsAppliedWithinSecondsAndAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.run(func() {
			time.Sleep(20 * time.Second)
			r.publish(7)
			time.Sleep(5 * time.Second)
			r.wantApplied(7)
			got := r.lastReport()
			if got.ConfigVersion != 7 || got.State != api.ConfigStateApplied || got.SessionsUnguarded != 3 || got.Agent.Version == "" {
				t.Errorf("%+v", got)
			}
		})
	})
}

func configOf(r *rig, version int64) []byte {
	raw, err := json.Marshal(r.m.GuardConfig(version))
	if err != nil {
		r.t.Fatal(err)
	}
	return raw
}

func TestRefusedConfigsLeaveTheLastGoodInForce(t *testing.T) {
	stranger := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))
	with := func(change func(*api.GuardConfig)) func(*rig) string {
		return func(r *rig) string { c := r.m.GuardConfig(8); change(c); return r.m.Sign(r.t, c) }
	}
	// resigned changes the payload's JSON before it is signed.
	resigned := func(from, to string) func(*rig) string {
		return func(r *rig) string {
			raw, err := json.Marshal(r.m.GuardConfig(8))
			if err != nil || !bytes.Contains(raw, []byte(from)) {
				r.t.Fatal(err, string(raw))
			}
			return signRaw(r.t, bytes.Replace(raw, []byte(from), []byte(to), 1), r.m.Signing)
		}
	}
	for _, c := range []struct {
		name, reason string
		jws          func(*rig) string
	}{
		{"by a stranger's key", "signature", func(r *rig) string { s, _ := api.Sign(r.m.GuardConfig(8), stranger); return s }},
		{"altered", "signature", func(r *rig) string {
			parts := strings.Split(r.m.Sign(r.t, r.m.GuardConfig(8)), ".")
			other := strings.Split(r.m.Sign(r.t, r.m.GuardConfig(9)), ".")
			return parts[0] + "." + other[1] + "." + parts[2]
		}},
		{"alg none", "signature", func(r *rig) string { return "eyJhbGciOiJub25lIn0.e30." }},
		{"alg HS256 by the public key", "signature", func(r *rig) string {
			public := r.m.Signing.Public().(ed25519.PublicKey)
			return signWith(r.t, configOf(r, 8), jose.HS256, []byte(public), public, nil)
		}},
		{"a stranger's key embedded", "signature", func(r *rig) string { s, _ := api.SignRoot(r.m.GuardConfig(8), stranger); return s }},
		{"a stranger's signature by the right kid", "signature", func(r *rig) string {
			return signWith(r.t, configOf(r, 8), jose.EdDSA, stranger, r.m.Signing.Public().(ed25519.PublicKey), nil)
		}},
		{"a critical header", "signature", func(r *rig) string {
			return signWith(r.t, configOf(r, 8), jose.EdDSA, r.m.Signing, r.m.Signing.Public().(ed25519.PublicKey), map[jose.HeaderKey]any{"crit": []string{"exp"}, "exp": 1})
		}},
		{"nested too deep", "malformed", resigned(`"schema":1`, `"schema":1,"x":`+strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20))},
		{"a guard nested too deep", "malformed", resigned(`"rules":[]`, `"rules":`+strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20))},
		{"50 MiB", "malformed", func(r *rig) string { return strings.Repeat("x", 50<<20) }},
		{"another kind of document", "malformed", func(r *rig) string {
			return r.m.Sign(r.t, &api.Override{Schema: 1, ID: "o", Version: 8, Aud: r.m.URL, Group: "default"})
		}},
		{"cut off", "malformed", func(r *rig) string { return r.m.Sign(r.t, r.m.GuardConfig(8))[:200] }},
		{"empty", "malformed", func(r *rig) string { return " " }},
		{"too new a schema", "schema", resigned(`"schema":1`, `"schema":2,"news":true`)},
		{"an unknown field", "malformed", resigned(`"schema":1`, `"schema":1,"news":true`)},
		{"a part of it missing", "malformed", resigned(`"hooks":{"machine":true,"user":true},`, ``)},
		{"a key twice", "malformed", resigned(`"schema":1`, `"schema":1,"Schema":1`)},
		{"for another Manager", "audience", with(func(c *api.GuardConfig) { c.Aud = "https://other.example.com" })},
		{"for another group", "group", with(func(c *api.GuardConfig) { c.Group = "finance" })},
		{"past its expiry", "expired", with(func(c *api.GuardConfig) { c.ExpiresAt = time.Now().Add(-time.Second) })},
		{"an older version", "version", with(func(c *api.GuardConfig) { c.Version = 6 })},
		{"no version", "malformed", with(func(c *api.GuardConfig) { c.Version = 0 })},
		{"telemetry in the clear", "malformed", with(func(c *api.GuardConfig) { c.Telemetry.Endpoint = "http://collector.example.com" })},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.publish(7)
				if _, err := r.sync(); err != nil {
					t.Fatal(err)
				}
				r.m.Publish(c.jws(r), `"bad"`)
				report, err := r.sync()
				var refused *Refusal
				if !errors.As(err, &refused) || refused.Reason != c.reason {
					t.Errorf("%v, want reason %s", err, c.reason)
				}
				if report.ConfigVersion != 7 || report.State != api.ConfigStateFailed || report.Reason != c.reason {
					t.Errorf("reported %d %s %q", report.ConfigVersion, report.State, report.Reason)
				}
				r.wantApplied(7)
				r.restart()
				if err := r.dev.Restore(t.Context()); err != nil {
					t.Error(err)
				}
				r.wantApplied(7, 7)
			})
		})
	}
}

func TestApplyThatFailsIsReportedAndTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.publish(7)
		if _, err := r.sync(); err != nil {
			t.Fatal(err)
		}
		r.applyErr = errors.New("rule x: no such detector")
		r.publish(8)
		r.run(func() {
			time.Sleep(20 * time.Second)
			if got := r.lastReport(); got.ConfigVersion != 7 || got.Reason != "apply: rule x: no such detector" {
				t.Errorf("%+v", got)
			}
			r.mu.Lock()
			r.applyErr = nil
			r.mu.Unlock()
			time.Sleep(5 * time.Minute)
		})
		r.wantApplied(7, 8)
		if n := r.requests("GET /device/config"); n > 12 {
			t.Errorf("%d requests: a refused config is fetched over and over", n)
		}
	})
}

func TestKilledBetweenApplyingAndKeeping(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.publish(7)
		if _, err := r.sync(); err != nil {
			t.Fatal(err)
		}
		r.publish(8)
		apply := r.dev.Apply
		r.dev.Apply = func(ctx context.Context, c *api.GuardConfig) error {
			_ = apply(ctx, c)
			panic("killed")
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = r.sync()
		}()
		r.restart()
		if err := r.dev.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.wantApplied(7, 8, 7)
		if _, err := r.sync(); err != nil {
			t.Fatal(err)
		}
		r.wantApplied(7, 8, 7, 8)
	})
}

func TestConfigThatCannotBeKeptIsNotInForce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.publish(7)
		if _, err := r.sync(); err != nil {
			t.Fatal(err)
		}
		r.publish(8)
		db := filepath.Join(r.dir, "agent.db")
		apply := r.dev.Apply
		r.dev.Apply = func(ctx context.Context, c *api.GuardConfig) error {
			if c.Version == 8 { // the disk goes away
				if err := errors.Join(os.Rename(db, db+"~"), os.Mkdir(db, 0o700)); err != nil {
					t.Fatal(err)
				}
			}
			return apply(ctx, c)
		}
		var refused *Refusal
		if err := r.dev.SyncOnce(t.Context()); !errors.As(err, &refused) || refused.Reason != "store" {
			t.Errorf("%v", err)
		}
		r.wantApplied(7, 8, 7)
	})
}

func TestOverrideAllowsOneLowerVersionOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.publish(12)
		if _, err := r.sync(); err != nil {
			t.Fatal(err)
		}
		override := func(id string, version int64, life time.Duration) {
			now := time.Now().UTC()
			r.m.Override = r.m.Sign(t, &api.Override{Schema: 1, ID: id, Version: version, Aud: r.m.URL, Group: "default", IssuedAt: now, ExpiresAt: now.Add(life)})
		}
		for _, c := range []struct {
			name    string
			set     func()
			version int64
			ok      bool
		}{
			{"for another version", func() { override("a", 9, time.Hour) }, 10, false},
			{"for longer than a day", func() { override("b", 10, 25*time.Hour) }, 10, false},
			{"expired", func() { override("c", 10, time.Minute); time.Sleep(time.Hour) }, 10, false},
			{"forged", func() { override("d", 10, time.Hour); r.m.Override = r.m.Override[:len(r.m.Override)-4] + "AAAA" }, 10, false},
			{"right", func() { override("e", 10, time.Hour) }, 10, true},
			{"the version in force again", func() { r.m.Override = "" }, 10, true},
			{"used, for a version that it doesn't name", func() { override("e", 10, time.Hour) }, 11, false},
			{"newer than all", func() { r.m.Override = "" }, 13, true},
			{"used before", func() { override("e", 10, time.Hour) }, 10, false},
			{"a second one", func() { override("f", 10, time.Hour) }, 10, true},
		} {
			c.set()
			r.publish(c.version, func(g *api.GuardConfig) { g.Agent.CheckinSeconds++ })
			if _, err := r.sync(); (err == nil) != c.ok {
				t.Errorf("%s: %v", c.name, err)
			}
			r.restart()
		}
	})
}

// TestMove: a signed statement moves this very device, once, and versions count
// by the new group from then on.
func TestMove(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		id, err := r.state.Identity()
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().UTC()
		move := func(device, group string, version int64, at time.Time) {
			r.m.Move = r.m.Sign(t, &api.GroupMove{Schema: 1, DeviceID: device, Aud: r.m.URL, Group: group, Version: version, IssuedAt: at})
		}
		for _, c := range []struct {
			name    string
			set     func()
			group   string
			version int64
			ok      bool
		}{
			{"where it was enrolled", func() {}, "default", 12, true},
			{"no statement", func() {}, "eng", 13, false},
			{"another device's", func() { move("01J00000000000000000000000", "eng", 5, at) }, "eng", 13, false},
			{"for another group", func() { move(id.DeviceID, "ops", 5, at) }, "eng", 13, false},
			{"forged", func() { move(id.DeviceID, "eng", 5, at.Add(time.Hour)); r.m.Move = r.m.Move[:len(r.m.Move)-4] + "AAAA" }, "eng", 13, false},
			{"an older version than came with it", func() { move(id.DeviceID, "eng", 5, at.Add(time.Minute)) }, "eng", 4, false},
			{"right", func() {}, "eng", 5, true},
			{"back by an older statement", func() { move(id.DeviceID, "default", 12, at.Add(time.Second)) }, "default", 12, false},
			{"lower than applied before", func() { move(id.DeviceID, "eng", 4, at.Add(time.Minute)) }, "eng", 4, false},
			{"back by a newer one", func() { move(id.DeviceID, "default", 12, at.Add(2*time.Minute)) }, "default", 12, true},
			{"the next publication", func() { r.m.Move = "" }, "default", 14, true},
		} {
			c.set()
			r.publish(c.version, func(g *api.GuardConfig) { g.Group = c.group })
			if _, err := r.sync(); (err == nil) != c.ok {
				t.Errorf("%s: %v", c.name, err)
			}
			r.restart()
		}
	})
}

func TestLastGoodConfigHoldsOfflineAndPastItsExpiry(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.publish(7)
		if _, err := r.sync(); err != nil {
			t.Fatal(err)
		}
		r.m.Down = true
		time.Sleep(48 * time.Hour)
		r.restart()
		r.run(func() {
			time.Sleep(time.Minute)
			r.wantApplied(7, 7)
			if s := r.dev.Status(); s.ConfigVersion != 7 || !s.Stale {
				t.Errorf("%+v", s)
			}
			r.m.Mu.Lock()
			r.m.Down = false
			r.m.Config = "" // it has nothing newer
			r.m.Mu.Unlock()
			time.Sleep(20 * time.Minute)
		})
		if got := r.lastReport(); got.ConfigVersion != 7 || !got.Stale || got.State != api.ConfigStateApplied {
			t.Errorf("%+v", got)
		}
	})
}

func TestSigningKeysChangeByTheRootKeyOnly(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		root := r.m.Root
		next := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
		r.m.Signing = next
		r.m.Keys.Version++
		r.m.Keys.Keys = []api.Key{api.JWK(next.Public().(ed25519.PublicKey))}
		r.publish(8)

		r.m.Root = next // whoever holds a signing key can't make another one
		if _, err := r.sync(); err == nil {
			t.Error("a statement of another root was believed")
		}
		r.m.Root = root
		if _, err := r.sync(); err != nil {
			t.Error(err)
		}
		r.wantApplied(8)
		// A config that was signed by the key before still holds at the next boot.
		r.restart()
		if err := r.dev.Restore(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestNewSigningKeysAreFetchedWhenTheReportSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.m.Keys.Version = 5
		r.m.Reply.KeysVersion = 5
		if _, err := r.sync(); err != nil {
			t.Fatal(err)
		}
		if id, _ := r.state.Identity(); id.KeysVersion != 5 {
			t.Errorf("%+v", id)
		}
	})
}

func TestWrongClockIsCorrectedForSignaturesOnly(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ahead = 3 * time.Hour
		r.publish(7) // expires in an hour, by the Manager's clock
		report, err := r.sync()
		var refused *Refusal
		if !errors.As(err, &refused) || refused.Reason != "expired" {
			t.Errorf("the Manager's time was used for an expiry: %v", err)
		}
		if report.State != api.ConfigStateFailed {
			t.Error("the report did not come through")
		}
		if r.requests("GET /device/config 401") != 1 || r.requests("POST /device/report 401") != 0 {
			t.Errorf("%v", r.m.Requests())
		}
	})
}

func TestNothingAServerSaysEndsAnIdentity(t *testing.T) {
	forged := func(r *rig) string {
		id, _ := r.state.Identity()
		s, err := api.Sign(&api.Retirement{Schema: 1, ID: "x", DeviceID: id.DeviceID, Aud: r.m.URL}, ed25519.NewKeyFromSeed(make([]byte, 32)))
		if err != nil {
			r.t.Fatal(err)
		}
		return s
	}
	others := func(r *rig) string {
		return r.m.Sign(r.t, &api.Retirement{Schema: 1, ID: "x", DeviceID: "01J9ZQ3V5K8M2N4P6R7S8T9V0W", Aud: r.m.URL})
	}
	for _, c := range []struct {
		name   string
		answer func(r *rig, w http.ResponseWriter)
	}{
		{"401", func(_ *rig, w http.ResponseWriter) { w.WriteHeader(401) }},
		{"403", func(_ *rig, w http.ResponseWriter) { w.WriteHeader(403) }},
		{"404", func(_ *rig, w http.ResponseWriter) { w.WriteHeader(404) }},
		{"410", func(_ *rig, w http.ResponseWriter) { w.WriteHeader(410) }},
		{"a login page", func(_ *rig, w http.ResponseWriter) { _, _ = w.Write([]byte("<html>sign in</html>")) }},
		{"device_unknown", func(_ *rig, w http.ResponseWriter) { api.NewProblem(api.ProblemCodeDeviceUnknown, "").Write(w) }},
		{"signature", func(_ *rig, w http.ResponseWriter) { api.NewProblem(api.ProblemCodeSignature, "").Write(w) }},
		{"device_retired without a statement", func(_ *rig, w http.ResponseWriter) { api.NewProblem(api.ProblemCodeDeviceRetired, "").Write(w) }},
		{"device_retired with a forged statement", func(r *rig, w http.ResponseWriter) {
			p := api.NewProblem(api.ProblemCodeDeviceRetired, "")
			p.Statement = forged(r)
			p.Write(w)
		}},
		{"device_retired with another device's statement", func(r *rig, w http.ResponseWriter) {
			p := api.NewProblem(api.ProblemCodeDeviceRetired, "")
			p.Statement = others(r)
			p.Write(w)
		}},
		{"clock_skew forever", func(_ *rig, w http.ResponseWriter) {
			p := api.NewProblem(api.ProblemCodeClockSkew, "")
			p.ServerTime = time.Now().Add(24 * time.Hour)
			p.Write(w)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				before, _ := r.state.Identity()
				r.publish(7)
				if _, err := r.sync(); err != nil {
					t.Fatal(err)
				}
				r.m.Before = func(w http.ResponseWriter, _ *http.Request) bool { c.answer(r, w); return true }
				start := r.logged()
				r.run(func() { time.Sleep(6 * time.Hour) })
				if after, err := r.state.Identity(); err != nil || after.DeviceID != before.DeviceID {
					t.Errorf("%v", err)
				}
				if len(r.retired) > 0 || r.dev.Status().ConfigVersion != 7 {
					t.Error("something was taken back")
				}
				if n := r.logged() - start; n > 250 {
					t.Errorf("%d requests in six hours", n)
				}
				if r.requests("POST /enroll") != 1 {
					t.Error("it enrolled again")
				}
				r.m.Before = nil
				if _, err := r.sync(); err != nil {
					t.Errorf("after the trouble: %v", err)
				}
			})
		})
	}
}

func TestRetirementIsCarriedOutOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.publish(7)
		if _, err := r.sync(); err != nil {
			t.Fatal(err)
		}
		for _, d := range r.m.Devices {
			d.Retired = true
		}
		r.run(func() { time.Sleep(2 * time.Minute) })
		if !slices.Equal(r.retired, []string{"manager"}) {
			t.Errorf("retired %v", r.retired)
		}
		if _, err := r.state.Identity(); !errors.Is(err, enroll.ErrNotEnrolled) {
			t.Error(err)
		}
		n := r.logged()
		r.restart()
		r.run(func() { time.Sleep(time.Hour) })
		if r.logged() != n || len(r.retired) != 1 {
			t.Errorf("it goes on: %v %v", r.m.Requests()[n:], r.retired)
		}
		r.wantApplied(7)
		// A new token brings it back.
		r.restart()
		r.enrol()
		r.publish(9)
		if _, err := r.sync(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloneKeepsItsIdentityAndAsksForANewOne(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, d := range r.m.Devices {
			d.Clone = true
		}
		r.run(func() { time.Sleep(time.Minute) })
		o, err := r.state.Overview()
		if err != nil || o.Identity == nil || o.Reenrol != api.EnrolReasonClone {
			t.Errorf("%+v %v", o, err)
		}
	})
}

func TestActions(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		id, _ := r.state.Identity()
		action := func(id, device string, kind api.ActionKind, life time.Duration) string {
			now := time.Now().UTC()
			return r.m.Sign(t, &api.Action{Schema: 1, ID: id, DeviceID: device, Aud: r.m.URL, Kind: kind, IssuedAt: now, ExpiresAt: now.Add(life)})
		}
		good := action("a1", id.DeviceID, api.ActionKindRepair, time.Hour)
		forged, err := api.Sign(&api.Action{Schema: 1, ID: "a9", DeviceID: id.DeviceID, Aud: r.m.URL, Kind: api.ActionKindRepair, ExpiresAt: time.Now().Add(time.Hour)},
			ed25519.NewKeyFromSeed(make([]byte, 32)))
		if err != nil {
			t.Fatal(err)
		}
		r.m.Reply.Actions = []string{
			good, good,
			action("a2", "01J9ZQ3V5K8M2N4P6R7S8T9V0W", api.ActionKindRepair, time.Hour),
			action("a3", id.DeviceID, api.ActionKindRepair, -time.Second),
			action("a4", id.DeviceID, "script", time.Hour),
			forged, "garbage",
			action("a5", id.DeviceID, api.ActionKindLogLevel, time.Hour),
		}
		for range 3 {
			if _, err := r.sync(); err != nil {
				t.Fatal(err)
			}
			r.restart()
		}
		if want := []string{"a1 repair", "a5 log-level"}; !slices.Equal(r.acted, want) {
			t.Errorf("did %v, want %v", r.acted, want)
		}
		told := map[string]int{}
		for _, report := range r.m.Reports {
			for _, a := range report.ActionsDone {
				told[a.ID]++
				if !a.Ok || a.Detail != "did it" {
					t.Errorf("%+v", a)
				}
			}
		}
		if told["a1"] != 1 || told["a5"] != 1 || len(told) != 2 {
			t.Errorf("acknowledged %v", told)
		}
	})
}

func TestActionThatTheProcessDidNotSurviveIsNotDoneAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		id, _ := r.state.Identity()
		now := time.Now().UTC()
		r.m.Reply.Actions = []string{r.m.Sign(t, &api.Action{Schema: 1, ID: "a1", DeviceID: id.DeviceID, Aud: r.m.URL, Kind: api.ActionKindRepair, IssuedAt: now, ExpiresAt: now.Add(time.Hour)})}
		var l doneList
		if err := r.state.Update(actionsName, &l, func() error {
			l.Actions = []done{{ID: "a1", ExpiresAt: now.Add(time.Hour)}}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		r.restart()
		report, err := r.sync()
		if err != nil || len(r.acted) != 0 {
			t.Errorf("%v, did %v", err, r.acted)
		}
		if len(report.ActionsDone) != 1 || report.ActionsDone[0].Ok {
			t.Errorf("%+v", report.ActionsDone)
		}
	})
}

func TestActionsOfTheDeviceItself(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		id, _ := r.state.Identity()
		order := func(kind api.ActionKind) {
			now := time.Now().UTC()
			r.m.Reply.Actions = []string{r.m.Sign(t, &api.Action{Schema: 1, ID: string(kind), DeviceID: id.DeviceID, Aud: r.m.URL, Kind: kind, IssuedAt: now, ExpiresAt: now.Add(time.Hour)})}
		}
		key := func() string {
			r.m.Mu.Lock()
			defer r.m.Mu.Unlock()
			return api.KeyID(r.m.Devices[id.DeviceID].Keys[0])
		}
		before := key()
		order(api.ActionKindRotateKey)
		if _, err := r.sync(); err != nil || key() == before {
			t.Errorf("rotate-key: %v", err)
		}
		r.publish(7)
		order(api.ActionKindResync)
		if _, err := r.sync(); err != nil {
			t.Error(err)
		}
		order(api.ActionKindUnenroll)
		report, err := r.sync()
		if err != nil {
			t.Error(err)
		}
		if n := len(report.ActionsDone); n == 0 || report.ActionsDone[n-1].ID != "unenroll" || !report.ActionsDone[n-1].Ok {
			t.Errorf("%+v", report.ActionsDone)
		}
		if o, err := r.state.Overview(); err != nil || o.Identity != nil || o.Retired.By != "action unenroll" {
			t.Errorf("%+v %v", o, err)
		}
	})
}

func TestAfterASuspendThereIsOnePromptCheckIn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.publish(7)
		r.run(func() {
			time.Sleep(10 * time.Minute)
			polls, reports := r.requests("GET /device/config"), r.requests("POST /device/report 200")
			r.mu.Lock()
			r.ahead += 8 * time.Hour // timers stood still, the wall clock did not
			r.mu.Unlock()
			time.Sleep(look + look + gap)
			p, q := r.requests("GET /device/config")-polls, r.requests("POST /device/report 200")-reports
			if p < 1 || p > 2 || q < 1 || q > 2 { // one may have been due anyway
				t.Errorf("%d polls and %d reports after the suspend", p, q)
			}
		})
	})
}

func TestManagerAwayForADay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.publish(7)
		r.run(func() {
			time.Sleep(10 * time.Minute)
			r.m.Mu.Lock()
			r.m.Down = true
			r.m.Mu.Unlock()
			before := r.logged()
			time.Sleep(24 * time.Hour)
			if n := r.logged() - before; n < 50 || n > 400 {
				t.Errorf("%d requests in a day", n)
			}
			r.m.Mu.Lock()
			r.m.Down = false
			r.m.Mu.Unlock()
			time.Sleep(16 * time.Minute)
			r.publish(8)
			time.Sleep(5 * time.Second)
			if got := r.lastReport(); got.ConfigVersion != 8 {
				t.Errorf("%+v", got)
			}
		})
		r.wantApplied(7, 8)
	})
}

func TestPausesThatTheManagerAsksFor(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.m.Before = func(w http.ResponseWriter, _ *http.Request) bool {
			api.NewProblem(api.ProblemCodeBusy, "").After(10 * time.Minute).Write(w)
			return true
		}
		r.run(func() {
			time.Sleep(9 * time.Minute)
			if n := r.requests("GET /device/config"); n != 1 {
				t.Errorf("%d polls within a pause of ten minutes", n)
			}
			if n := r.requests("POST /device/report"); n != 1 {
				t.Errorf("%d reports within a pause of ten minutes", n)
			}
		})
	})
}

func TestAManagerThatEndsDoesNotMakeABurst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.m.Before = func(w http.ResponseWriter, q *http.Request) bool {
			if strings.HasSuffix(q.URL.Path, "/config") {
				w.WriteHeader(http.StatusNotModified) // at once, whatever wait says
				return true
			}
			return false
		}
		r.run(func() { time.Sleep(time.Hour) })
		if n := r.requests("GET /device/config"); n > 200 {
			t.Errorf("%d polls in an hour", n)
		}
	})
}

func TestPollsGrowShorterWhereAProxyCutsThem(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.m.After = func(q *http.Request) bool { return q.URL.Query().Get("wait") == "55" }
		r.run(func() { time.Sleep(20 * time.Minute) })
		if n := r.requests("GET /device/config 304"); n < 20 {
			t.Errorf("%d polls", n)
		}
		if s := r.dev.Status(); s.Failures != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
