package manager

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

const (
	// keyPrefix begins each API key: pintakey_ID_SECRET.
	keyPrefix = "pintakey_"
	adminFile = "admin-key.json"
	adminName = "admin key file"
)

// AdminKeyFile is what the commands need to reach a Manager and nothing else.
type AdminKeyFile struct {
	Server string `json:"server"`
	Pin    string `json:"pin,omitempty"` // hex SHA-256 of the own CA's SPKI; absent: the system's trust store
	Key    string `json:"key"`
}

// ReadAdminKeyFile reads a key file; one that others may read is refused, as it is the Manager.
func ReadAdminKeyFile(path string) (AdminKeyFile, error) {
	var f AdminKeyFile
	text, _, err := safefile.Read(path, 64<<10, safefile.Check{Forbid: 0o077})
	if errors.Is(err, fs.ErrNotExist) {
		return f, fmt.Errorf("admin key file: %w: `pinta-manager serve` writes one, admin-key.json, into its data directory", err)
	}
	if err != nil {
		return f, fmt.Errorf("admin key file: %w", err)
	}
	if json.Unmarshal(text, &f) != nil || f.Server == "" || f.Key == "" {
		return f, fmt.Errorf("admin key file %s holds no server and key: use the one that `pinta-manager serve` wrote or `api-key create` printed", path)
	}
	return f, nil
}

// Network is the way to the server: its own CA is pinned where it has one.
func (f AdminKeyFile) Network() (settings.Network, error) {
	n := settings.Network{Pin: settings.Pin{Server: f.Server}}
	pin, err := hex.DecodeString(f.Pin)
	if err != nil || len(pin) != 0 && len(pin) != len(n.Pin.SPKI) {
		return n, errors.New("the admin key file's pin is no SHA-256 in hex: use the file that `pinta-manager serve` wrote")
	}
	copy(n.Pin.SPKI[:], pin)
	return n, nil
}

// includes tells what each role may do.
var includes = map[api.Role][]api.Role{
	api.RoleViewer:   {api.RoleViewer},
	api.RoleOperator: {api.RoleViewer, api.RoleOperator},
	api.RoleAuthor:   {api.RoleViewer, api.RoleAuthor},
	api.RoleAdmin:    {api.RoleViewer, api.RoleOperator, api.RoleAuthor, api.RoleAdmin},
}

// newAPIKey makes a key and its record, which holds a hash of the secret: 256 random bits need no slow one.
func (m *Manager) newAPIKey(k api.APIKey) (secret string, rec apiKeyRecord) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	k.ID, k.CreatedAt = m.ids.next(), m.opt.Now().UTC()
	secret = keyPrefix + k.ID + "_" + base64.RawURLEncoding.EncodeToString(b[:])
	return secret, apiKeyRecord{APIKey: k, Hash: hashKey(secret)}
}

func hashKey(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// findAPIKey returns the key of a secret, or an error that doesn't tell why there is none.
func (m *Manager) findAPIKey(ctx context.Context, secret string) (apiKeyRecord, error) {
	none := api.NewProblem(api.ProblemCodeUnauthenticated, "the API key is not good")
	rest, ok := strings.CutPrefix(secret, keyPrefix)
	id, _, ok2 := strings.Cut(rest, "_")
	if !ok || !ok2 || len(secret) > 256 {
		return apiKeyRecord{}, none
	}
	var k apiKeyRecord
	err := m.view(ctx, func(tx store.Tx) (err error) {
		k, err = apiKeys.Get(tx, id)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return k, none
	case err != nil:
		return k, err
	case subtle.ConstantTimeCompare([]byte(k.Hash), []byte(hashKey(secret))) != 1 || !k.good(m.opt.Now()):
		return k, none
	}
	return k, nil
}

func (k *apiKeyRecord) good(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// FoundAdmin writes the admin key file with this start's URL and returns its path. If the file is missing it makes a new
// key and revokes the one that the lost file held.
func (m *Manager) FoundAdmin(ctx context.Context) (string, error) {
	path := filepath.Join(m.opt.Dir, adminFile)
	f, err := ReadAdminKeyFile(path)
	onDisk := f
	if err == nil {
		_, err = m.findAPIKey(ctx, f.Key)
		if api.CodeOf(err) == api.ProblemCodeUnauthenticated {
			err = fs.ErrNotExist // of another store, or revoked
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		secret, rec := m.newAPIKey(api.APIKey{Name: adminName, Role: api.RoleAdmin})
		f.Key = secret
		err = m.update(ctx, func(tx store.Tx) error {
			if err := m.revokeLost(tx); err != nil {
				return err
			}
			if err := apiKeys.Put(tx, rec.ID, rec); err != nil {
				return err
			}
			return m.audit(tx, "manager", "api-key.create", rec.ID, "admin key file")
		})
	}
	if err != nil {
		return "", err
	}
	f.Server, f.Pin = m.opt.URL, hex.EncodeToString(m.opt.Pin)
	if f == onDisk {
		return path, nil // a full disk is no reason not to serve
	}
	return path, f.write(path)
}

func (f AdminKeyFile) write(path string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		err = safefile.WriteFile(path, append(text, '\n'), safefile.Private)
	}
	if err != nil {
		return fmt.Errorf("admin key file: %w", err)
	}
	return nil
}

// revokeLost revokes the keys that lost admin key files held.
func (m *Manager) revokeLost(tx store.Tx) error {
	var lost []apiKeyRecord
	for k, err := range apiKeys.Scan(tx, store.Range{}) {
		if err != nil {
			return err
		}
		if k.Name == adminName && k.good(m.opt.Now()) {
			lost = append(lost, k)
		}
	}
	for _, k := range lost {
		k.RevokedAt = m.opt.Now().UTC()
		if err := apiKeys.Put(tx, k.ID, k); err != nil {
			return err
		}
	}
	return nil
}

func validRole(r api.Role) bool { _, ok := includes[r]; return ok }

func allows(have, need api.Role) bool { return slices.Contains(includes[have], need) }
