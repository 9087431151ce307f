package device

import (
	"crypto/ed25519"
	"testing"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

// signRaw signs bytes that package api would not make.
func signRaw(t *testing.T, payload []byte, key ed25519.PrivateKey) string {
	t.Helper()
	return signWith(t, payload, jose.EdDSA, key, key.Public().(ed25519.PublicKey), nil)
}

// signWith signs by any algorithm and key under the kid of another.
func signWith(t *testing.T, payload []byte, algorithm jose.SignatureAlgorithm, key any, kid ed25519.PublicKey, header map[jose.HeaderKey]any) string {
	t.Helper()
	k := jose.JSONWebKey{Key: key, KeyID: api.KeyID(kid)}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: k}, (&jose.SignerOptions{ExtraHeaders: header}).WithType(jose.ContentType(api.KindConfig)))
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	out, err := j.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
