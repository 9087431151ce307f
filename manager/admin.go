package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// adminSurface serves administrators and their programs.
type adminSurface struct{ *Manager }

// adminCaller is an API key whose role allows the operation.
type adminCaller struct {
	key   api.APIKey
	scope scope
}

// actor is how the audit names the caller.
func (c adminCaller) actor() string { return "api-key:" + c.key.ID }

// lastUsedStep is how exactly the last use of a key is known: not each request is worth a write.
const lastUsedStep = time.Hour

func (s adminSurface) authenticate(w http.ResponseWriter, r *http.Request, op api.Operation) (adminCaller, bool) {
	c, err := s.identify(r, op)
	if err == nil {
		if _, p := readBody(w, r, op); p != nil {
			err = p
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return adminCaller{}, false
	}
	return c, true
}

func (s adminSurface) identify(r *http.Request, op api.Operation) (adminCaller, error) {
	var c adminCaller
	leave, p := s.gates.admin.enter(r.Context())
	if p != nil {
		return c, p
	}
	defer leave()
	secret, ok := bearer(r)
	if !ok {
		return c, api.NewProblem(api.ProblemCodeUnauthenticated, "an API key is needed")
	}
	k, err := s.findAPIKey(r.Context(), secret)
	if err != nil {
		return c, err
	}
	if op.Role == "" || !allows(k.Role, op.Role) {
		return c, api.NewProblem(api.ProblemCodeForbidden, "role "+string(op.Role)+" is needed")
	}
	if len(k.Groups) > 0 && op.Scope == "deny" {
		return c, api.NewProblem(api.ProblemCodeForbidden, "the key is bound to groups")
	}
	if now := s.opt.Now().UTC(); now.Sub(k.LastUsed) >= lastUsedStep {
		err := s.update(r.Context(), func(tx store.Tx) error {
			k, err := apiKeys.Get(tx, k.ID)
			if err != nil {
				return err
			}
			k.LastUsed = now
			return apiKeys.Put(tx, k.ID, k)
		})
		if err != nil {
			return c, err
		}
	}
	c.key = k.APIKey
	if len(k.Groups) > 0 {
		c.scope = k.Groups
	}
	return c, nil
}

// list reads a table through what fn makes of its records.
func list[R, T any](s adminSurface, ctx context.Context, t store.Table[R], r store.Range, fn func(*R) (T, bool)) ([]T, error) {
	out := []T{}
	err := s.view(ctx, func(tx store.Tx) error {
		for rec, err := range t.Scan(tx, r) {
			if err != nil {
				return err
			}
			if v, ok := fn(&rec); ok {
				out = append(out, v)
			}
		}
		return nil
	})
	return out, err
}

// answer replies with v, or with what went wrong.
func (s adminSurface) answer(w http.ResponseWriter, r *http.Request, status int, v any, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, status, v)
}

// change runs an update that is made on something and tells the audit.
func (s adminSurface) change(r *http.Request, c adminCaller, action, subject, detail string, fn func(store.Tx) error) error {
	return s.update(r.Context(), func(tx store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return s.audit(tx, c.actor(), action, subject, detail)
	})
}

// Tokens.

func (s adminSurface) ListTokens(w http.ResponseWriter, r *http.Request, c adminCaller) {
	now := s.opt.Now()
	out, err := list(s, r.Context(), tokens, store.Range{Backwards: true}, func(t *tokenRecord) (api.Token, bool) {
		t.State = t.state(now)
		return t.Token, c.scope.sees(t.Group)
	})
	s.answer(w, r, http.StatusOK, out, err)
}

func (s adminSurface) CreateToken(w http.ResponseWriter, r *http.Request, c adminCaller) {
	in, p := decode[api.TokenCreate](r)
	if p == nil {
		p = checkToken(&in)
	}
	if p != nil {
		p.Write(w)
		return
	}
	if !c.scope.sees(in.Group) {
		s.fail(w, r, api.NewProblem(api.ProblemCodeNotFound, "no such group"))
		return
	}
	now := s.opt.Now().UTC()
	t := tokenRecord{PublicKey: in.PublicKey, Token: api.Token{ID: in.ID, Group: in.Group, Uses: in.Uses, CreatedAt: now, CreatedBy: c.key.Name,
		Cidrs: in.Cidrs, Serials: in.Serials, State: api.TokenStateActive}}
	if in.TTLSeconds > 0 {
		t.ExpiresAt = now.Add(time.Duration(in.TTLSeconds) * time.Second)
	}
	uses := "reusable"
	if t.Uses > 0 {
		uses = fmt.Sprintf("%d uses", t.Uses)
	}
	err := s.change(r, c, "token.create", t.ID, "group "+t.Group+", "+uses, func(tx store.Tx) error {
		if err := groupIsThere(tx, t.Group); err != nil {
			return err
		}
		if _, err := tokens.Get(tx, t.ID); !errors.Is(err, store.ErrNotFound) {
			if err == nil {
				err = api.NewProblem(api.ProblemCodeConflict, "a token has this id")
			}
			return err
		}
		return tokens.Put(tx, t.ID, t)
	})
	s.answer(w, r, http.StatusCreated, api.TokenCreated{ID: t.ID, ExpiresAt: t.ExpiresAt, URL: s.opt.URL, Root: s.keys.root.id, TLSPin: base64url(s.opt.Pin)}, err)
}

const maxTTL = 10 * 365 * 24 * 3600 // seconds

func checkToken(in *api.TokenCreate) *api.Problem {
	malformed := func(what string) *api.Problem { return api.NewProblem(api.ProblemCodeMalformed, what) }
	set(&in.Group, DefaultGroup)
	if _, err := ulid.ParseStrict(in.ID); err != nil {
		return malformed("field id has to be a ULID")
	}
	if _, err := api.DecodeKey(in.PublicKey); err != nil {
		return malformed("field publicKey has to be an Ed25519 public key in base64url")
	}
	if in.Uses < 0 || in.TTLSeconds < 0 || in.TTLSeconds > maxTTL {
		return malformed("fields uses and ttlSeconds can't be negative, and no token lives for more than 10 years")
	}
	if len(in.Cidrs) > 256 || len(in.Serials) > 10000 {
		return malformed("at most 256 CIDRs and 10000 serials")
	}
	for i, c := range in.Cidrs {
		p, err := netip.ParsePrefix(c)
		if err != nil {
			return malformed("field cidrs has an entry that is no CIDR such as 10.0.0.0/8")
		}
		in.Cidrs[i] = p.Masked().String()
	}
	for i, n := range in.Serials {
		if in.Serials[i] = strings.TrimSpace(n); in.Serials[i] == "" || len(n) > 255 {
			return malformed("field serials has an empty entry or one over 255 bytes")
		}
	}
	return nil
}

func groupIsThere(tx store.Tx, name string) error {
	_, err := groups.Get(tx, name)
	if errors.Is(err, store.ErrNotFound) {
		return api.NewProblem(api.ProblemCodeNotFound, "no such group: create it first")
	}
	return err
}

func (s adminSurface) RevokeToken(w http.ResponseWriter, r *http.Request, c adminCaller, id api.ID) {
	var t tokenRecord
	err := s.change(r, c, "token.revoke", id, "", func(tx store.Tx) (err error) {
		if t, err = tokens.Get(tx, id); err != nil {
			return err
		}
		if !c.scope.sees(t.Group) {
			return store.ErrNotFound
		}
		set(&t.RevokedAt, s.opt.Now().UTC())
		return tokens.Put(tx, id, t)
	})
	t.State = t.state(s.opt.Now())
	s.answer(w, r, http.StatusOK, t.Token, err)
}

// Groups.

var groupName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)

func (s adminSurface) ListGroups(w http.ResponseWriter, r *http.Request, c adminCaller) {
	out := []api.Group{}
	err := s.view(r.Context(), func(tx store.Tx) error {
		count := map[string]int{}
		for d, err := range devices.Scan(tx, store.Range{}) {
			if err != nil {
				return err
			}
			if d.State != api.DeviceStateRetired {
				count[d.Group]++
			}
		}
		for g, err := range groups.Scan(tx, store.Range{}) {
			if err != nil {
				return err
			}
			if !c.scope.sees(g.Name) {
				continue
			}
			conf, err := orZero(configs.Get(tx, g.Name))
			if err != nil {
				return err
			}
			g.Version, g.Devices = conf.Version, count[g.Name]
			out = append(out, g)
		}
		return nil
	})
	s.answer(w, r, http.StatusOK, out, err)
}

func (s adminSurface) CreateGroup(w http.ResponseWriter, r *http.Request, c adminCaller) {
	in, p := decode[api.GroupCreate](r)
	if p == nil && !groupName.MatchString(in.Name) {
		p = api.NewProblem(api.ProblemCodeMalformed, "a group's name is 1 to 64 of a-z, 0-9, _, . and -, the first a letter or digit")
	}
	if p == nil && !c.scope.sees(in.Name) {
		p = api.NewProblem(api.ProblemCodeForbidden, "the key is bound to other groups")
	}
	if p != nil {
		p.Write(w)
		return
	}
	g := api.Group{Name: in.Name, CreatedAt: s.opt.Now().UTC()}
	err := s.change(r, c, "group.create", g.Name, "", func(tx store.Tx) error {
		if _, err := groups.Get(tx, g.Name); !errors.Is(err, store.ErrNotFound) {
			if err == nil {
				err = api.NewProblem(api.ProblemCodeConflict, "the group is there already")
			}
			return err
		}
		if err := groups.Put(tx, g.Name, g); err != nil {
			return err
		}
		if err := s.putConfigs(tx); err != nil {
			return err
		}
		conf, err := configs.Get(tx, g.Name)
		g.Version = conf.Version
		return err
	})
	if err == nil {
		err = s.loadConfigs(r.Context())
	}
	s.answer(w, r, http.StatusCreated, g, err)
}

// API keys.

func (s adminSurface) ListAPIKeys(w http.ResponseWriter, r *http.Request, _ adminCaller) {
	out, err := list(s, r.Context(), apiKeys, store.Range{}, func(k *apiKeyRecord) (api.APIKey, bool) { return k.APIKey, true })
	s.answer(w, r, http.StatusOK, out, err)
}

func (s adminSurface) CreateAPIKey(w http.ResponseWriter, r *http.Request, c adminCaller) {
	in, p := decode[api.APIKeyCreate](r)
	switch {
	case p != nil:
	case strings.TrimSpace(in.Name) == "" || len(in.Name) > 128 || in.Name == adminName || strings.ContainsFunc(in.Name, isControl):
		p = api.NewProblem(api.ProblemCodeMalformed, "field name is needed, 128 bytes at most")
	case !validRole(in.Role):
		p = api.NewProblem(api.ProblemCodeMalformed, "field role has to be viewer, operator, author or admin")
	case in.TTLSeconds < 0 || in.TTLSeconds > maxTTL || len(in.Groups) > 100:
		p = api.NewProblem(api.ProblemCodeMalformed, "fields ttlSeconds or groups are out of their bounds")
	}
	if p != nil {
		p.Write(w)
		return
	}
	k := api.APIKey{Name: in.Name, Role: in.Role, Groups: in.Groups}
	if in.TTLSeconds > 0 {
		k.ExpiresAt = s.opt.Now().UTC().Add(time.Duration(in.TTLSeconds) * time.Second)
	}
	secret, rec := s.newAPIKey(k)
	err := s.change(r, c, "api-key.create", rec.ID, "role "+string(k.Role), func(tx store.Tx) error {
		for _, g := range k.Groups {
			if err := groupIsThere(tx, g); err != nil {
				return err
			}
		}
		return apiKeys.Put(tx, rec.ID, rec)
	})
	out := rec.APIKey
	out.Secret = secret
	s.answer(w, r, http.StatusCreated, out, err)
}

func (s adminSurface) RevokeAPIKey(w http.ResponseWriter, r *http.Request, c adminCaller, id api.ID) {
	var k apiKeyRecord
	err := s.change(r, c, "api-key.revoke", id, "", func(tx store.Tx) (err error) {
		if k, err = apiKeys.Get(tx, id); err != nil {
			return err
		}
		now := s.opt.Now()
		others := 0
		for o, err := range apiKeys.Scan(tx, store.Range{}) {
			if err != nil {
				return err
			}
			if o.ID != id && o.Role == api.RoleAdmin && len(o.Groups) == 0 && o.good(now) && o.ExpiresAt.IsZero() {
				others++
			}
		}
		if k.Role == api.RoleAdmin && others == 0 {
			return api.NewProblem(api.ProblemCodeConflict, "it is the last admin key")
		}
		set(&k.RevokedAt, now.UTC())
		return apiKeys.Put(tx, id, k)
	})
	s.answer(w, r, http.StatusOK, k.APIKey, err)
}

// Audit and appeals.

func (s adminSurface) ListAudit(w http.ResponseWriter, r *http.Request, _ adminCaller, params api.ListAuditParams) {
	limit := params.Limit
	set(&limit, 100)
	p := api.AuditPage{Entries: []api.AuditEntry{}}
	err := s.view(r.Context(), func(tx store.Tx) error {
		for e, err := range audits.Scan(tx, store.Range{After: params.After}) {
			if err != nil {
				return err
			}
			if len(p.Entries) == limit {
				p.Next = ordinal(p.Entries[limit-1].Seq)
				break
			}
			p.Entries = append(p.Entries, e)
		}
		return nil
	})
	p.Verified = AuditHolds(p.Entries)
	s.answer(w, r, http.StatusOK, p, err)
}

func (s adminSurface) ListAppeals(w http.ResponseWriter, r *http.Request, c adminCaller, params api.ListAppealsParams) {
	out, err := list(s, r.Context(), appeals, store.Range{}, func(a *api.Appeal) (api.Appeal, bool) {
		return *a, c.scope.sees(a.Group) && (params.State == api.AppealFilterAll || a.State == api.AppealStateOpen)
	})
	s.answer(w, r, http.StatusOK, out, err)
}

func (s adminSurface) ResolveAppeal(w http.ResponseWriter, r *http.Request, c adminCaller, id api.ID) {
	in, p := decode[api.AppealResolution](r)
	if p == nil && (in.State != api.AppealStateAccepted && in.State != api.AppealStateRejected || len(in.Note) > 2000) {
		p = api.NewProblem(api.ProblemCodeMalformed, "field state has to be accepted or rejected")
	}
	if p != nil {
		p.Write(w)
		return
	}
	var a api.Appeal
	err := s.change(r, c, "appeal."+string(in.State), id, "", func(tx store.Tx) (err error) {
		if a, err = appeals.Get(tx, id); err != nil {
			return err
		}
		if !c.scope.sees(a.Group) {
			return store.ErrNotFound
		}
		a.State, a.Note, a.ResolvedBy = in.State, in.Note, c.key.Name
		return appeals.Put(tx, id, a)
	})
	s.answer(w, r, http.StatusOK, a, err)
}

// Signing keys.

func (s adminSurface) signingKeys() api.SigningKeys {
	rec, _ := s.keys.signing()
	return api.SigningKeys{Root: rec.Root, Version: rec.Version, Active: rec.Active, Keys: slices.Clone(rec.Keys)}
}

func (s adminSurface) GetSigningKeys(w http.ResponseWriter, _ *http.Request, _ adminCaller) {
	reply(w, http.StatusOK, s.signingKeys())
}

func (s adminSurface) RotateSigningKey(w http.ResponseWriter, r *http.Request, c adminCaller) {
	rec, _ := s.keys.signing()
	next, err := s.keys.advance(rec, s.audience, s.opt.Now())
	if err == nil {
		err = s.change(r, c, "keys.rotate", next.Active, fmt.Sprintf("version %d", next.Version), func(tx store.Tx) error {
			now, err := keysets.Get(tx, keysCurrent)
			if err != nil {
				return err
			}
			if now.Version != rec.Version {
				return api.NewProblem(api.ProblemCodeConflict, "somebody else rotated the key just now")
			}
			return keysets.Put(tx, keysCurrent, next)
		})
	}
	if err == nil {
		err = s.keys.use(next)
	}
	if err == nil {
		err = s.signConfigs(r.Context())
	}
	s.answer(w, r, http.StatusCreated, s.signingKeys(), err)
}
