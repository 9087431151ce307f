package manager

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

func TestKeyRotation(t *testing.T) {
	b := newBed(t)
	d := b.device()
	next := newTestKey()
	rot := func(change ...func(*api.KeyRotation)) []byte {
		r := &api.KeyRotation{Schema: 1, DeviceID: d.id, PublicKey: api.EncodeKey(public(next)), Iat: b.now().Unix(), Aud: d.audience}
		for _, f := range change {
			f(r)
		}
		doc, err := api.Sign(r, next)
		b.must(err)
		return []byte(doc)
	}
	send := func(doc []byte) error { return api.Done(d.client().RotateDeviceKey(t.Context(), doc)) }

	b.code(send(rot(func(r *api.KeyRotation) { r.DeviceID = "other" })), api.ProblemCodeMalformed)
	b.code(send(rot(func(r *api.KeyRotation) { r.Aud = "other" })), api.ProblemCodeAudience)
	b.code(send(rot(func(r *api.KeyRotation) { r.Iat -= 3600 })), api.ProblemCodeClockSkew)
	b.code(send(rot(func(r *api.KeyRotation) { r.PublicKey = api.EncodeKey(public(newTestKey())) })), api.ProblemCodeSignature)
	b.code(send([]byte("x")), api.ProblemCodeMalformed)

	b.must(send(rot()))
	b.must(send(rot())) // a lost reply: once more
	_, err := d.report()
	b.must(err) // the old key is good until the new one was used
	old := d.key
	d.key = next
	_, err = d.report()
	b.must(err)
	d.key = old
	_, err = d.report()
	b.code(err, api.ProblemCodeDeviceUnknown)

	d.key = next
	next = old
	b.code(send(rot()), api.ProblemCodeKeyInUse) // no key comes back
}

// An offer that was never used is replaced by the next.
func TestKeyRotationAbandoned(t *testing.T) {
	b := newBed(t)
	d := b.device()
	var keys [2]*dev
	for i := range keys {
		k := *d
		k.key = newTestKey()
		keys[i] = &k
		doc, err := api.Sign(&api.KeyRotation{Schema: 1, DeviceID: d.id, PublicKey: api.EncodeKey(public(k.key)), Iat: b.now().Unix(), Aud: d.audience}, k.key)
		b.must(err)
		b.must(api.Done(d.client().RotateDeviceKey(t.Context(), []byte(doc))))
	}
	_, err := keys[0].report()
	b.code(err, api.ProblemCodeDeviceUnknown)
	_, err = keys[1].report()
	b.must(err)
}

func TestClone(t *testing.T) {
	b := newBed(t)
	d := b.device()
	other := *d
	other.boot = "boot-2"
	_, err := d.report()
	b.must(err)
	_, err = other.report()
	b.must(err) // a reboot
	_, err = d.report()
	b.must(err) // was on its way
	_, res, err := other.poll("", 0)
	b.must(err)
	held := make(chan error, 1)
	go func() {
		_, _, err := other.poll(res.Header.Get("ETag"), 50)
		held <- err
	}()
	for b.m.hub.held.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	b.later(time.Minute)
	r, err := d.report() // the older one is alive
	b.must(err)
	equal(t, r.Reenroll, api.ReportReplyReenrollClone)
	b.code(<-held, api.ProblemCodeClone) // the newer one is told at once
	_, err = other.report()
	b.code(err, api.ProblemCodeClone)
	third := *d
	third.boot = "boot-3"
	_, err = third.report()
	b.code(err, api.ProblemCodeClone)
	equal(t, b.show(d.id).State, api.DeviceStateQuarantined)

	// Both enrol again, with keys of their own, and are two devices.
	token := b.token(func(c *api.TokenCreate) { c.Uses = 2 })
	clone := func(r *api.EnrolRequest) { r.Reason = api.EnrolReasonClone }
	x, err := b.tryEnrol(token, newTestKey(), clone)
	b.must(err)
	y, err := b.tryEnrol(token, newTestKey(), clone)
	b.must(err)
	if x.id == y.id || x.id == d.id {
		t.Fatal("still one device")
	}
	equal(t, len(b.show(y.id).Replaces), 2)
}

func TestReboots(t *testing.T) {
	b := newBed(t)
	d := b.device()
	for i := range 20 {
		d.boot = "boot-" + string(rune('a'+i))
		_, err := d.report()
		b.must(err)
		b.later(time.Hour)
	}
	equal(t, b.show(d.id).State, api.DeviceStateActive)
}

func TestRetire(t *testing.T) {
	b := newBed(t)
	d := b.device()
	c, res, err := d.poll("", 0)
	b.must(err)
	equal(t, c.Version, int64(1))
	held := make(chan error, 1)
	go func() {
		_, _, err := d.poll(res.Header.Get("ETag"), 50)
		held <- err
	}()
	for b.m.hub.held.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	_, err = api.JSON[api.Device](b.admin(api.RoleOperator).RetireDevice(t.Context(), d.id))
	b.must(err)
	err = <-held // told at once
	b.code(err, api.ProblemCodeDeviceRetired)
	_, err = d.report()
	b.code(err, api.ProblemCodeDeviceRetired)
	var p *api.Problem
	errors.As(err, &p)
	keys, err := api.ParseKeys(d.reply.SigningKeys.Keys)
	b.must(err)
	var s api.Retirement
	b.must(api.Verify(p.Statement, &s, keys))
	equal(t, s.DeviceID, d.id)
	equal(t, s.Aud, d.audience)
	root, err := token.ParseFingerprint(b.m.Root())
	b.must(err)
	var stated api.KeyStatement
	b.must(api.VerifyRoot(p.Keys, &stated, root))
	_, err = api.JSON[api.ActionState](b.admin(api.RoleOperator).OrderAction(t.Context(), d.id, api.ActionOrder{Kind: api.ActionKindResync}))
	b.code(err, api.ProblemCodeConflict)
}

func TestRetiredDoesNotEnrolAgain(t *testing.T) {
	b := newBed(t)
	token, key := b.token(), newTestKey()
	d, err := b.tryEnrol(token, key)
	b.must(err)
	b.must(api.Done(b.admin(api.RoleOperator).RetireDevice(t.Context(), d.id)))
	_, err = b.tryEnrol(token, key)
	b.code(err, api.ProblemCodeDeviceRetired)
}

func TestActions(t *testing.T) {
	b := newBed(t)
	d := b.device()
	op := b.admin(api.RoleOperator)
	order := func(o api.ActionOrder) (api.ActionState, error) {
		return api.JSON[api.ActionState](op.OrderAction(t.Context(), d.id, o))
	}
	for _, bad := range []api.ActionOrder{{Kind: "script"}, {Kind: api.ActionKindLogLevel}, {Kind: api.ActionKindRepair, LogLevel: api.LogLevelDebug},
		{Kind: api.ActionKindLogLevel, LogLevel: "loud"}, {Kind: api.ActionKindResync, TTLSeconds: 1 << 40}} {
		_, err := order(bad)
		b.code(err, api.ProblemCodeMalformed)
	}
	one, err := order(api.ActionOrder{Kind: api.ActionKindLogLevel, LogLevel: api.LogLevelDebug})
	b.must(err)
	two, err := order(api.ActionOrder{Kind: api.ActionKindRepair})
	b.must(err)
	short, err := order(api.ActionOrder{Kind: api.ActionKindResync, TTLSeconds: 60})
	b.must(err)
	r, err := d.report()
	b.must(err)
	equal(t, len(r.Actions), 3)
	keys := d.keys()
	var a api.Action
	b.must(api.Verify(r.Actions[0], &a, keys))
	equal(t, a.ID, one.ID)
	equal(t, a.DeviceID, d.id)
	equal(t, a.LogLevel, api.LogLevelDebug)
	b.later(2 * time.Minute)
	r, err = d.report(func(r *api.Report) {
		r.ActionsDone = []api.ActionDone{{ID: one.ID, Ok: true}, {ID: two.ID, Ok: false, Detail: "no"}, {ID: "unknown", Ok: true}}
	})
	b.must(err)
	equal(t, len(r.Actions), 0) // one done, one failed, one expired
	r, err = d.report(func(r *api.Report) { r.ActionsDone = []api.ActionDone{{ID: two.ID, Ok: true}} })
	b.must(err) // a second acknowledgement changes nothing
	equal(t, len(r.Actions), 0)
	states := map[string]api.ActionStateState{}
	for _, s := range b.show(d.id).Actions {
		states[s.ID] = s.State
	}
	equal(t, states[one.ID], api.ActionStateStateDone)
	equal(t, states[two.ID], api.ActionStateStateFailed)
	equal(t, states[short.ID], api.ActionStateStateExpired)
	for range maxPending {
		_, err = order(api.ActionOrder{Kind: api.ActionKindResync})
		b.must(err)
	}
	_, err = order(api.ActionOrder{Kind: api.ActionKindResync})
	b.code(err, api.ProblemCodeConflict)
}

func TestReport(t *testing.T) {
	b := newBed(t)
	d := b.device()
	seen := b.now().UTC().Truncate(time.Second)
	send := func(users ...api.ReportUser) {
		t.Helper()
		_, err := d.report(func(r *api.Report) {
			r.Users, r.Agent = users, api.ReportAgent{Version: "1.2.3"}
			r.Repairs = []api.ReportRepair{{At: seen, What: "hook file"}}
			r.Counters = api.Counters{Prevented: 4, NotEnforced: 1}
		})
		b.must(err)
	}
	send(api.ReportUser{Name: "ann", Hook: api.ReportUserHookOk}, api.ReportUser{Name: "bob", Hook: api.ReportUserHookOk, LastEvent: seen})
	got := b.show(d.id)
	equal(t, got.Enforced, false) // a file that exists isn't enforcement
	equal(t, got.AgentVersion, "1.2.3")
	equal(t, got.Report.Counters.Prevented, int64(4))
	b.must(b.m.flushReports(t.Context()))
	send(api.ReportUser{Name: "ann", Hook: api.ReportUserHookRepaired, LastEvent: seen}, api.ReportUser{Name: "bob", Hook: api.ReportUserHookOk, LastEvent: seen})
	got = b.show(d.id)
	equal(t, got.Enforced, true)
	equal(t, len(got.Report.Repairs), 2)
	b.restart()
	equal(t, b.show(d.id).Enforced, true) // what was pending is written at the end
	_, err := d.report(func(r *api.Report) { r.State = api.ConfigStateFailed; r.Reason = "schema" })
	b.must(err)
	equal(t, b.show(d.id).ConfigReason, "schema")
	_, err = d.report(func(r *api.Report) { r.State = "?" })
	b.code(err, api.ProblemCodeMalformed)
}

func TestAppeals(t *testing.T) {
	b := newBed(t)
	d := b.device()
	say := func(a api.AppealRequest) (api.Appeal, error) {
		return api.JSON[api.Appeal](d.client().Appeal(t.Context(), a))
	}
	_, err := say(api.AppealRequest{EvaluationID: "e1"})
	b.code(err, api.ProblemCodeMalformed)
	one, err := say(api.AppealRequest{EvaluationID: "e1", RuleID: "r", User: "ann", Reason: "it was mine"})
	b.must(err)
	again, err := say(api.AppealRequest{EvaluationID: "e1", Reason: "once more"})
	b.must(err)
	equal(t, again.ID, one.ID)
	list, err := api.JSON[[]api.Appeal](b.admin(api.RoleViewer).ListAppeals(t.Context(), api.ListAppealsParams{}))
	b.must(err)
	equal(t, len(list), 1)
	done, err := api.JSON[api.Appeal](b.admin(api.RoleAuthor).ResolveAppeal(t.Context(), one.ID, api.AppealResolution{State: api.AppealStateAccepted}))
	b.must(err)
	equal(t, done.State, api.AppealStateAccepted)
	list, err = api.JSON[[]api.Appeal](b.admin(api.RoleViewer).ListAppeals(t.Context(), api.ListAppealsParams{}))
	b.must(err)
	equal(t, len(list), 0)
}

// A device that moves gets the config of its new group at once.
func TestMove(t *testing.T) {
	b := newBed(t)
	d := b.device()
	_, res, err := d.poll("", 0)
	b.must(err)
	b.must(api.Done(b.admin(api.RoleOperator).CreateGroup(t.Context(), api.GroupCreate{Name: "eng"})))
	type answer struct {
		c   *api.GuardConfig
		err error
	}
	held := make(chan answer, 1)
	go func() {
		c, _, err := d.poll(res.Header.Get("ETag"), 50)
		held <- answer{c, err}
	}()
	for b.m.hub.held.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	b.must(api.Done(b.admin(api.RoleOperator).MoveDevice(t.Context(), d.id, api.DeviceMove{Group: "eng"})))
	a := <-held
	b.must(a.err)
	equal(t, a.c.Group, "eng")
	b.code(api.Done(b.admin(api.RoleOperator).MoveDevice(t.Context(), d.id, api.DeviceMove{Group: "nowhere"})), api.ProblemCodeNotFound)
}

// A JWT from before the start could have been used before, which nobody remembers: it is refused with the server's time.
func TestCallFromBeforeTheStart(t *testing.T) {
	b := newBed(t)
	d := b.device()
	b.later(10 * time.Second)
	b.restart()
	c := d.client()
	c.Authorize = func(r *http.Request, body []byte) error {
		return d.caller().Authorize(r, body, b.now().Add(-5*time.Second))
	}
	_, err := api.JSON[api.ReportReply](c.ReportDevice(t.Context(), api.Report{State: api.ConfigStateApplied}))
	b.code(err, api.ProblemCodeClockSkew)
	_, err = d.report()
	b.must(err)
}

// A Manager that started with its clock ahead lets its devices in all the same when the clock is set right.
func TestManagerClockSetBack(t *testing.T) {
	b := newBed(t)
	d := b.device()
	_, err := d.report()
	b.must(err)
	b.later(-2 * time.Hour)
	c := d.client()
	early := b.now().Add(-5 * time.Second)
	c.Authorize = func(r *http.Request, body []byte) error { return d.caller().Authorize(r, body, early) }
	_, err = api.JSON[api.ReportReply](c.ReportDevice(t.Context(), api.Report{State: api.ConfigStateApplied}))
	b.code(err, api.ProblemCodeClockSkew) // not from before the turn
	_, err = d.report()
	b.must(err)
}

// TestRefusedConfigIsAudited: that a device didn't take its config is in the audit log with the reason, once for each, and a
// device that says so over and over fills nothing.
func TestRefusedConfigIsAudited(t *testing.T) {
	b := newBed(t)
	d := b.device()
	entries := func() (list []string) {
		t.Helper()
		page, err := api.JSON[api.AuditPage](b.admin(api.RoleAdmin).ListAudit(t.Context(), api.ListAuditParams{}))
		b.must(err)
		for _, e := range page.Entries {
			if e.Action == "config.refused" {
				equal(t, e.Subject, d.id)
				list = append(list, e.Detail)
			}
		}
		return list
	}
	say := func(state api.ConfigState, reason string) {
		t.Helper()
		_, err := d.report(func(r *api.Report) { r.ConfigVersion, r.State, r.Reason = 7, state, reason })
		b.must(err)
	}
	for range 3 {
		say(api.ConfigStateFailed, "apply: rule x: bad")
	}
	equal(t, fmt.Sprint(entries()), "[version 7 stays in force: apply: rule x: bad]")
	for range 3 {
		say(api.ConfigStateApplied, "")
		say(api.ConfigStateFailed, "signature")
	}
	equal(t, len(entries()), 1)
	say(api.ConfigStateApplied, "")
	b.later(refusalsApart)
	say(api.ConfigStateFailed, "signature")
	equal(t, len(entries()), 2)
}

// TestAppealsAreBounded: no device fills the queue alone, and decided appeals make room for new ones.
func TestAppealsAreBounded(t *testing.T) {
	b := newBed(t)
	d, other := b.device(), b.device()
	appeal := func(d *dev, n int) error {
		_, err := api.JSON[api.Appeal](d.client().Appeal(t.Context(), api.AppealRequest{EvaluationID: fmt.Sprint("E", n), Reason: "x"}))
		return err
	}
	fill := func(device string, from, n int, state api.AppealState) {
		t.Helper()
		b.must(b.m.update(t.Context(), func(tx store.Tx) error {
			for i := from; i < from+n; i++ {
				a := api.Appeal{ID: fmt.Sprintf("%026d", i), DeviceID: device, EvaluationID: fmt.Sprint("F", i), State: state}
				if err := appeals.Put(tx, a.ID, a); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	fill(d.id, 0, maxAppealsOfOne, api.AppealStateOpen)
	b.code(appeal(d, 1), api.ProblemCodeBusy)
	b.must(appeal(other, 1))
	fill("gone", maxAppealsOfOne, maxAppeals-maxAppealsOfOne-1, api.AppealStateAccepted)
	b.must(appeal(other, 2))
	b.must(appeal(other, 3))
	b.must(b.m.view(t.Context(), func(tx store.Tx) error {
		n := 0
		for _, err := range appeals.Scan(tx, store.Range{}) {
			if err != nil {
				return err
			}
			n++
		}
		equal(t, n, maxAppeals)
		_, err := appeals.Get(tx, fmt.Sprintf("%026d", maxAppealsOfOne))
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the oldest that is closed is still there: %v", err)
		}
		return nil
	}))
	fill("gone", maxAppealsOfOne, maxAppeals-maxAppealsOfOne, api.AppealStateOpen)
	b.code(appeal(other, 4), api.ProblemCodeBusy)
}
