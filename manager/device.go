package manager

import (
	"crypto/ed25519"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// keepBoots is how many boots of a device are remembered.
const keepBoots = 8

// deviceSurface serves enrolled devices.
type deviceSurface struct{ *Manager }

// deviceCaller is a device whose JWT was good for this very request, for the first time.
type deviceCaller struct {
	id, group string
	boot      string    // that it calls from
	movedAt   time.Time // to group; zero: it was enrolled there
	reenroll  bool      // it should enrol again: a clone was seen
	orders    bool      // there are actions that it hasn't acknowledged
}

// authenticate: signature, audience, clock, replay, state of the device; then the body, and that the JWT was made for it.
func (s deviceSurface) authenticate(w http.ResponseWriter, r *http.Request, op api.Operation) (deviceCaller, bool) {
	refuse := func(err error) (deviceCaller, bool) {
		s.fail(w, r, err)
		return deviceCaller{}, false
	}
	if s.hub.released() {
		return refuse(s.ending())
	}
	call, c, err := s.identify(r)
	if err != nil {
		return refuse(err)
	}
	body, p := readBody(w, r, op)
	if p != nil {
		return refuse(p)
	}
	if err := call.Match(r, body); err != nil {
		return refuse(api.NewProblem(api.ProblemCodeRequestMismatch, ""))
	}
	s.hub.came(c.id)
	s.seen.mark(c.id, s.opt.Now())
	return c, true
}

// identify finds the device behind a JWT, and does what its call brings about.
func (s deviceSurface) identify(r *http.Request) (*api.Call, deviceCaller, error) {
	call, d, err := s.believe(r)
	if err == nil {
		d, err = s.settle(r, d, call) // outside of the gate: it may wait for the disk
	}
	if err != nil {
		return nil, deviceCaller{}, err
	}
	return call, deviceCaller{id: d.DeviceID, group: d.Group, boot: call.Claims.Boot, movedAt: d.MovedAt, reenroll: d.State == api.DeviceStateQuarantined, orders: d.ordered()}, nil
}

// ordered tells whether any action waits to be acknowledged.
func (d *deviceRecord) ordered() bool {
	return slices.ContainsFunc(d.Orders, func(o orderRecord) bool { return o.State == api.ActionStateStatePending })
}

// believe checks a JWT but for its request.
func (s deviceSurface) believe(r *http.Request) (*api.Call, *deviceRecord, error) {
	leave, p := s.gates.device.enter(r.Context())
	if p != nil {
		return nil, nil, p
	}
	defer leave()
	jwt, ok := bearer(r)
	if !ok {
		return nil, nil, api.NewProblem(api.ProblemCodeUnauthenticated, "a device JWT is needed")
	}
	call, err := api.ParseCall(jwt)
	switch {
	case errors.Is(err, api.ErrSignature):
		return nil, nil, api.NewProblem(api.ProblemCodeSignature, "")
	case err != nil:
		return nil, nil, api.NewProblem(api.ProblemCodeUnauthenticated, err.Error())
	}
	d, key, err := s.lookUp(r, call)
	if err != nil {
		return nil, nil, err
	}
	now := s.opt.Now()
	switch err := call.Verify(key, s.audience, now); {
	case errors.Is(err, api.ErrAudience):
		return nil, nil, api.NewProblem(api.ProblemCodeAudience, "")
	case errors.Is(err, api.ErrClock):
		return nil, nil, skew(now)
	case err != nil:
		return nil, nil, api.NewProblem(api.ProblemCodeSignature, "")
	}
	// What was used up before this process started is not known, so nothing from before is taken: with the server's time
	// the device makes it good.
	if call.Claims.Iat < s.since(now) {
		return nil, nil, skew(now)
	}
	if first, full := s.replay.first(d.DeviceID, call.Claims.Jti); full {
		return nil, nil, busy(10 * time.Second)
	} else if !first {
		return nil, nil, api.NewProblem(api.ProblemCodeReplay, "")
	}
	return call, d, nil
}

// since is the second that this process started in. A clock that is set back after that takes it along, or no device would be
// let in until the clock is there again.
func (m *Manager) since(now time.Time) int64 {
	for {
		since := m.started.Load()
		if now.Unix() >= since || m.started.CompareAndSwap(since, now.Unix()) {
			return min(since, now.Unix())
		}
	}
}

// bearer returns the one credential of a request.
func bearer(r *http.Request) (string, bool) {
	h := r.Header.Values("Authorization")
	if len(h) != 1 {
		return "", false
	}
	scheme, value, ok := strings.Cut(h[0], " ")
	return value, ok && strings.EqualFold(scheme, "Bearer")
}

// lookUp finds the device and which of its keys is meant.
func (s deviceSurface) lookUp(r *http.Request, call *api.Call) (*deviceRecord, ed25519.PublicKey, error) {
	d, err := s.device(r.Context(), call.Claims.Iss)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, nil, err
	}
	if err == nil {
		for _, k := range []string{d.Key, d.Candidate} {
			if pub, err := api.DecodeKey(k); err == nil && api.KeyID(pub) == call.KeyID {
				return d, pub, nil
			}
		}
	}
	return nil, nil, api.NewProblem(api.ProblemCodeDeviceUnknown, "")
}

// settle does what a believed call brings about: the first use of an offered key makes it the key, a new boot is
// remembered, a boot that comes back after a newer one is a clone. It refuses the retired and the quarantined.
func (s deviceSurface) settle(r *http.Request, d *deviceRecord, call *api.Call) (*deviceRecord, error) {
	if d.State == api.DeviceStateRetired {
		return d, s.retired(d)
	}
	boot := call.Claims.Boot
	newest := len(d.Boots) - 1
	if d.offers(call.KeyID) || boot != "" && (newest < 0 || d.Boots[newest].ID != boot) {
		var err error
		if d, err = s.progress(r, d.DeviceID, call); err != nil {
			return d, err
		}
	}
	if d.twin(boot) {
		return d, api.NewProblem(api.ProblemCodeClone, "")
	}
	return d, nil
}

// twin tells whether a boot is the newer one of a clone. The older goes on, asked to enrol again; every newer one waits
// outside.
func (d *deviceRecord) twin(boot string) bool {
	return d.State == api.DeviceStateQuarantined && boot != d.Boots[0].ID
}

// retired answers a retired device with what it needs to believe it. It may have been away while signing keys came and went,
// so the retirement is signed now, by a key of the root key's statement beside it.
func (m *Manager) retired(d *deviceRecord) error {
	jws, err := m.keys.sign(&api.Retirement{Schema: api.Schema, ID: d.Retirement, DeviceID: d.DeviceID, Aud: m.audience, IssuedAt: d.RetiredAt})
	if err != nil {
		return err
	}
	keys, _ := m.keys.signing()
	p := api.NewProblem(api.ProblemCodeDeviceRetired, "")
	p.Statement, p.Keys = jws, keys.Statement
	return p
}

// offers tells whether kid is the key that the device has offered and not yet used.
func (d *deviceRecord) offers(kid string) bool {
	pub, err := api.DecodeKey(d.Candidate)
	return err == nil && api.KeyID(pub) == kid
}

// progress writes what a call changes.
func (s deviceSurface) progress(r *http.Request, id string, call *api.Call) (*deviceRecord, error) {
	var d deviceRecord
	cloned, now := false, s.opt.Now().UTC()
	err := s.update(r.Context(), func(tx store.Tx) (err error) {
		if d, err = devices.Get(tx, id); err != nil {
			return err
		}
		if d.offers(call.KeyID) {
			d.Key, d.Candidate = d.Candidate, ""
			if err := s.audit(tx, "device:"+id, "device.key", id, "key rotated"); err != nil {
				return err
			}
		}
		if cloned = d.booted(call.Claims.Boot, now, s.opt.CloneGrace); cloned {
			if err := s.audit(tx, "manager", "device.clone", id, "two boots use one key"); err != nil {
				return err
			}
		}
		return devices.Put(tx, id, d)
	})
	if err == nil && cloned {
		s.hub.poke(id) // the twin may be waiting there
	}
	return &d, err
}

// booted remembers a boot and tells whether it gives a clone away. A quarantined device keeps the older of the two boots
// first in its list.
func (d *deviceRecord) booted(id string, now time.Time, grace time.Duration) (cloned bool) {
	if id == "" || d.State == api.DeviceStateQuarantined {
		return false
	}
	i := slices.IndexFunc(d.Boots, func(b boot) bool { return b.ID == id })
	switch last := len(d.Boots) - 1; {
	case i < 0:
		d.Boots = append(d.Boots, boot{id, now})
		if n := len(d.Boots) - keepBoots; n > 0 {
			d.Boots = slices.Delete(d.Boots, 0, n)
		}
	case i < last && now.Sub(d.Boots[last].First) > grace: // within the grace it was on its way
		d.State, d.CloneSeen = api.DeviceStateQuarantined, now
		d.Boots = []boot{d.Boots[i], d.Boots[last]}
		return true
	}
	return false
}

// GetDeviceKeys implements GET /device/keys.
func (s deviceSurface) GetDeviceKeys(w http.ResponseWriter, _ *http.Request, _ deviceCaller) {
	keys, _ := s.keys.signing()
	document(w, http.StatusOK, keys.Statement)
}

// RotateDeviceKey implements POST /device/key. An offer is repeated or replaced at will until one is used.
func (s deviceSurface) RotateDeviceKey(w http.ResponseWriter, r *http.Request, c deviceCaller) {
	body, p := text(r)
	if p != nil {
		p.Write(w)
		return
	}
	offered, err := s.offer(body, c)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	err = s.update(r.Context(), func(tx store.Tx) error {
		d, err := devices.Get(tx, c.id)
		if err != nil {
			return err
		}
		kid, key := api.KeyID(offered), api.EncodeKey(offered)
		if d.Candidate == key {
			return nil
		}
		if _, err := deviceKeys.Get(tx, kid); !errors.Is(err, store.ErrNotFound) {
			if err == nil {
				err = api.NewProblem(api.ProblemCodeKeyInUse, "")
			}
			return err
		}
		d.Candidate = key
		if err := deviceKeys.Put(tx, kid, c.id); err != nil {
			return err
		}
		return devices.Put(tx, c.id, d)
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// offer reads a rotation document, which its own key has to have signed.
func (s deviceSurface) offer(doc string, c deviceCaller) (ed25519.PublicKey, error) {
	rot, pub, err := api.VerifyRotation(doc)
	now := s.opt.Now()
	switch {
	case errors.Is(err, api.ErrSignature):
		return nil, api.NewProblem(api.ProblemCodeSignature, "")
	case err != nil:
		return nil, api.NewProblem(api.ProblemCodeMalformed, err.Error())
	case rot.Aud != s.audience:
		return nil, api.NewProblem(api.ProblemCodeAudience, "")
	case rot.DeviceID != c.id:
		return nil, api.NewProblem(api.ProblemCodeMalformed, "the rotation is another device's")
	}
	if d := now.Sub(time.Unix(rot.Iat, 0)); d > enrolSkew || d < -enrolSkew {
		return nil, skew(now)
	}
	return pub, nil
}

// Appeal implements POST /device/appeals.
func (s deviceSurface) Appeal(w http.ResponseWriter, r *http.Request, c deviceCaller) {
	in, p := decode[api.AppealRequest](r)
	if p == nil && (in.EvaluationID == "" || len(in.EvaluationID) > 64 || len(in.RuleID) > 128 || len(in.User) > 256 || strings.TrimSpace(in.Reason) == "" || len(in.Reason) > 2000) {
		p = api.NewProblem(api.ProblemCodeMalformed, "evaluationId and reason are needed, each within its length")
	}
	if p != nil {
		p.Write(w)
		return
	}
	a := api.Appeal{ID: s.ids.next(), DeviceID: c.id, Group: c.group, EvaluationID: in.EvaluationID, RuleID: in.RuleID, User: in.User, Reason: in.Reason,
		At: s.opt.Now().UTC(), State: api.AppealStateOpen}
	err := s.update(r.Context(), func(tx store.Tx) error {
		all, open, mine, closed := 0, 0, 0, ""
		for old, err := range appeals.Scan(tx, store.Range{Backwards: true}) {
			if err != nil {
				return err
			}
			if old.DeviceID == c.id && old.EvaluationID == in.EvaluationID {
				a = old // said before
				return nil
			}
			all++
			switch {
			case old.State != api.AppealStateOpen:
				closed = old.ID // the oldest at last
			case old.DeviceID == c.id:
				mine++
				open++
			default:
				open++
			}
		}
		if open >= maxAppeals || mine >= maxAppealsOfOne {
			return busy(time.Hour)
		}
		if all >= maxAppeals {
			if err := appeals.Delete(tx, closed); err != nil {
				return err
			}
		}
		return appeals.Put(tx, a.ID, a)
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusCreated, a)
}

// maxAppeals bounds the queue: closed ones make room, the oldest first, and no device fills it alone.
const (
	maxAppeals      = 10000
	maxAppealsOfOne = 200
)
