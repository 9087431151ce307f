package daemon

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/installer/users"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// A caller of the loopback listener is known by a token that only its user can
// read (security.md S6). All of them derive from one secret of this machine, so
// that none needs to be kept, and the same user has the same one after a
// restart. Where no listener is configured there is no token either: the kernel
// says who calls (S19).

// relayKeyName is where the state, a 0600 file, keeps the secret.
const relayKeyName = "relay-key"

// relayTokens gives each account its token; nil where no listener is configured.
type relayTokens func(users.Account) settings.Secret

// tokens makes the secret on first need.
func (m Machine) tokens() (relayTokens, error) {
	if m.Settings == nil || m.Settings.Text(settings.KeyLoopbackListen) == "" {
		return nil, nil
	}
	key, err := relayKey(m.State)
	if err != nil {
		return nil, fmt.Errorf("key of the loopback tokens: %w", err)
	}
	return func(a users.Account) settings.Secret { return relayToken(key, a) }, nil
}

func relayKey(state *enroll.State) (key []byte, err error) {
	if err = state.Load(relayKeyName, &key); err != nil || len(key) == sha256.Size {
		return key, err
	}
	err = state.Update(relayKeyName, &key, func() error {
		if len(key) == sha256.Size {
			return nil // another process was faster
		}
		key = make([]byte, sha256.Size)
		_, err := rand.Read(key)
		return err
	})
	return key, err
}

// relayToken is base64url(HMAC-SHA256(key, name NUL uid NUL sid)).
func relayToken(key []byte, a users.Account) settings.Secret {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\x00%d\x00%s", a.Name, a.UID, a.SID)
	return settings.Secret(base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
}
