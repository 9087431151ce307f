package manager

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// enrolSkew is how far an enrolment's iat may be from the Manager's clock.
const enrolSkew = 5 * time.Minute

// enrolSurface takes machines in.
type enrolSurface struct{ *Manager }

// enrolCaller is a machine whose request is signed by a token's key and by the key that it wants enrolled.
type enrolCaller struct {
	request api.EnrolRequest
	device  ed25519.PublicKey
	from    netip.Addr
	leave   func() // of the gate
}

// authenticate believes a request when both signatures hold. What the token is worth is decided in the transaction that
// uses it.
func (s enrolSurface) authenticate(w http.ResponseWriter, r *http.Request, op api.Operation) (enrolCaller, bool) {
	refuse := func(p *api.Problem) (enrolCaller, bool) {
		p.Write(w)
		return enrolCaller{}, false
	}
	if s.hub.released() {
		return refuse(s.ending())
	}
	if s.gates.enrol.waiting.Load() >= s.gates.enrol.room {
		return refuse(busy(s.gates.enrol.patience))
	}
	body, p := readBody(w, r, op)
	if p != nil {
		return refuse(p)
	}
	leave, p := s.gates.enrol.enter(r.Context())
	if p != nil {
		return refuse(p)
	}
	c, err := s.verify(r, body)
	if err != nil {
		leave()
		s.fail(w, r, err)
		return enrolCaller{}, false
	}
	c.leave = leave
	return c, true
}

func (s enrolSurface) verify(r *http.Request, body []byte) (enrolCaller, error) {
	var c enrolCaller
	signed, err := api.ParseEnrol(body)
	switch {
	case errors.Is(err, api.ErrSignature):
		return c, api.NewProblem(api.ProblemCodeSignature, "")
	case err != nil:
		return c, api.NewProblem(api.ProblemCodeMalformed, err.Error())
	}
	req := signed.Request
	if err := checkEnrol(&req); err != nil {
		return c, api.NewProblem(api.ProblemCodeMalformed, err.Error())
	}
	var token tokenRecord
	err = s.view(r.Context(), func(tx store.Tx) (err error) {
		token, err = tokens.Get(tx, req.TokenID)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return c, api.NewProblem(api.ProblemCodeTokenUnknown, "")
	}
	if err != nil {
		return c, err
	}
	key, err := api.DecodeKey(token.PublicKey)
	if err != nil {
		return c, fmt.Errorf("token %s: %w", token.ID, err)
	}
	if err := signed.Verify(key); err != nil {
		return c, api.NewProblem(api.ProblemCodeSignature, "")
	}
	if !s.urls[req.Aud] {
		return c, api.NewProblem(api.ProblemCodeAudience, "")
	}
	now := s.opt.Now()
	if d := now.Sub(time.Unix(req.Iat, 0)); d > enrolSkew || d < -enrolSkew {
		return c, skew(now)
	}
	return enrolCaller{request: req, device: signed.Device, from: s.proxies.client(r)}, nil
}

// skew says what time it is here.
func skew(now time.Time) *api.Problem {
	p := api.NewProblem(api.ProblemCodeClockSkew, "")
	p.ServerTime = now.UTC()
	return p
}

// checkEnrol bounds what goes into the store.
func checkEnrol(r *api.EnrolRequest) error {
	d := r.Device
	for _, f := range []struct {
		name, value string
		max         int
	}{
		{"tokenId", r.TokenID, 64}, {"nonce", r.Nonce, 128}, {"hostname", d.Hostname, 255}, {"os", d.Os, 64}, {"osVersion", d.OsVersion, 128},
		{"arch", d.Arch, 32}, {"agentVersion", d.AgentVersion, 64}, {"machineHint", d.MachineHint, 255},
	} {
		if len(f.value) > f.max || strings.ContainsFunc(f.value, isControl) {
			return fmt.Errorf("field %s is longer than %d bytes or holds control characters", f.name, f.max)
		}
	}
	if r.Nonce == "" {
		return errors.New("field nonce is empty")
	}
	switch r.Reason {
	case api.EnrolReasonFirst, api.EnrolReasonReinstall, api.EnrolReasonTokenChanged, api.EnrolReasonAdmin, api.EnrolReasonClone:
		return nil
	}
	return errors.New("field reason has a value that isn't known")
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

// Enroll implements POST /enroll.
func (s enrolSurface) Enroll(w http.ResponseWriter, r *http.Request, c enrolCaller) {
	defer c.leave()
	if s.keys.root.key == nil {
		s.opt.Log.Error("enrolment needs the root key", "err", errNoRoot)
		api.NewProblem(api.ProblemCodeUnavailable, errNoRoot.Error()).After(5 * time.Minute).Write(w)
		return
	}
	var d deviceRecord
	err := s.update(r.Context(), func(tx store.Tx) (err error) {
		d, err = s.enrol(tx, c)
		return err
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	keys, _ := s.keys.signing()
	doc, err := api.SignRoot(&api.EnrolReply{
		Schema: api.Schema, DeviceID: d.DeviceID, Group: d.Group, SigningKeys: api.KeySet{Keys: keys.Keys}, KeysVersion: keys.Version,
		Audience: s.audience, CheckinSeconds: int(s.opt.Checkin / time.Second), ServerTime: s.opt.Now().UTC(), Nonce: c.request.Nonce,
	}, s.keys.root.key)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	document(w, http.StatusCreated, doc)
}

// enrol makes the device, or finds it again: the same device key with the same token is the same device and uses nothing
// up, so a lost reply costs nothing. A revoked token is refused even then.
func (s enrolSurface) enrol(tx store.Tx, c enrolCaller) (deviceRecord, error) {
	var none deviceRecord
	req, now := c.request, s.opt.Now().UTC()
	token, err := tokens.Get(tx, req.TokenID)
	if err != nil {
		return none, err
	}
	if token.state(now) == api.TokenStateRevoked {
		return none, api.NewProblem(api.ProblemCodeTokenRevoked, "")
	}
	kid := api.KeyID(c.device)
	if id, err := deviceKeys.Get(tx, kid); err == nil {
		d, err := devices.Get(tx, id)
		switch {
		case err != nil:
			return none, err
		case d.State == api.DeviceStateRetired:
			return none, s.retired(&d)
		case d.TokenID != req.TokenID || d.Key != req.Device.PublicKey:
			return none, api.NewProblem(api.ProblemCodeKeyInUse, "")
		}
		return d, nil
	} else if !errors.Is(err, store.ErrNotFound) {
		return none, err
	}
	if p := admit(&token, c, now); p != nil {
		return none, p
	}
	token.Used++
	if err := tokens.Put(tx, token.ID, token); err != nil {
		return none, err
	}
	d := deviceRecord{Key: req.Device.PublicKey, Device: api.Device{
		DeviceID: s.ids.next(), Group: token.Group, State: api.DeviceStateActive, Hostname: req.Device.Hostname, Os: req.Device.Os,
		OsVersion: req.Device.OsVersion, Arch: req.Device.Arch, AgentVersion: req.Device.AgentVersion, MachineHint: req.Device.MachineHint,
		TokenID: token.ID, Reason: req.Reason, EnrolledAt: now,
	}}
	if err := devices.Put(tx, d.DeviceID, d); err != nil {
		return none, err
	}
	if err := deviceKeys.Put(tx, kid, d.DeviceID); err != nil {
		return none, err
	}
	return d, s.audit(tx, "device:"+d.DeviceID, "device.enrol", d.DeviceID, fmt.Sprintf("token %s, group %s, reason %s", token.ID, d.Group, req.Reason))
}

// admit says why a token doesn't let a new device in.
func admit(t *tokenRecord, c enrolCaller, now time.Time) *api.Problem {
	switch t.state(now) {
	case api.TokenStateExpired:
		return api.NewProblem(api.ProblemCodeTokenExpired, "")
	case api.TokenStateExhausted:
		return api.NewProblem(api.ProblemCodeTokenExhausted, "")
	}
	inside := func(s string) bool {
		p, err := netip.ParsePrefix(s)
		return err == nil && p.Contains(c.from)
	}
	if len(t.Cidrs) > 0 && !slices.ContainsFunc(t.Cidrs, inside) {
		return api.NewProblem(api.ProblemCodeTokenScope, "the address isn't in the token's ranges")
	}
	same := func(s string) bool { return strings.EqualFold(s, strings.TrimSpace(c.request.Device.MachineHint)) }
	if len(t.Serials) > 0 && !slices.ContainsFunc(t.Serials, same) {
		return api.NewProblem(api.ProblemCodeTokenScope, "the serial number isn't in the token's list")
	}
	return nil
}
