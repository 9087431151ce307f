package manager

import (
	"os"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

func TestEnrolReply(t *testing.T) {
	b := newBed(t)
	d := b.device()
	r := d.reply
	equal(t, r.Group, DefaultGroup)
	equal(t, r.Audience, b.m.opt.URL)
	equal(t, r.CheckinSeconds, 60)
	equal(t, len(r.DeviceID), 26)
	if _, err := api.ParseKeys(r.SigningKeys.Keys); err != nil {
		t.Fatal(err)
	}
	got := b.show(d.id)
	equal(t, got.Hostname, "host")
	equal(t, got.Reason, api.EnrolReasonFirst)
	equal(t, got.State, api.DeviceStateActive)
}

// A lost reply: the same key with the same token is the same device, uses nothing up, and works for an exhausted or expired
// token, but not for a revoked one.
func TestEnrolAgain(t *testing.T) {
	b := newBed(t)
	token, key := b.token(), newTestKey()
	first, err := b.tryEnrol(token, key)
	b.must(err)
	again, err := b.tryEnrol(token, key)
	b.must(err)
	equal(t, again.id, first.id)
	_, err = b.tryEnrol(token, newTestKey())
	b.code(err, api.ProblemCodeTokenExhausted)
	b.later(2 * time.Hour)
	again, err = b.tryEnrol(token, key)
	b.must(err)
	equal(t, again.id, first.id)
	_, err = b.tryEnrol(token, newTestKey())
	b.code(err, api.ProblemCodeTokenExpired)
	b.must(api.Done(b.admin(api.RoleOperator).RevokeToken(t.Context(), token.id)))
	_, err = b.tryEnrol(token, key)
	b.code(err, api.ProblemCodeTokenRevoked)
	_, err = b.tryEnrol(token, newTestKey())
	b.code(err, api.ProblemCodeTokenRevoked)
}

func TestEnrolKeyOfAnotherToken(t *testing.T) {
	b := newBed(t)
	key := newTestKey()
	_, err := b.tryEnrol(b.token(), key)
	b.must(err)
	_, err = b.tryEnrol(b.token(), key)
	b.code(err, api.ProblemCodeKeyInUse)
}

func TestTokenKinds(t *testing.T) {
	b := newBed(t)
	b.must(api.Done(b.admin(api.RoleOperator).CreateGroup(t.Context(), api.GroupCreate{Name: "eng"})))
	three := b.token(func(c *api.TokenCreate) { c.Uses = 3; c.Group = "eng" })
	for range 3 {
		equal(t, b.enrol(three).reply.Group, "eng")
	}
	_, err := b.tryEnrol(three, newTestKey())
	b.code(err, api.ProblemCodeTokenExhausted)

	reusable := b.token(func(c *api.TokenCreate) { c.Uses, c.TTLSeconds = 0, 0 })
	b.later(100 * 24 * time.Hour)
	for range 3 {
		b.enrol(reusable)
	}

	_, err = b.tryEnrol(b.token(func(c *api.TokenCreate) { c.Cidrs = []string{"10.0.0.0/8", "192.168.1.7/24"} }), newTestKey())
	b.code(err, api.ProblemCodeTokenScope)
	b.enrol(b.token(func(c *api.TokenCreate) { c.Cidrs = []string{"10.0.0.0/8", "127.0.0.0/8", "::1/128"} }))

	_, err = b.tryEnrol(b.token(func(c *api.TokenCreate) { c.Serials = []string{"OTHER"} }), newTestKey())
	b.code(err, api.ProblemCodeTokenScope)
	b.enrol(b.token(func(c *api.TokenCreate) { c.Serials = []string{"other", " serial-1 "} }))

	list, err := api.JSON[[]api.Token](b.admin(api.RoleViewer).ListTokens(t.Context()))
	b.must(err)
	states := map[api.TokenState]int{}
	for _, k := range list {
		states[k.State]++
	}
	equal(t, states[api.TokenStateExhausted], 2)
	equal(t, states[api.TokenStateActive], 3)
}

func TestEnrolClock(t *testing.T) {
	b := newBed(t)
	token := b.token()
	for _, d := range []time.Duration{-6 * time.Minute, 6 * time.Minute} {
		_, err := b.tryEnrol(token, newTestKey(), func(r *api.EnrolRequest) { r.Iat = b.now().Add(d).Unix() })
		b.code(err, api.ProblemCodeClockSkew)
		p := err.(*api.Problem)
		if off := p.ServerTime.Sub(b.now()); off > time.Minute || off < -time.Minute {
			t.Fatalf("server time %s", p.ServerTime)
		}
	}
	_, err := b.tryEnrol(token, newTestKey(), func(r *api.EnrolRequest) { r.Iat = b.now().Add(4 * time.Minute).Unix() })
	b.must(err)
}

// The URL of a Manager may change; tokens and devices made before go on working.
func TestEnrolAfterMove(t *testing.T) {
	b := newBed(t)
	before := b.m.opt.URL
	token, d := b.token(func(c *api.TokenCreate) { c.Uses = 2 }), b.device()
	b.restart()
	if b.m.opt.URL == before {
		t.Skip("the same port again")
	}
	e, err := b.tryEnrol(token, newTestKey(), func(r *api.EnrolRequest) { r.Aud = before })
	b.must(err)
	equal(t, e.audience, d.audience)
	_, err = e.report()
	b.must(err)
	_, err = d.report()
	b.must(err)
}

// However the URL is spelled, it is the audience as tokens carry it; one that no token could carry is refused before it
// becomes the audience for good.
func TestURL(t *testing.T) {
	for _, tt := range []struct{ url, audience string }{
		{"https://Manager.example.com/", "https://manager.example.com"},
		{"https://manager.example.com:8443/pinta/", "https://manager.example.com:8443/pinta"},
		{"ftp://manager.example.com", ""},
		{"http://manager.example.com", ""},
		{"manager.example.com", ""},
	} {
		dir := t.TempDir()
		m, err := Open(Options{Dir: dir, URL: tt.url, Policies: Guard{}})
		if tt.audience == "" {
			if err == nil {
				t.Errorf("%s is taken", tt.url)
				m.Close()
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%s: %v is founded", tt.url, left)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.audience != tt.audience || !m.urls[tt.audience] {
			t.Errorf("%s: audience %s, %v", tt.url, m.audience, m.urls)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
