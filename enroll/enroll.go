package enroll

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/internal/version"
)

const (
	// Wait is how long `enroll` tries (manager.md 2).
	Wait = 15 * time.Second
	// attemptTime bounds one exchange.
	attemptTime = 15 * time.Second
)

var (
	personBackoff  = Backoff{Base: 500 * time.Millisecond, Max: 5 * time.Second}
	serviceBackoff = Backoff{Base: 2 * time.Second, Max: 15 * time.Minute}
)

// Options say how to enrol.
type Options struct {
	State *State
	// Routes deliver the token, anew for each attempt.
	Routes Routes
	// ManagerURL overrides where the token says that the Manager is; the token's
	// root fingerprint holds all the same.
	ManagerURL string
	// Wait is how long to try; zero is Wait, the constant.
	Wait time.Duration
	// Replace gives up an enrolment with another Manager.
	Replace bool
	Network settings.Network
	// Via, if set, takes the place of Network (simulations, tests).
	Via http.RoundTripper
	Log *slog.Logger
}

// Result is what `enroll` prints.
type Result struct {
	DeviceID string `json:"deviceId"`
	Group    string `json:"group"`
	Manager  string `json:"manager"`
}

// Enroll enrols this machine, or finds that it is enrolled already by this very
// token. It tries until Wait is over and returns an *Error; whatever happens,
// an identity that is there stays until a new one is in its place.
func Enroll(ctx context.Context, o Options) (Result, error) {
	if o.Wait <= 0 {
		o.Wait = Wait
	}
	by := person
	if o.Replace {
		by = replace
	}
	o.Routes = o.Routes.prepared()
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	var before error
	for n := 1; ; n++ {
		d, err := o.Routes.Read()
		if err != nil {
			return Result{}, err
		}
		id, err := o.attempt(ctx, d.Token, by)
		if err == nil {
			d.scrub(o.Log)
			return Result{id.DeviceID, id.Group, id.Manager}, nil
		}
		if before != nil && errors.Is(err, context.DeadlineExceeded) {
			return Result{}, before // says more than that time ran out
		}
		before = err
		delay, again := retry(err, n)
		if !again {
			return Result{}, err
		}
		o.Log.Info("enrolment not yet done", "manager", d.Token.Manager, "error", err, "again", delay.Round(time.Millisecond))
		deadline, _ := ctx.Deadline()
		if time.Until(deadline) <= delay {
			return Result{}, err
		}
		select {
		case <-ctx.Done():
			return Result{}, err
		case <-time.After(delay):
		}
	}
}

// retry says whether trying again may help within a command's patience, and
// when.
func retry(err error, n int) (time.Duration, bool) {
	if Code(err) != CodeUnreachable {
		return 0, false
	}
	var f *final
	if errors.As(err, &f) {
		return 0, false
	}
	return personBackoff.Delay(n, askedPause(err)), true
}

// final marks what trying again can't mend, such as a foreign root key.
type final struct{ error }

func (f *final) Unwrap() error { return f.error }

func askedPause(err error) time.Duration {
	var p *api.Problem
	if errors.As(err, &p) {
		return time.Duration(p.RetryAfter) * time.Second
	}
	return 0
}

// attempt is one try with one token: decide, make the key durable, ask, commit.
// It holds a lock, so that a command and the service don't make two keys.
func (o Options) attempt(ctx context.Context, t token.Token, by asker) (Identity, error) {
	s := o.State
	patience := attemptTime
	if end, ok := ctx.Deadline(); ok {
		patience = time.Until(end)
	}
	unlock, err := safefile.Lock(filepath.Join(s.store.dir, "enrol.lock"), patience)
	if err != nil {
		return Identity{}, fail(CodeLocal, "another enrolment runs on this machine, or the state folder can't be used: %w", err)
	}
	defer unlock()

	r, err := s.load()
	if err != nil && !errors.Is(err, ErrDamaged) {
		return Identity{}, fail(CodeLocal, "%w", err)
	}
	w, err := r.next(t, by, s.Clock.Now())
	if err != nil {
		return Identity{}, err
	}
	if !w.enrol {
		if r.Identity == nil {
			return Identity{}, ErrNotEnrolled
		}
		return *r.Identity, nil
	}
	base := t.Manager
	if o.ManagerURL != "" {
		if base, err = token.CheckURL(o.ManagerURL); err != nil {
			return Identity{}, fail(CodeUsage, "%w", err)
		}
	}
	about := describe()
	var p *pending
	err = s.change(func(r *record) (err error) {
		before := r.Pending
		if p, err = r.begin(t, r.reason(by), about.MachineHint, freshKey); err == nil && p == before {
			return errUnchanged
		}
		return err
	})
	if err != nil {
		return Identity{}, fail(CodeLocal, "make the device key durable: %w", err)
	}
	id, err := o.ask(ctx, base, t, p, about)
	if err != nil {
		o.note(t, err)
		return Identity{}, err
	}
	if err := s.change(func(r *record) error { return r.accepted(p, id) }); err != nil {
		// The key is kept as pending, so the next attempt gets the same identity.
		return Identity{}, fail(CodeLocal, "keep the new identity: %w", err)
	}
	o.Log.Info("enrolled", "device", id.DeviceID, "group", id.Group, "manager", id.Manager, "reason", id.Reason)
	return id, nil
}

// note keeps how the attempt fared; that it can't is no reason to fail otherwise.
func (o Options) note(t token.Token, cause error) {
	code := string(api.CodeOf(cause))
	if code == "" {
		code = "unreachable"
	}
	// A refusal is rarely mended within seconds.
	extra := 0
	if Code(cause) == CodeRefused {
		extra = 5
	}
	err := o.State.change(func(r *record) error {
		r.failed(t, code, cause.Error(), o.State.Clock.Now(), func(n int) time.Duration {
			return serviceBackoff.Delay(n+extra, askedPause(cause))
		})
		return nil
	})
	if err != nil {
		o.Log.Warn("the state of the enrolment can't be kept", "error", err)
	}
}

// ask is the exchange: POST /enroll, and the check of the reply against the
// token's root fingerprint.
func (o Options) ask(ctx context.Context, base string, t token.Token, p *pending, about api.EnrolDevice) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	key, err := openKey(p.Key)
	if err != nil {
		return Identity{}, fail(CodeLocal, "%w", err)
	}
	client := &http.Client{Transport: o.Via, CheckRedirect: noRedirect}
	if o.Via == nil {
		network := o.Network
		network.Pin = settings.Pin{Server: base, SPKI: t.Pin}
		if client, err = network.HTTPClient(); err != nil {
			return Identity{}, fail(CodeLocal, "%w", err)
		}
	}
	defer client.CloseIdleConnections()
	manager := &api.Client{BaseURL: base, HTTP: client, UserAgent: userAgent}
	about.PublicKey = api.EncodeKey(key.Public().(ed25519.PublicKey))
	request := api.EnrolRequest{Schema: api.Schema, TokenID: t.ID, Device: about, Reason: p.Reason, Aud: t.Manager}

	var reply []byte
	for corrected := false; ; corrected = true {
		request.Nonce, request.Iat = rand.Text(), o.State.managerTime().Unix()
		body, err := api.SignEnrol(&request, t.Key(), key)
		if err != nil {
			return Identity{}, fail(CodeLocal, "%w", err)
		}
		reply, err = api.Raw(manager.Enroll(ctx, body))
		if err == nil {
			break
		}
		if problem := new(api.Problem); !corrected && errors.As(err, &problem) && o.State.correctClock(problem) {
			continue
		}
		return Identity{}, refusal(base, err)
	}

	var doc api.EnrolReply
	if err := api.VerifyRoot(string(reply), &doc, t.Root); err != nil {
		return Identity{}, foreign(base, err)
	}
	if doc.Nonce != request.Nonce {
		return Identity{}, foreign(base, errors.New("it answers another request"))
	}
	if _, err := ulid.ParseStrict(doc.DeviceID); err != nil || doc.Audience == "" || doc.Group == "" {
		return Identity{}, foreign(base, api.ErrMalformed)
	}
	if keys, err := api.ParseKeys(doc.SigningKeys.Keys); err != nil || len(keys) == 0 {
		return Identity{}, foreign(base, errors.New("it names no signing key"))
	}
	return Identity{
		DeviceID: doc.DeviceID, Group: doc.Group, Manager: base, Audience: doc.Audience, Root: t.Root, Pin: t.Pin,
		SigningKeys: doc.SigningKeys.Keys, KeysVersion: doc.KeysVersion, CheckinSeconds: doc.CheckinSeconds,
		TokenID: t.ID, Reason: p.Reason, EnrolledAt: o.State.Clock.Now(),
	}, nil
}

// foreign is an answer that the Manager of the token did not give.
func foreign(base string, err error) error {
	return &Error{CodeUnreachable, &final{fmt.Errorf("who answers at %s is not the Manager that made this token: %w; "+
		"if the Manager was installed anew, make a new token", base, err)}}
}

// refusal gives a failed exchange its exit code and its remedy.
func refusal(base string, err error) error {
	var p *api.Problem
	if !errors.As(err, &p) {
		return fail(CodeUnreachable, "the Manager at %s can't be reached: %w; check address, proxy and certificate", base, err)
	}
	remedy := map[api.ProblemCode]string{
		api.ProblemCodeTokenUnknown:   "make a new token with `pinta-manager token create`",
		api.ProblemCodeTokenExpired:   "make a new token with `pinta-manager token create`",
		api.ProblemCodeTokenRevoked:   "make a new token with `pinta-manager token create`",
		api.ProblemCodeTokenExhausted: "make a new token with `pinta-manager token create`, --uses for more than one machine",
		api.ProblemCodeTokenScope:     "use a token that is made for this machine's address and serial number",
		api.ProblemCodeDeviceRetired:  "its device was retired before the reply came: make a new token with `pinta-manager token create`",
		api.ProblemCodeKeyInUse:       "make a new token with `pinta-manager token create`",
		api.ProblemCodeSignature:      "copy the token again, or make a new one",
		api.ProblemCodeAudience:       "the token belongs to another Manager: leave out --manager, or make a new one",
	}[p.Code]
	switch {
	case remedy != "":
		return fail(CodeRefused, "the Manager at %s refuses the token: %w; %s", base, err, remedy)
	case p.Status == http.StatusTooManyRequests || p.Status >= 500 || p.Status == http.StatusRequestTimeout || p.Code == api.ProblemCodeClockSkew:
		return fail(CodeUnreachable, "the Manager at %s can't take the enrolment now: %w; it is worth trying again", base, err)
	case p.Code == "":
		return &Error{CodeUnreachable, &final{fmt.Errorf("no Manager answers at %s: %w; check address and proxy", base, err)}}
	}
	return fail(CodeRefused, "the Manager at %s refuses the enrolment: %w; check that agent and Manager fit together", base, err)
}

// describe says what machine this is, for the people who look at it in the
// Manager. None of it is identity.
func describe() api.EnrolDevice {
	d := machine()
	d.AgentVersion = version.Version
	return d
}
