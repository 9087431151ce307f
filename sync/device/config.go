package device

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// overrideLife is the longest life of an override (manager.md 3).
const overrideLife = 24 * time.Hour

// config is a checked guard config with what it came as.
type config struct {
	doc  *api.GuardConfig
	root token.Fingerprint // of the Manager that signed it
	jws  string
	etag string
}

// stale says that the config in force is past its expiry. It stays in force.
func (c *config) stale(now time.Time) bool { return now.After(c.doc.ExpiresAt) }

// refusal is a config that was not taken, and until when not to ask for it
// again.
type refusal struct {
	etag  string
	until time.Time
	idle  bool // a poll with this etag is answered at once: wait instead
	tries int
	err   error
}

// Refusal says why a config was not taken. Its reason is what the report says.
type Refusal struct {
	Reason string // signature, malformed, schema, audience, group, version, override, expired, apply, store
	Err    error
}

func (r *Refusal) Error() string { return "config refused (" + r.Reason + "): " + r.Err.Error() }

// Unwrap gives the cause.
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(reason, format string, args ...any) error {
	return &Refusal{reason, fmt.Errorf(format, args...)}
}

// keptName is the document in the agent's state that holds the last good config.
const keptName = "config"

// kept is the last good config on disk, with what versions are judged by.
type kept struct {
	// Root is the Manager that counts these versions.
	Root token.Fingerprint `json:"root"`
	// Group is the one of the last good config.
	Group string `json:"group,omitempty"`
	// Highest is the highest version ever applied; an override doesn't lower it.
	Highest int64  `json:"highest"`
	Version int64  `json:"version"`
	JWS     string `json:"jws"`
	ETag    string `json:"etag"`
	// Key is the signing key that the config was checked by: at a later boot it
	// may have been replaced, and the config still holds.
	Key api.Key `json:"key"`
	// Overrides are the ids of those that were used.
	Overrides []string `json:"overrides,omitempty"`
	// Retired is the device whose retirement was carried out.
	Retired string `json:"retired,omitempty"`
}

// countedFor is k as it counts for this identity: another Manager starts at zero,
// another group where its versions were when the device was moved there.
func (k kept) countedFor(id enroll.Identity) kept {
	if k.Root != id.Root {
		k.Root, k.Group, k.Highest, k.Version, k.Overrides = id.Root, "", 0, 0, nil
	}
	if k.Group != "" && k.Group != id.Group {
		k.Group, k.Highest, k.Version = "", id.GroupVersion, 0
	}
	return k
}

// Restore puts the last good config in force again, as at every start. That it
// is past its expiry doesn't matter: it was taken when it was not.
func (d *Device) Restore(ctx context.Context) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	if d.inForce() != nil {
		return nil
	}
	var k kept
	if err := d.State.Load(keptName, &k); err != nil || k.JWS == "" {
		return err
	}
	keys, err := api.ParseKeys([]api.Key{k.Key})
	if err != nil {
		return err
	}
	doc := new(api.GuardConfig)
	if err := api.Verify(k.JWS, doc, keys); err != nil {
		return fmt.Errorf("last good config: %w", err)
	}
	if err := d.Apply(ctx, doc); err != nil {
		return fmt.Errorf("last good config: %w", err)
	}
	d.setCurrent(&config{doc, k.Root, k.JWS, k.ETag})
	return nil
}

func (d *Device) setCurrent(c *config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current = c
}

// arrival is a config as it came, with the statements beside it, which may be
// empty.
type arrival struct {
	jws, etag      string
	override, move string
}

// take checks an arrived config, applies it and keeps it; on any failure what
// is in force stays. Errors: *Refusal, or api.ErrNotModified if it is the one
// in force.
func (d *Device) take(ctx context.Context, c *api.Client, a arrival) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	id, err := d.State.Identity()
	if err != nil {
		return err
	}
	jws, etag := a.jws, a.etag
	if now := d.inForce(); now != nil && now.root == id.Root && now.jws == jws {
		d.judged("", nil)
		return api.ErrNotModified
	}
	doc := new(api.GuardConfig)
	key, err := d.verify(ctx, c, &id, jws, doc)
	if err != nil {
		return err
	}
	// Only now: its signing key may have been looked up for the config.
	if a.move != "" && doc.Group != id.Group {
		moved, err := d.State.Move(a.move)
		if err != nil {
			return refuse("group", "%w", err)
		}
		if moved {
			d.Log.Info("moved to another group", "from", id.Group, "to", doc.Group)
		}
		if id, err = d.State.Identity(); err != nil {
			return err
		}
	}
	var k kept
	if err := d.State.Load(keptName, &k); err != nil {
		return refuse("store", "%w", err)
	}
	k = k.countedFor(id)
	now := d.Clock.Now()
	used, err := d.judge(id, k, doc, a.override, now)
	if err != nil {
		return err
	}
	if err := d.Apply(ctx, doc); err != nil {
		return refuse("apply", "%w", err)
	}
	var disk kept
	err = d.State.Update(keptName, &disk, func() error {
		disk = disk.countedFor(id)
		disk.Group, disk.Highest, disk.Version = doc.Group, max(disk.Highest, doc.Version), doc.Version
		disk.JWS, disk.ETag, disk.Key = jws, etag, key
		if used != "" {
			disk.Overrides = append(disk.Overrides, used)
		}
		return nil
	})
	if err != nil {
		// What a restart would forget must not be in force now.
		if old := d.inForce(); old != nil {
			err = errors.Join(err, d.Apply(ctx, old.doc))
		}
		return refuse("store", "%w", err)
	}
	d.setCurrent(&config{doc, id.Root, jws, etag})
	d.Log.Info("config applied", "version", doc.Version, "group", doc.Group, "override", used != "")
	return nil
}

func (d *Device) inForce() *config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// verify checks the signature and decodes. A key that is not known is looked up
// once in the root key's statement.
func (d *Device) verify(ctx context.Context, c *api.Client, id *enroll.Identity, jws string, doc api.Document) (api.Key, error) {
	for fetched := false; ; fetched = true {
		keys, err := id.Keys()
		if err != nil {
			return api.Key{}, refuse("signature", "%w", err)
		}
		err = api.Verify(jws, doc, keys)
		switch {
		case err == nil:
			return signer(jws, keys), nil
		case errors.Is(err, api.ErrSignature) && !fetched && !known(jws, keys):
			if err := d.fetchKeys(ctx, c); err != nil {
				return api.Key{}, refuse("signature", "by an unknown key, and the manager's key statement is not to be had: %w", err)
			}
			if *id, err = d.State.Identity(); err != nil {
				return api.Key{}, err
			}
		case errors.Is(err, api.ErrSignature):
			return api.Key{}, refuse("signature", "%w", err)
		case errors.Is(err, api.ErrSchema):
			return api.Key{}, refuse("schema", "%w; update the agent", err)
		default:
			return api.Key{}, refuse("malformed", "%w", err)
		}
	}
}

func (d *Device) fetchKeys(ctx context.Context, c *api.Client) error {
	statement, err := api.Raw(c.GetDeviceKeys(ctx))
	if err != nil {
		return err
	}
	taken, err := d.State.SetSigningKeys(string(statement))
	if taken {
		d.Log.Info("signing keys changed by a statement of the root key")
	}
	return err
}

// kid reads the key id that a JWS claims; nothing is believed of it.
func kid(jws string) string {
	head, _, _ := strings.Cut(jws, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return ""
	}
	var h struct {
		Kid string `json:"kid"`
	}
	if json.Unmarshal(raw, &h) != nil {
		return ""
	}
	return h.Kid
}

func known(jws string, keys api.Keys) bool { return keys[kid(jws)] != nil }

func signer(jws string, keys api.Keys) api.Key {
	return api.JWK(keys[kid(jws)])
}

// judge says whether a config with a good signature may be applied, and the id
// of the override that it needs.
func (d *Device) judge(id enroll.Identity, k kept, doc *api.GuardConfig, override string, now time.Time) (used string, err error) {
	switch {
	case doc.Aud != id.Audience:
		return "", refuse("audience", "it is another Manager's")
	case doc.Group != id.Group:
		return "", refuse("group", "it is made for group %q, this device is in %q", doc.Group, id.Group)
	case !now.Before(doc.ExpiresAt):
		return "", refuse("expired", "it arrived after its expiry, %s", doc.ExpiresAt.Format(time.RFC3339))
	case doc.Version < 1:
		return "", refuse("malformed", "it has no version")
	}
	if e := doc.Telemetry.Endpoint; e != "manager" && !remote(e) {
		return "", refuse("malformed", "the telemetry endpoint is neither \"manager\" nor an https URL")
	}
	// The version in force is no step back, even where an override brought it.
	if doc.Version >= k.Highest || doc.Version == k.Version {
		return "", nil
	}
	if override == "" {
		return "", refuse("version", "version %d is lower than %d, which was applied before, and no override allows it", doc.Version, k.Highest)
	}
	keys, err := id.Keys()
	if err != nil {
		return "", err
	}
	var o api.Override
	if err := api.Verify(override, &o, keys); err != nil {
		return "", refuse("override", "%w", err)
	}
	switch {
	case o.Aud != id.Audience || o.Group != id.Group:
		return "", refuse("override", "it is made for others")
	case o.Version != doc.Version:
		return "", refuse("override", "it allows version %d, not %d", o.Version, doc.Version)
	case o.ID == "" || slices.Contains(k.Overrides, o.ID):
		return "", refuse("override", "it was used before")
	case !now.Before(o.ExpiresAt) || o.ExpiresAt.Sub(o.IssuedAt) > overrideLife:
		return "", refuse("override", "it has expired, or is made for more than %s", overrideLife)
	}
	return o.ID, nil
}

// remote says whether an endpoint is https, or on this machine.
func remote(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http" && settings.IsLoopback(u.Hostname()))
}
