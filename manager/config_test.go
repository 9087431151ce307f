package manager

import (
	"compress/gzip"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

func TestConfigPoll(t *testing.T) {
	b := newBed(t)
	d := b.device()
	c, res, err := d.poll("", 50) // without an etag nothing is held
	b.must(err)
	equal(t, c.Version, int64(1))
	equal(t, c.Aud, d.audience)
	equal(t, c.Group, DefaultGroup)
	equal(t, c.Telemetry.Enabled, true)
	equal(t, c.Telemetry.Endpoint, "manager")
	etag := res.Header.Get("ETag")
	_, res, err = d.poll(etag, 0)
	b.must(err)
	equal(t, res.StatusCode, http.StatusNotModified)
	start := time.Now()
	_, res, err = d.poll(etag, 1)
	b.must(err)
	equal(t, res.StatusCode, http.StatusNotModified)
	if d := time.Since(start); d < time.Second || d > 10*time.Second {
		t.Fatalf("held for %s", d)
	}
	got := make(chan *api.GuardConfig, 1)
	go func() {
		c, _, _ := d.poll(etag, 50)
		got <- c
	}()
	for b.m.hub.held.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	v, err := b.publish(denyRm, "")
	b.must(err)
	equal(t, v.Version, int64(2))
	c = <-got
	equal(t, c.Version, int64(2))
	b.contains(string(c.Guard), "no_rm")
}

func TestConfigOfGroups(t *testing.T) {
	b := newBed(t)
	b.must(api.Done(b.admin(api.RoleOperator).CreateGroup(t.Context(), api.GroupCreate{Name: "eng"})))
	d, e := b.device(), b.enrol(b.token(func(c *api.TokenCreate) { c.Group = "eng" }))
	version := func(d *dev, want int64) {
		t.Helper()
		c, _, err := d.poll("", 0)
		b.must(err)
		equal(t, c.Version, want)
		equal(t, c.Group, d.reply.Group)
	}
	_, err := b.publish(denyRm, "eng")
	b.must(err)
	version(d, 1)
	version(e, 2)
	_, err = b.publish("mode: monitor\n", "")
	b.must(err)
	version(d, 3)
	version(e, 3)
	v, err := api.JSON[api.PolicyVersion](b.admin(api.RoleAuthor).RollbackPolicy(t.Context(), 2))
	b.must(err)
	equal(t, v.RollbackOf, int64(2))
	version(d, 3)
	version(e, 4)
	b.restart()
	version(d, 3)
	version(e, 4)
	list, err := api.JSON[[]api.PolicyVersion](b.admin(api.RoleViewer).ListPolicies(t.Context(), api.ListPoliciesParams{}))
	b.must(err)
	equal(t, len(list), 4)
	equal(t, list[0].InForce[0], "eng")
	equal(t, list[1].InForce[0], DefaultGroup)
	// A group that is made later gets what all got.
	b.must(api.Done(b.admin(api.RoleOperator).CreateGroup(t.Context(), api.GroupCreate{Name: "ops"})))
	version(b.enrol(b.token(func(c *api.TokenCreate) { c.Group = "ops" })), 3)
}

func TestRefusedPolicyPublishesNothing(t *testing.T) {
	b := newBed(t)
	for name, yaml := range map[string]string{
		"unknown key":     "mode: enforce\nruls: []\n",
		"type error":      "rules: [{id: a, on: tool_input, when: \"1 + 'a'\", action: deny}]\n",
		"remote too slow": "timeoutMs: 400\nremote: {endpoint: \"https://x.example\", timeoutMs: 321, when: review}\n",
		"remote http":     "remote: {endpoint: \"http://x.example\", timeoutMs: 100, when: review}\n",
		"no yaml":         "\t{",
	} {
		t.Run(name, func(t *testing.T) {
			before := b.dump()
			_, err := b.publish(yaml, "")
			b.code(err, api.ProblemCodePolicyInvalid)
			if p := err.(*api.Problem); len(p.Findings) == 0 || p.Findings[0].Message == "" {
				t.Fatalf("no findings: %+v", p)
			}
			equal(t, b.dump(), before)
		})
	}
	_, err := b.publish(denyRm, "nowhere")
	b.code(err, api.ProblemCodeNotFound)
}

// The server opens no file for a caller, whatever a fixture asks for.
func TestFixtureNamesNoFile(t *testing.T) {
	b := newBed(t)
	for name, cases := range map[string]string{
		"plain":   "cases:\n  - {name: x, eventFile: /etc/passwd, expect: DENY}\n",
		"escaped": "cases:\n  - {name: x, \"event\\x46ile\": /etc/passwd, expect: DENY}\n",
		"merged":  "cases:\n  - &a {name: x, \"event\\x46ile\": /etc/passwd, expect: DENY}\n  - {<<: *a}\n",
		"keyed":   "\"case\\x73\":\n  - {name: x, eventFile: /etc/passwd, expect: DENY}\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := api.JSON[api.PolicyTestResult](b.admin(api.RoleViewer).TestPolicy(t.Context(), api.PolicyTest{Files: []api.PolicyFile{
				{Name: "p.yaml", Content: denyRm}, {Name: "p.test.yaml", Content: cases}}}))
			b.code(err, api.ProblemCodePolicyInvalid)
			b.contains(err.(*api.Problem).Findings[0].Message, "eventFile")
		})
	}
}

func TestPolicyTest(t *testing.T) {
	b := newBed(t)
	out, err := api.JSON[api.PolicyTestResult](b.admin(api.RoleViewer).TestPolicy(t.Context(), api.PolicyTest{
		Files: []api.PolicyFile{{Name: "p.yaml", Content: denyRm},
			{Name: "p.test.yaml", Content: "cases:\n  - {name: hit, command: rm x, expect: DENY}\n  - {name: miss, command: ls, expect: DENY}\n"}},
		Events: []api.PolicyFile{{Name: "e", Content: `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm -rf x"}}`}, {Name: "bad", Content: "x"}}}))
	b.must(err)
	equal(t, out.Ok, false)
	equal(t, out.Fixtures, 2)
	equal(t, len(out.Failures), 1)
	equal(t, out.Failures[0].File, "p.test.yaml")
	equal(t, out.Events[0].Decision, "DENY")
	equal(t, out.Events[0].Rule, "no_rm")
	equal(t, out.Events[1].Decision, "error")
}

// A config is signed anew in time, under the same version, and by a new signing key once there is one, which old devices
// learn from the root's statement.
func TestConfigRenewal(t *testing.T) {
	b := newBed(t)
	d := b.device()
	one, res, err := d.poll("", 0)
	b.must(err)
	etag := res.Header.Get("ETag")
	b.later(3 * 24 * time.Hour)
	b.must(b.m.signConfigs(t.Context()))
	equal(t, b.etag(d), etag)
	b.later(24 * time.Hour)
	b.must(b.m.signConfigs(t.Context()))
	two, res, err := d.poll(etag, 0)
	b.must(err)
	equal(t, two.Version, one.Version)
	if !two.ExpiresAt.After(one.ExpiresAt) {
		t.Fatal("not renewed")
	}
	etag = res.Header.Get("ETag")
	keys, err := api.JSON[api.SigningKeys](b.admin(api.RoleAdmin).RotateSigningKey(t.Context()))
	b.must(err)
	equal(t, len(keys.Keys), 2)
	if b.etag(d) == etag {
		t.Fatal("still by the old key")
	}
	r, err := d.report()
	b.must(err)
	equal(t, r.KeysVersion, int64(2))
	b.restart()
	_, _, err = d.poll("", 0)
	b.must(err)
}

func (b *bed) etag(d *dev) string {
	_, res, err := d.poll("", 0)
	b.must(err)
	return res.Header.Get("ETag")
}

func TestOverride(t *testing.T) {
	b := newBed(t)
	d := b.device()
	admin := b.admin(api.RoleAdmin)
	_, err := b.publish(denyRm, "")
	b.must(err)
	_, err = api.JSON[api.Statement](admin.OverrideVersion(t.Context(), 1))
	b.code(err, api.ProblemCodeConflict)
	_, err = api.JSON[api.Statement](admin.OverrideVersion(t.Context(), 9))
	b.code(err, api.ProblemCodeNotFound)
	b.must(api.Done(admin.OverrideVersion(t.Context(), 2)))
	_, res, err := d.poll("", 0)
	b.must(err)
	var o api.Override
	b.must(api.Verify(res.Header.Get("Pinta-Override"), &o, d.keys()))
	equal(t, o.Version, int64(2))
	equal(t, o.Group, DefaultGroup)
	b.later(25 * time.Hour)
	_, res, err = d.poll("", 0)
	b.must(err)
	equal(t, res.Header.Get("Pinta-Override"), "")
}

// TestMoved: whoever is moved gets the proof with the new group's config, by the key in force.
func TestMoved(t *testing.T) {
	b := newBed(t)
	d := b.device()
	operator := b.admin(api.RoleOperator)
	_, res, err := d.poll("", 0)
	b.must(err)
	equal(t, res.Header.Get("Pinta-Group"), "")
	b.must(api.Done(b.admin(api.RoleAdmin).CreateGroup(t.Context(), api.GroupCreate{Name: "eng"})))
	b.must(api.Done(operator.MoveDevice(t.Context(), d.id, api.DeviceMove{Group: "default"})))
	_, res, err = d.poll("", 0)
	b.must(err)
	equal(t, res.Header.Get("Pinta-Group"), "")
	before := b.now()
	b.must(api.Done(operator.MoveDevice(t.Context(), d.id, api.DeviceMove{Group: "eng"})))
	after := b.now()
	b.later(time.Hour)
	config, res, err := d.poll("", 0)
	b.must(err)
	var move api.GroupMove
	b.must(api.Verify(res.Header.Get("Pinta-Group"), &move, d.keys()))
	if move.IssuedAt.Before(before) || move.IssuedAt.After(after) {
		t.Errorf("moved at %v", move.IssuedAt)
	}
	equal(t, move, api.GroupMove{Schema: api.Schema, DeviceID: d.id, Aud: config.Aud, Group: "eng", Version: config.Version, IssuedAt: move.IssuedAt})
	equal(t, config.Group, "eng")

	b.later(-2 * time.Hour) // the Manager's clock was set back: a move is later than the one before all the same
	b.must(api.Done(operator.MoveDevice(t.Context(), d.id, api.DeviceMove{Group: "default"})))
	_, res, err = d.poll("", 0)
	b.must(err)
	var back api.GroupMove
	b.must(api.Verify(res.Header.Get("Pinta-Group"), &back, d.keys()))
	if !back.IssuedAt.After(move.IssuedAt) {
		t.Errorf("moved at %v, and back at %v", move.IssuedAt, back.IssuedAt)
	}
	b.must(api.Done(operator.RetireDevice(t.Context(), d.id)))
	b.code(api.Done(operator.MoveDevice(t.Context(), d.id, api.DeviceMove{Group: "eng"})), api.ProblemCodeConflict)
}

func TestEndingReleasesPolls(t *testing.T) {
	b := newBed(t)
	d := b.device()
	etag := b.etag(d)
	held := make(chan error, 1)
	go func() {
		_, _, err := d.poll(etag, 300)
		held <- err
	}()
	for b.m.hub.held.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	b.m.Release()
	err := <-held
	b.code(err, api.ProblemCodeUnavailable)
	if err.(*api.Problem).RetryAfter < 1 {
		t.Fatal("no Retry-After")
	}
	_, err = d.report()
	b.code(err, api.ProblemCodeUnavailable)
}

func TestRootKeyOffline(t *testing.T) {
	b := newBed(t)
	token, d := b.token(), b.device()
	key := b.m.keys.root.key
	b.m.keys.root.key = nil
	_, err := b.tryEnrol(token, newTestKey())
	b.code(err, api.ProblemCodeUnavailable)
	_, err = api.JSON[api.SigningKeys](b.admin(api.RoleAdmin).RotateSigningKey(t.Context()))
	b.code(err, api.ProblemCodeConflict)
	_, err = d.report()
	b.must(err)
	b.m.keys.root.key = key
	b.enrol(token)
}

func TestAuditChain(t *testing.T) {
	b := newBed(t)
	b.device()
	_, err := b.publish(denyRm, "")
	b.must(err)
	admin := b.admin(api.RoleViewer)
	page, err := api.JSON[api.AuditPage](admin.ListAudit(t.Context(), api.ListAuditParams{}))
	b.must(err)
	equal(t, page.Verified, true)
	var actions []string
	for _, e := range page.Entries {
		actions = append(actions, e.Action)
	}
	for i, want := range []string{"policy.publish", "api-key.create", "token.create", "device.enrol", "policy.publish"} {
		equal(t, actions[i], want)
	}
	two, err := api.JSON[api.AuditPage](admin.ListAudit(t.Context(), api.ListAuditParams{Limit: 2}))
	b.must(err)
	equal(t, len(two.Entries), 2)
	rest, err := api.JSON[api.AuditPage](admin.ListAudit(t.Context(), api.ListAuditParams{After: two.Next}))
	b.must(err)
	equal(t, AuditHolds(append(two.Entries, rest.Entries...)), true)
	equal(t, AuditHolds(append(two.Entries, rest.Entries[1:]...)), false) // one is gone
	b.must(b.m.update(t.Context(), func(tx store.Tx) error {
		e, err := audits.Get(tx, ordinal(2))
		if err != nil {
			return err
		}
		e.Actor = "somebody else"
		return audits.Put(tx, ordinal(2), e)
	}))
	page, err = api.JSON[api.AuditPage](admin.ListAudit(t.Context(), api.ListAuditParams{}))
	b.must(err)
	equal(t, page.Verified, false)
}

// TestConfigPacked: the document is one, whatever coding it travels in.
func TestConfigPacked(t *testing.T) {
	b := newBed(t)
	d := b.device()
	want, plain, err := d.poll("", 0)
	b.must(err)
	for accept, coding := range map[string]string{
		"": "", "identity": "", "gzip": "gzip", "br, GZIP;q=0.5": "gzip", "gzip;q=0": "", "gzip; q=0.000": "", "x-gzip": "", "gzip;q=1.0": "gzip",
	} {
		c := d.client()
		c.HTTP = accepting{c.HTTP, accept}
		res, err := c.GetDeviceConfig(t.Context(), api.GetDeviceConfigParams{})
		b.must(err)
		equal(t, res.Header.Get("Content-Encoding"), coding)
		equal(t, res.Header.Get("ETag"), plain.Header.Get("ETag"))
		equal(t, res.Header.Get("Vary"), "Accept-Encoding")
		var body io.Reader = res.Body
		if coding == "gzip" {
			body, err = gzip.NewReader(body)
			b.must(err)
		}
		doc, err := io.ReadAll(body)
		b.must(err)
		b.must(res.Body.Close())
		var got api.GuardConfig
		b.must(api.Verify(string(doc), &got, d.keys()))
		equal(t, got.Version, want.Version)
	}
}

// accepting declares which codings an answer may have.
type accepting struct {
	doer interface {
		Do(*http.Request) (*http.Response, error)
	}
	codings string
}

func (a accepting) Do(r *http.Request) (*http.Response, error) {
	r.Header["Accept-Encoding"] = []string{a.codings} // set, even to nothing, the transport adds none
	return a.doer.Do(r)
}
