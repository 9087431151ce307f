package manager

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// overrideLife is how long an override statement holds (manager.md 3).
const overrideLife = 24 * time.Hour

func (s adminSurface) ListPolicies(w http.ResponseWriter, r *http.Request, c adminCaller, params api.ListPoliciesParams) {
	limit := params.Limit
	set(&limit, 100)
	out := []api.PolicyVersion{}
	err := s.view(r.Context(), func(tx store.Tx) error {
		force, err := inForce(tx)
		if err != nil {
			return err
		}
		for p, err := range policies.Scan(tx, store.Range{Backwards: true}) {
			if err != nil {
				return err
			}
			if p.Group != "" && !c.scope.sees(p.Group) {
				continue
			}
			p.Files = nil
			out = append(out, p.with(force, c.scope))
			if len(out) == limit {
				break
			}
		}
		return nil
	})
	s.answer(w, r, http.StatusOK, out, err)
}

// with names the groups that have the version.
func (p *policyRecord) with(force map[string]policyRecord, s scope) api.PolicyVersion {
	p.InForce = nil
	for group, f := range force {
		if f.Version == p.Version && s.sees(group) {
			p.InForce = append(p.InForce, group)
		}
	}
	slices.Sort(p.InForce)
	return p.PolicyVersion
}

// getPolicy reads a version that the caller sees; 0 is the newest.
func getPolicy(tx store.Tx, c adminCaller, version int64) (policyRecord, error) {
	if version == 0 {
		for p, err := range policies.Scan(tx, store.Range{Backwards: true}) {
			if err != nil || p.Group == "" || c.scope.sees(p.Group) {
				return p, err
			}
		}
	}
	p, err := policies.Get(tx, ordinal(version))
	if err == nil && p.Group != "" && !c.scope.sees(p.Group) {
		err = store.ErrNotFound
	}
	return p, err
}

func (s adminSurface) GetPolicy(w http.ResponseWriter, r *http.Request, c adminCaller, version api.Version) {
	var out api.PolicyVersion
	err := s.view(r.Context(), func(tx store.Tx) error {
		p, err := getPolicy(tx, c, version)
		if err != nil {
			return err
		}
		force, err := inForce(tx)
		out = p.with(force, c.scope)
		return err
	})
	s.answer(w, r, http.StatusOK, out, err)
}

// mayPublish refuses a key that is bound to groups what would reach others.
func mayPublish(c adminCaller, group string) error {
	if c.scope != nil && (group == "" || !c.scope.sees(group)) {
		return api.NewProblem(api.ProblemCodeForbidden, "the key is bound to groups: name one of them")
	}
	return nil
}

func (s adminSurface) PublishPolicy(w http.ResponseWriter, r *http.Request, c adminCaller) {
	in, p := decode[api.PolicyPublish](r)
	if p == nil {
		p = checkFiles(in.Files)
	}
	if p == nil && len(in.Note) > 500 {
		p = api.NewProblem(api.ProblemCodeMalformed, "field note is 500 bytes at most")
	}
	if p != nil {
		p.Write(w)
		return
	}
	err := mayPublish(c, in.Group)
	var rec policyRecord
	if err == nil {
		rec, err = s.publish(r.Context(), c.actor(), policyRecord{PolicyVersion: api.PolicyVersion{Group: in.Group, Note: in.Note, Files: in.Files}})
	}
	s.answer(w, r, http.StatusCreated, s.published(rec), err)
}

// published is what the author is told: no source, which he has.
func (s adminSurface) published(p policyRecord) api.PolicyVersion {
	p.Files = nil
	return p.PolicyVersion
}

func (s adminSurface) RollbackPolicy(w http.ResponseWriter, r *http.Request, c adminCaller, version api.Version) {
	var old policyRecord
	err := s.view(r.Context(), func(tx store.Tx) (err error) {
		old, err = getPolicy(tx, c, version)
		return err
	})
	if err == nil {
		err = mayPublish(c, old.Group)
	}
	if err == nil {
		old, err = s.publish(r.Context(), c.actor(), policyRecord{PolicyVersion: api.PolicyVersion{Group: old.Group, Files: old.Files, RollbackOf: old.Version,
			Note: fmt.Sprintf("roll back to version %d", old.Version)}})
	}
	s.answer(w, r, http.StatusCreated, s.published(old), err)
}

func checkFiles(files []api.PolicyFile) *api.Problem {
	if len(files) == 0 || len(files) > 1000 {
		return api.NewProblem(api.ProblemCodeMalformed, "field files needs 1 to 1000 files")
	}
	for _, f := range files {
		if f.Name == "" || len(f.Name) > 512 {
			return api.NewProblem(api.ProblemCodeMalformed, "a file has no name or one over 512 bytes")
		}
	}
	return nil
}

func (s adminSurface) ValidatePolicy(w http.ResponseWriter, r *http.Request, _ adminCaller) {
	in, p := decode[api.PolicySource](r)
	if p == nil {
		p = checkFiles(in.Files)
	}
	if p != nil {
		p.Write(w)
		return
	}
	c, err := s.opt.Policies.Compile(in.Files)
	s.answer(w, r, http.StatusOK, api.PolicyCheck{Rules: c.Rules, Mode: c.Mode, Warnings: c.Warnings}, policyProblem(err))
}

func (s adminSurface) TestPolicy(w http.ResponseWriter, r *http.Request, _ adminCaller) {
	in, p := decode[api.PolicyTest](r)
	if p == nil {
		p = checkFiles(in.Files)
	}
	if p == nil && len(in.Events) > 1000 {
		p = api.NewProblem(api.ProblemCodeMalformed, "at most 1000 events")
	}
	if p != nil {
		p.Write(w)
		return
	}
	s.gates.traces.gated(w, r, func() {
		out, err := s.opt.Policies.Test(in.Files, in.Events)
		s.answer(w, r, http.StatusOK, out, policyProblem(err))
	})
}

// OverrideVersion states for each group that has the version that a higher one may be left for it.
func (s adminSurface) OverrideVersion(w http.ResponseWriter, r *http.Request, c adminCaller, version api.Version) {
	var last string
	err := s.change(r, c, "policy.override", fmt.Sprint(version), "", func(tx store.Tx) error {
		if _, err := policies.Get(tx, ordinal(version)); err != nil {
			return err
		}
		last = ""
		var hit []configRecord
		for conf, err := range configs.Scan(tx, store.Range{}) {
			if err != nil {
				return err
			}
			if conf.Version == version {
				hit = append(hit, conf)
			}
		}
		if len(hit) == 0 {
			return api.NewProblem(api.ProblemCodeConflict, "no group has this version in force: roll back to it first")
		}
		now := s.opt.Now().UTC()
		for _, conf := range hit {
			jws, err := s.keys.sign(&api.Override{Schema: api.Schema, ID: s.ids.next(), Version: version, Aud: s.audience, Group: conf.Group, IssuedAt: now, ExpiresAt: now.Add(overrideLife)})
			if err != nil {
				return err
			}
			conf.Override, conf.OverEnds, last = jws, now.Add(overrideLife), jws
			if err := configs.Put(tx, conf.Group, conf); err != nil {
				return err
			}
		}
		tx.Notify(topicConfig)
		return nil
	})
	if err == nil {
		err = s.loadConfigs(r.Context())
	}
	if errors.Is(err, store.ErrNotFound) {
		err = api.NewProblem(api.ProblemCodeNotFound, "no such version")
	}
	s.answer(w, r, http.StatusCreated, api.Statement{Statement: last}, err)
}
