package manager

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

const (
	rootFile = "root.key"
	// keepKeys is how many signing keys are stated at most: a device that was away for long still knows its config's.
	keepKeys = 4
)

// errNoRoot: the root key isn't in the data directory.
var errNoRoot = errors.New("the root key is kept offline: put root.key back into the data directory for this")

// keyring holds the private keys. They live in files beside the store, so that a copy of the store gives away none.
type keyring struct {
	dir  string
	root rootKey

	mu      sync.RWMutex
	current keysRecord
	active  ed25519.PrivateKey
}

type rootKey struct {
	key ed25519.PrivateKey // nil: offline
	id  string
}

// openKeyring reads the root key, making one for a new Manager. Whether its absence means "new" or "offline", state tells.
func openKeyring(dir string) (*keyring, error) {
	k := &keyring{dir: dir}
	key, err := readKey(filepath.Join(dir, rootFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		k.root = rootKey{key, api.KeyID(key.Public().(ed25519.PublicKey))}
	}
	return k, nil
}

// state loads the signing keys, and founds root and first signing key of a new Manager.
func (k *keyring) state(tx store.Tx, m *Manager) error {
	rec, err := keysets.Get(tx, keysCurrent)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if k.root.key == nil {
			key, err := newKey(filepath.Join(k.dir, rootFile))
			if err != nil {
				return err
			}
			k.root = rootKey{key, api.KeyID(key.Public().(ed25519.PublicKey))}
		}
		meta, err := orZero(metas.Get(tx, metaServer))
		if err != nil {
			return err
		}
		set(&meta.Audience, m.opt.URL)
		if rec, err = k.advance(keysRecord{Root: k.root.id}, meta.Audience, m.opt.Now()); err != nil {
			return err
		}
		if err := keysets.Put(tx, keysCurrent, rec); err != nil {
			return err
		}
	case err != nil:
		return err
	case k.root.key != nil && k.root.id != rec.Root:
		return fmt.Errorf("%s is not the root key of this data directory: put the right one back", rootFile)
	}
	k.root.id = rec.Root
	return k.use(rec)
}

// use makes a record's active key the one that signs.
func (k *keyring) use(rec keysRecord) error {
	key, err := readKey(k.file(rec.Active))
	if err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.active = rec, key
	return nil
}

func (k *keyring) file(id string) string { return filepath.Join(k.dir, "signing-"+id+".key") }

// advance makes a new signing key and the root key's statement of it and its predecessors.
func (k *keyring) advance(rec keysRecord, audience string, now time.Time) (keysRecord, error) {
	if k.root.key == nil {
		return rec, errNoRoot
	}
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return rec, err
	}
	rec.Version, rec.Active = rec.Version+1, api.KeyID(pub)
	if err := writeKey(k.file(rec.Active), priv); err != nil {
		return rec, err
	}
	rec.Keys = append([]api.Key{api.JWK(pub)}, rec.Keys...)
	rec.Keys = slices.Clone(rec.Keys[:min(len(rec.Keys), keepKeys)])
	rec.Statement, err = api.SignRoot(&api.KeyStatement{Schema: api.Schema, Version: rec.Version, Aud: audience, IssuedAt: now.UTC(), Keys: rec.Keys}, k.root.key)
	return rec, err
}

// signing returns the keys in force and the one that signs.
func (k *keyring) signing() (keysRecord, ed25519.PrivateKey) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.current, k.active
}

// sign signs a document by the active signing key.
func (k *keyring) sign(d api.Document) (string, error) {
	_, key := k.signing()
	return api.Sign(d, key)
}

func newKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return key, writeKey(path, key)
}

func writeKey(path string, key ed25519.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return safefile.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), safefile.Private)
}

func readKey(path string) (ed25519.PrivateKey, error) {
	text, err := safefile.ReadFile(path, 4096)
	if err != nil {
		return nil, err
	}
	if b, _ := pem.Decode(text); b != nil {
		if key, err := x509.ParsePKCS8PrivateKey(b.Bytes); err == nil {
			if key, ok := key.(ed25519.PrivateKey); ok {
				return key, nil
			}
		}
	}
	return nil, fmt.Errorf("%s holds no Ed25519 key in PEM (PKCS 8)", path)
}
