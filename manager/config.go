package manager

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// GetDeviceConfig implements GET /device/config.
func (s deviceSurface) GetDeviceConfig(w http.ResponseWriter, r *http.Request, c deviceCaller, params api.GetDeviceConfigParams) {
	conf, ok := s.hub.config(c.group)
	packed := takesGzip(r)
	if !ok || conf.ETag != params.IfNoneMatch || params.Wait == 0 {
		s.giveConfig(w, c.id, c.group, c.movedAt, params.IfNoneMatch, packed)
		return
	}
	if s.hub.held.Load() >= maxHeld {
		busy(30 * time.Second).Write(w)
		return
	}
	id, group, boot, etag := c.id, c.group, c.boot, strings.Clone(params.IfNoneMatch) // nothing else of the request is kept
	add := func(w *waiter) (remove func()) {
		w.group = group
		return s.hub.add(id, etag, w)
	}
	s.hold(w, r, apart(time.Duration(params.Wait)*time.Second), add, func(w http.ResponseWriter) { s.afterWait(w, id, boot, etag, packed) })
}

// apart shortens a long wait by up to a fifth: what a publication has brought into step comes out of it again, or the whole
// fleet would ask within the same seconds of each minute from then on.
func apart(d time.Duration) time.Duration {
	if d < 20*time.Second {
		return d
	}
	return d - rand.N(d/5)
}

// afterWait looks the device up again: it may have been moved or retired meanwhile, or found to be a clone.
func (s deviceSurface) afterWait(w http.ResponseWriter, id, boot, etag string, packed bool) {
	if s.hub.released() {
		s.ending().Write(w)
		return
	}
	d, err := s.device(context.Background(), id)
	if err != nil {
		s.fail(w, nil, err)
		return
	}
	if d.State == api.DeviceStateRetired {
		s.fail(w, nil, s.retired(d))
		return
	}
	if d.twin(boot) {
		api.NewProblem(api.ProblemCodeClone, "").Write(w)
		return
	}
	s.giveConfig(w, id, d.Group, d.MovedAt, etag, packed)
}

// giveConfig answers with a group's config, unless it is the one that the device has. One that was moved since it was enrolled
// gets the proof of it, signed now: by a key that it knows, for the version that comes along. packed says that it takes gzip:
// a publication goes to the whole fleet at once, often over one line.
func (s deviceSurface) giveConfig(w http.ResponseWriter, id, group string, movedAt time.Time, etag string, packed bool) {
	conf, ok := s.hub.config(group)
	if !ok {
		s.fail(w, nil, fmt.Errorf("group of device %s has no config", id))
		return
	}
	w.Header().Set("ETag", conf.ETag)
	if conf.Override != "" && s.opt.Now().Before(conf.OverEnds) {
		w.Header().Set("Pinta-Override", conf.Override)
	}
	if conf.ETag == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if !movedAt.IsZero() {
		move, err := s.keys.sign(&api.GroupMove{Schema: api.Schema, DeviceID: id, Aud: s.audience, Group: group, Version: conf.Version, IssuedAt: movedAt})
		if err != nil {
			s.fail(w, nil, err)
			return
		}
		w.Header().Set("Pinta-Group", move)
	}
	w.Header().Set("Vary", "Accept-Encoding")
	if packed {
		w.Header().Set("Content-Encoding", "gzip")
		document(w, http.StatusOK, conf.packed)
		return
	}
	document(w, http.StatusOK, conf.JWS)
}

// takesGzip says whether the answer to r may be packed.
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.Trim(strings.TrimPrefix(strings.TrimSpace(quality), "q="), "0.") != "" || quality == ""
		}
	}
	return false
}

// pack compresses a document.
func pack(doc string) string {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, doc) // a strings.Builder takes all
	_ = z.Close()
	return b.String()
}

// device reads a device; the record must not be changed.
func (m *Manager) device(ctx context.Context, id string) (d *deviceRecord, err error) {
	err = m.view(ctx, func(tx store.Tx) (err error) {
		d, err = m.known.get(tx, id)
		return err
	})
	return d, err
}

// inForce finds the publication that holds for each of the groups: the newest to it or to all.
func inForce(tx store.Tx) (map[string]policyRecord, error) {
	missing, out := map[string]bool{}, map[string]policyRecord{}
	for g, err := range groups.Scan(tx, store.Range{}) {
		if err != nil {
			return nil, err
		}
		missing[g.Name] = true
	}
	for p, err := range policies.Scan(tx, store.Range{Backwards: true}) {
		if err != nil {
			return nil, err
		}
		for g := range missing {
			if p.Group == "" || p.Group == g {
				out[g] = p
				delete(missing, g)
			}
		}
		if len(missing) == 0 {
			break
		}
	}
	return out, nil
}

// putConfigs signs what isn't signed yet, by the key in force, or is about to expire, in the transaction of what changed
// it.
func (m *Manager) putConfigs(tx store.Tx) error {
	force, err := inForce(tx)
	if err != nil {
		return err
	}
	now := m.opt.Now().UTC()
	keys, _ := m.keys.signing()
	for group, p := range force {
		old, err := orZero(configs.Get(tx, group))
		if err != nil {
			return err
		}
		if old.Version == p.Version && old.Key == keys.Active && now.Before(old.Renew) {
			continue
		}
		c, err := m.signConfig(group, p, now)
		if err != nil {
			return err
		}
		if old.Version == p.Version {
			c.Override, c.OverEnds = old.Override, old.OverEnds
		}
		if err := configs.Put(tx, group, c); err != nil {
			return err
		}
		tx.Notify(topicConfig)
	}
	return nil
}

func (m *Manager) signConfig(group string, p policyRecord, now time.Time) (configRecord, error) {
	telemetry := api.TelemetryConfig{Enabled: true, Endpoint: "manager"}
	if p.Telemetry != nil {
		telemetry = *p.Telemetry
	}
	keys, _ := m.keys.signing()
	c := configRecord{Group: group, Version: p.Version, Key: keys.Active, Expires: now.Add(m.opt.ConfigLife), Renew: now.Add(m.opt.ConfigLife / 2)}
	jws, err := m.keys.sign(&api.GuardConfig{
		Schema: api.Schema, Version: p.Version, Aud: m.audience, Group: group, IssuedAt: now, ExpiresAt: c.Expires, Guard: p.Guard, Telemetry: telemetry,
		Hooks: api.HooksConfig{User: true, Machine: true}, Agent: api.AgentConfig{CheckinSeconds: int(m.opt.Checkin / time.Second), LogLevel: api.LogLevelInfo},
	})
	if err != nil {
		return c, fmt.Errorf("sign config of group %s: %w", group, err)
	}
	sum := sha256.Sum256([]byte(jws))
	c.JWS, c.ETag = jws, `"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`
	return c, nil
}

// signConfigs brings all configs up to date and loads them.
func (m *Manager) signConfigs(ctx context.Context) error {
	if err := m.update(ctx, m.putConfigs); err != nil {
		return err
	}
	return m.loadConfigs(ctx)
}

// loadConfigs gives the hub what is in the store.
func (m *Manager) loadConfigs(ctx context.Context) error {
	var list []configRecord
	err := m.view(ctx, func(tx store.Tx) error {
		for c, err := range configs.Scan(tx, store.Range{}) {
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return nil
	})
	if err == nil {
		m.hub.load(list)
	}
	return err
}

// foundPolicy publishes the empty policy as version 1 of a new Manager, so that its devices send telemetry before anybody
// has written a rule.
func (m *Manager) foundPolicy(tx store.Tx) error {
	v, err := orZero(counters.Get(tx, counterVersion))
	if err != nil || v > 0 {
		return err
	}
	files := []api.PolicyFile{{Name: "empty.yaml", Content: "mode: enforce\nrules: []\n"}}
	c, err := m.opt.Policies.Compile(files)
	if err != nil {
		return fmt.Errorf("empty policy: %w", err)
	}
	return m.putPolicy(tx, "manager", policyRecord{PolicyVersion: api.PolicyVersion{Files: files, Note: "the policy before the first"}, Guard: c.Guard, Telemetry: c.Telemetry}, c)
}

// putPolicy writes a publication under the next version.
func (m *Manager) putPolicy(tx store.Tx, actor string, p policyRecord, c Compiled) error {
	v, err := add(tx, counterVersion, 1)
	if err != nil {
		return err
	}
	p.Version, p.PublishedAt, p.PublishedBy, p.Rules, p.Mode = v, m.opt.Now().UTC(), actor, c.Rules, c.Mode
	if err := policies.Put(tx, ordinal(v), p); err != nil {
		return err
	}
	to := "all groups"
	if p.Group != "" {
		to = "group " + p.Group
	}
	return m.audit(tx, actor, "policy.publish", fmt.Sprint(v), fmt.Sprintf("%s, %d rules, mode %s", to, c.Rules, c.Mode))
}

// publish writes and signs a publication and returns it.
func (m *Manager) publish(ctx context.Context, actor string, p policyRecord) (policyRecord, error) {
	c, err := m.opt.Policies.Compile(p.Files)
	if err != nil {
		return p, policyProblem(err)
	}
	p.Guard, p.Telemetry = c.Guard, c.Telemetry
	err = m.update(ctx, func(tx store.Tx) error {
		if p.Group != "" {
			if _, err := groups.Get(tx, p.Group); err != nil {
				if errors.Is(err, store.ErrNotFound) {
					return api.NewProblem(api.ProblemCodeNotFound, "no such group")
				}
				return err
			}
		}
		if err := m.putPolicy(tx, actor, p, c); err != nil {
			return err
		}
		v, err := counters.Get(tx, counterVersion)
		if err != nil {
			return err
		}
		if p, err = policies.Get(tx, ordinal(v)); err != nil {
			return err
		}
		return m.putConfigs(tx)
	})
	if err != nil {
		return p, err
	}
	return p, m.loadConfigs(ctx)
}
