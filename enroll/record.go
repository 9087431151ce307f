package enroll

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
)

// Identity is what this machine is to its Manager.
type Identity struct {
	DeviceID string `json:"deviceId"`
	Group    string `json:"group"`
	// MovedAt is when the Manager moved the device to Group, zero if it was
	// enrolled there; GroupVersion is that of the group's config then.
	MovedAt        time.Time         `json:"movedAt,omitzero"`
	GroupVersion   int64             `json:"groupVersion,omitempty"`
	Manager        string            `json:"manager"` // base URL that calls go to
	Audience       string            `json:"audience"`
	Root           token.Fingerprint `json:"root"`
	Pin            token.Fingerprint `json:"pin,omitzero"`
	SigningKeys    []api.Key         `json:"signingKeys"`
	KeysVersion    int64             `json:"keysVersion"`
	CheckinSeconds int               `json:"checkinSeconds"`
	TokenID        string            `json:"tokenId"`
	Reason         api.EnrolReason   `json:"reason"`
	EnrolledAt     time.Time         `json:"enrolledAt"`
}

// Keys are the keys that sign documents for this device.
func (i Identity) Keys() (api.Keys, error) { return api.ParseKeys(i.SigningKeys) }

// Attempt is how the newest token fares. It outlives restarts, so that a
// machine that starts again and again does not ask again and again.
type Attempt struct {
	TokenID   string    `json:"tokenId"`
	Failures  int       `json:"failures"`
	NotBefore time.Time `json:"notBefore"`
	At        time.Time `json:"at"`
	Code      string    `json:"code"` // a problem code, or "unreachable"
	Message   string    `json:"message"`
}

// Retirement says that the Manager, or an administrator here, ended the
// enrolment.
type Retirement struct {
	DeviceID string    `json:"deviceId"`
	At       time.Time `json:"at"`
	By       string    `json:"by"`
	// Statement is the JWS that said so; empty when it was done on the machine.
	Statement string `json:"statement,omitempty"`
}

// record is the whole state of enrolment: one document, so that each change of
// it is one write. Its methods are the state machine; they know neither clock
// nor disk nor network.
type record struct {
	Identity *Identity `json:"identity,omitempty"`
	Key      []byte    `json:"key,omitempty"` // sealed seed of the device key
	// Candidate is the sealed seed of the next device key: offered, but not yet
	// seen to be accepted.
	Candidate []byte `json:"candidate,omitempty"`
	// Pending is an enrolment under way: its key is kept until the reply has
	// come, so that a lost reply never costs a use of the token.
	Pending *pending `json:"pending,omitempty"`
	Attempt Attempt  `json:"attempt,omitzero"`
	// Used are the tokens that gave an identity, newest last. A source that
	// still holds one of them does not start another enrolment.
	Used []string `json:"used,omitempty"`
	// Reenrol is the Manager's wish that this device enrols anew.
	Reenrol api.EnrolReason `json:"reenrol,omitempty"`
	Retired *Retirement     `json:"retired,omitempty"`
	// Before says that there was a state file which was lost.
	Before bool `json:"before,omitempty"`
}

type pending struct {
	TokenID string            `json:"tokenId"`
	Root    token.Fingerprint `json:"root"`
	Key     []byte            `json:"key"` // sealed seed
	Reason  api.EnrolReason   `json:"reason"`
	// Machine is the hint of the machine that made the key. An image taken of a
	// machine that never got its reply must not hand one key to all its copies.
	Machine string `json:"machine"`
}

const maxUsed = 64

// who asks for an enrolment.
type asker int

const (
	service asker = iota // the service, for whatever a source holds
	person               // `enroll`
	replace              // `enroll --replace`
)

// want is what to do with a token.
type want struct {
	enrol  bool
	reason api.EnrolReason
	// before is the earliest time for it; zero is at once.
	before time.Time
}

// next says what a delivered token is good for. The only error is that the
// machine belongs to another Manager and nobody said to replace that.
func (r *record) next(t token.Token, by asker, now time.Time) (want, error) {
	w := want{enrol: true, reason: r.reason(by)}
	switch id := r.Identity; {
	case id == nil:
		// A retired device comes back by a new token, or by a person.
		if by == service && r.Retired != nil && slices.Contains(r.Used, t.ID) {
			return want{}, nil
		}
	case r.Reenrol != "" && id.Root == t.Root:
		// Asked for by the Manager itself: the token that it was enrolled with
		// will do, if it has uses left.
	case id.TokenID == t.ID: // a script may run any number of times
		return want{}, nil
	case by == replace:
	case by == service && slices.Contains(r.Used, t.ID):
		return want{}, nil
	case by == person && id.Root != t.Root:
		return want{}, fail(CodeElsewhere, "this machine is enrolled with %s as %s: use --replace to enrol it with %s instead", id.Manager, id.DeviceID, t.Manager)
	}
	// An attempt in the future tells of a clock that was set back since: its
	// pause would last for years.
	if by == service && r.Attempt.TokenID == t.ID && !now.Before(r.Attempt.At) {
		w.before = r.Attempt.NotBefore
	}
	return w, nil
}

func (r *record) reason(by asker) api.EnrolReason {
	switch {
	case r.Reenrol != "":
		return r.Reenrol
	case r.Identity == nil && (r.Before || r.Retired != nil):
		return api.EnrolReasonReinstall
	case r.Identity == nil:
		return api.EnrolReasonFirst
	case by == service:
		return api.EnrolReasonTokenChanged
	}
	return api.EnrolReasonAdmin
}

// begin makes sure that there is a pending key for this token and returns it.
// fresh makes a sealed one.
func (r *record) begin(t token.Token, reason api.EnrolReason, machine string, fresh func() ([]byte, error)) (*pending, error) {
	p := r.Pending
	if p != nil && p.TokenID == t.ID && p.Root == t.Root && p.Machine == machine {
		return p, nil
	}
	key, err := fresh()
	if err != nil {
		return nil, err
	}
	r.Pending = &pending{TokenID: t.ID, Root: t.Root, Key: key, Reason: reason, Machine: machine}
	return r.Pending, nil
}

// failed notes an attempt that gave no identity. Nothing else changes: no
// refusal ever takes an identity away.
func (r *record) failed(t token.Token, code, message string, now time.Time, delay func(failures int) time.Duration) {
	if r.Attempt.TokenID != t.ID {
		r.Attempt = Attempt{TokenID: t.ID}
	}
	r.Attempt.Failures++
	r.Attempt.At, r.Attempt.Code, r.Attempt.Message = now, code, message
	r.Attempt.NotBefore = now.Add(delay(r.Attempt.Failures))
}

// accepted puts the new identity in place of whatever was there, in one step.
func (r *record) accepted(p *pending, id Identity) error {
	if r.Pending == nil || string(r.Pending.Key) != string(p.Key) {
		return fail(CodeLocal, "another enrolment was started meanwhile: look at `pinta-agent status` and try again")
	}
	*r = record{Identity: &id, Key: p.Key, Used: append(r.Used, id.TokenID)}
	if n := len(r.Used) - maxUsed; n > 0 {
		r.Used = r.Used[n:]
	}
	return nil
}

// ended drops the identity. Used tokens are remembered: the one that enrolled
// this device does not bring it back.
func (r *record) ended(why Retirement) {
	*r = record{Used: r.Used, Retired: &why}
}

// rotate gives the candidate key, made if there is none.
func (r *record) rotate(fresh func() ([]byte, error)) ([]byte, error) {
	if r.Identity == nil {
		return nil, ErrNotEnrolled
	}
	if r.Candidate == nil {
		key, err := fresh()
		if err != nil {
			return nil, err
		}
		r.Candidate = key
	}
	return r.Candidate, nil
}

// proven makes the candidate the device key: the Manager took a call signed
// with it, and so knows the old one no more.
func (r *record) proven(candidate []byte) {
	if r.Candidate != nil && string(r.Candidate) == string(candidate) {
		r.Key, r.Candidate = r.Candidate, nil
	}
}

// rejected drops a candidate that the Manager does not know.
func (r *record) rejected(candidate []byte) {
	if r.Candidate != nil && string(r.Candidate) == string(candidate) {
		r.Candidate = nil
	}
}

// freshKey makes a sealed seed.
func freshKey() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("make a device key: %w", err)
	}
	return seal(key.Seed())
}

func openKey(sealed []byte) (ed25519.PrivateKey, error) {
	seed, err := unseal(sealed)
	if err != nil {
		return nil, err
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fail(CodeLocal, "the stored device key is damaged: enrol again with a new token")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
