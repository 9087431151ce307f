package api

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	jose "github.com/go-jose/go-jose/v4"
)

// The only algorithm. It is pinned where a document is parsed, so `none` or HMAC never reach a key.
var algorithms = []jose.SignatureAlgorithm{jose.EdDSA}

// Kind is the typ header of a signed document. A signature made for one kind is never good for another.
type Kind string

const (
	KindEnrol      Kind = "pinta-enrol+jws"
	KindEnrolled   Kind = "pinta-enrolled+jws"
	KindKeys       Kind = "pinta-keys+jws"
	KindConfig     Kind = "pinta-config+jws"
	KindOverride   Kind = "pinta-override+jws"
	KindMove       Kind = "pinta-move+jws"
	KindAction     Kind = "pinta-action+jws"
	KindRetirement Kind = "pinta-retirement+jws"
	KindRotate     Kind = "pinta-rotate+jws"
	KindDevice     Kind = "pinta-device+jwt"
)

// Size caps of signed documents in bytes, as they travel.
const (
	MaxEnrol     = 16 << 10
	MaxConfig    = 8 << 20
	MaxStatement = 64 << 10
	MaxJWT       = 4 << 10
)

var (
	// ErrMalformed: the document can't be read, isn't of its kind or breaks its schema.
	ErrMalformed = errors.New("malformed document")
	// ErrSignature: a signature is missing, wrong, by an unknown key or by another algorithm.
	ErrSignature = errors.New("signature doesn't hold")
	// ErrSchema: the document's schema is newer than this code.
	ErrSchema = errors.New("schema is not known")
)

// Document is a signed document's payload.
type Document interface{ schema() int }

func (d *EnrolRequest) schema() int { return d.Schema }
func (d *EnrolReply) schema() int   { return d.Schema }
func (d *KeyStatement) schema() int { return d.Schema }
func (d *KeyRotation) schema() int  { return d.Schema }
func (d *GuardConfig) schema() int  { return d.Schema }
func (d *Override) schema() int     { return d.Schema }
func (d *GroupMove) schema() int    { return d.Schema }
func (d *Action) schema() int       { return d.Schema }
func (d *Retirement) schema() int   { return d.Schema }

// kindOf ties each document type to its typ header and size cap.
func kindOf(d Document) (Kind, int) {
	switch d.(type) {
	case *EnrolRequest:
		return KindEnrol, MaxEnrol
	case *EnrolReply:
		return KindEnrolled, MaxStatement
	case *KeyStatement:
		return KindKeys, MaxStatement
	case *KeyRotation:
		return KindRotate, MaxStatement
	case *GuardConfig:
		return KindConfig, MaxConfig
	case *Override:
		return KindOverride, MaxStatement
	case *GroupMove:
		return KindMove, MaxStatement
	case *Action:
		return KindAction, MaxStatement
	case *Retirement:
		return KindRetirement, MaxStatement
	}
	panic("api: document of no kind") // the interface is sealed by schema
}

// Thumbprint is the RFC 7638 thumbprint of an Ed25519 key: the fingerprint that a token carries for the root key.
func Thumbprint(pub ed25519.PublicKey) [sha256.Size]byte {
	return sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + EncodeKey(pub) + `"}`))
}

// KeyID is the kid of a key: its thumbprint in base64url.
func KeyID(pub ed25519.PublicKey) string {
	t := Thumbprint(pub)
	return base64.RawURLEncoding.EncodeToString(t[:])
}

// EncodeKey is the wire form of a public key: base64url without padding.
func EncodeKey(pub ed25519.PublicKey) string { return base64.RawURLEncoding.EncodeToString(pub) }

// DecodeKey is the inverse of EncodeKey.
func DecodeKey(s string) (ed25519.PublicKey, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("public key: %w", ErrMalformed)
	}
	return b, nil
}

// JWK is the public key as a key set holds it.
func JWK(pub ed25519.PublicKey) Key {
	return Key{Kty: "OKP", Crv: "Ed25519", X: EncodeKey(pub), Kid: KeyID(pub), Use: "sig", Alg: string(jose.EdDSA)}
}

// Keys are keys by kid.
type Keys map[string]ed25519.PublicKey

// KeysOf makes Keys of public keys.
func KeysOf(pubs ...ed25519.PublicKey) Keys {
	m := Keys{}
	for _, p := range pubs {
		m[KeyID(p)] = p
	}
	return m
}

// ParseKeys reads a key set; a key of another type, or a kid that is not the key's thumbprint, is an error.
func ParseKeys(set []Key) (Keys, error) {
	m := Keys{}
	for _, k := range set {
		pub, err := DecodeKey(k.X)
		if err != nil || k.Kty != "OKP" || k.Crv != "Ed25519" || k.Kid != KeyID(pub) {
			return nil, fmt.Errorf("key set: %w", ErrMalformed)
		}
		m[k.Kid] = pub
	}
	return m, nil
}

// Sign makes the compact JWS of a document. The key is an ed25519.PrivateKey, or a signer that keeps it elsewhere.
func Sign(d Document, key crypto.Signer) (string, error) { return sign(d, key, false) }

// SignRoot is Sign with the public key embedded: for the documents of the root key, of which a device knows the
// thumbprint only.
func SignRoot(d Document, key crypto.Signer) (string, error) { return sign(d, key, true) }

func sign(d Document, key crypto.Signer, embed bool) (string, error) {
	kind, limit := kindOf(d)
	payload, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", kind, err)
	}
	return signCompact(kind, payload, limit, key, embed)
}

func signCompact(kind Kind, payload []byte, limit int, key crypto.Signer, embed bool) (string, error) {
	s, err := jose.NewSigner(signingKey(key), options(kind, embed))
	if err != nil {
		return "", fmt.Errorf("sign %s: %w", kind, err)
	}
	j, err := s.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign %s: %w", kind, err)
	}
	out, err := j.CompactSerialize()
	if err == nil && len(out) > limit {
		err = fmt.Errorf("%d bytes, at most %d", len(out), limit)
	}
	if err != nil {
		return "", fmt.Errorf("sign %s: %w", kind, err)
	}
	return out, nil
}

func options(kind Kind, embed bool) *jose.SignerOptions {
	return (&jose.SignerOptions{EmbedJWK: embed}).WithType(jose.ContentType(kind))
}

func signingKey(key crypto.Signer) jose.SigningKey {
	pub := key.Public().(ed25519.PublicKey)
	var k any = opaque{key, pub}
	if priv, ok := key.(ed25519.PrivateKey); ok {
		k = jose.JSONWebKey{Key: priv, KeyID: KeyID(pub)}
	}
	return jose.SigningKey{Algorithm: jose.EdDSA, Key: k}
}

// opaque lets a key that can't be read (a key store's) sign.
type opaque struct {
	crypto.Signer
	pub ed25519.PublicKey
}

func (o opaque) Public() *jose.JSONWebKey {
	return &jose.JSONWebKey{Key: o.pub, KeyID: KeyID(o.pub), Algorithm: string(jose.EdDSA), Use: "sig"}
}
func (o opaque) Algs() []jose.SignatureAlgorithm { return algorithms }
func (o opaque) SignPayload(payload []byte, _ jose.SignatureAlgorithm) ([]byte, error) {
	return o.Sign(nil, payload, crypto.Hash(0))
}

// Verify checks a compact JWS by one of keys and decodes its document strictly. Errors: ErrMalformed, ErrSignature,
// ErrSchema. Times, audience and addressee are the caller's to check.
func Verify(doc string, d Document, keys Keys) error {
	kind, limit := kindOf(d)
	payload, err := verifyCompact(doc, kind, limit, func(h jose.Header) ed25519.PublicKey { return keys[h.KeyID] })
	if err != nil {
		return err
	}
	return decode(payload, d)
}

// VerifyRoot is Verify for a document of the root key, known by its thumbprint.
func VerifyRoot(doc string, d Document, root [sha256.Size]byte) error {
	kind, limit := kindOf(d)
	payload, err := verifyCompact(doc, kind, limit, func(h jose.Header) ed25519.PublicKey {
		if h.JSONWebKey == nil {
			return nil
		}
		if pub, ok := h.JSONWebKey.Key.(ed25519.PublicKey); ok && len(pub) == ed25519.PublicKeySize && Thumbprint(pub) == root {
			return pub
		}
		return nil
	})
	if err != nil {
		return err
	}
	return decode(payload, d)
}

func verifyCompact(doc string, kind Kind, limit int, find func(jose.Header) ed25519.PublicKey) ([]byte, error) {
	j, err := parseCompact(doc, kind, limit)
	if err != nil {
		return nil, err
	}
	pub := find(j.Signatures[0].Protected)
	if pub == nil {
		return nil, fmt.Errorf("%s by a key that is not known: %w", kind, ErrSignature)
	}
	payload, err := j.Verify(pub)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, ErrSignature)
	}
	return payload, nil
}

func parseCompact(doc string, kind Kind, limit int) (*jose.JSONWebSignature, error) {
	if len(doc) > limit {
		return nil, fmt.Errorf("%s is over %d bytes: %w", kind, limit, ErrMalformed)
	}
	j, err := jose.ParseSignedCompact(doc, algorithms)
	if err != nil {
		if isAlgorithm(err) {
			return nil, fmt.Errorf("%s by an algorithm other than EdDSA: %w", kind, ErrSignature)
		}
		return nil, fmt.Errorf("%s: %w", kind, ErrMalformed)
	}
	if typ, _ := j.Signatures[0].Protected.ExtraHeaders[jose.HeaderType].(string); typ != string(kind) {
		return nil, fmt.Errorf("document is no %s: %w", kind, ErrMalformed)
	}
	return j, nil
}

func isAlgorithm(err error) bool {
	var e *jose.ErrUnexpectedSignatureAlgorithm
	return errors.As(err, &e)
}

// decode reads a verified payload. The schema is looked at first: what a newer one says can't be judged strictly.
func decode(payload []byte, d Document) error {
	kind, _ := kindOf(d)
	var s struct {
		Schema int `json:"schema"`
	}
	if err := scan(payload); err != nil {
		return fmt.Errorf("%s %v: %w", kind, err, ErrMalformed)
	}
	if err := json.Unmarshal(payload, &s); err != nil {
		return fmt.Errorf("%s has no schema: %w", kind, ErrMalformed)
	}
	if s.Schema > Schema {
		return fmt.Errorf("%s has schema %d, at most %d is known: %w", kind, s.Schema, Schema, ErrSchema)
	}
	if err := Strict(payload, d); err != nil {
		return fmt.Errorf("%s %v: %w", kind, err, ErrMalformed)
	}
	if d.schema() < 1 {
		return fmt.Errorf("%s has no schema: %w", kind, ErrMalformed)
	}
	return nil
}

// VerifyRotation checks a rotation document by the key that it offers: the sender holds that key.
func VerifyRotation(doc string) (*KeyRotation, ed25519.PublicKey, error) {
	j, err := parseCompact(doc, KindRotate, MaxStatement)
	if err != nil {
		return nil, nil, err
	}
	var r KeyRotation
	if err := decode(j.UnsafePayloadWithoutVerification(), &r); err != nil {
		return nil, nil, err
	}
	pub, err := DecodeKey(r.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	if _, err := j.Verify(pub); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", KindRotate, ErrSignature)
	}
	return &r, pub, nil
}
