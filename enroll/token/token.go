// Package token is the codec of the enrolment token: what one string carries,
// how it is written and how it is read back from whatever a deployment script
// made of it. It is not the delivery (package enroll) and not the Manager's
// book-keeping of uses, expiry and scope.
//
// Form (manager.md 1):
//
//	pinta_ BODY CHECK
//
// BODY is a big-endian number in base 62 (digits 0-9a-zA-Z) over the bytes
//
//	version(1)=1  flags(1)  id(16, ULID)  root(32)  [pin(32)]  seed(32)  URL(rest, UTF-8)
//
// with flag bit 0 for "a TLS pin follows"; CHECK is the CRC-32 (IEEE) of
// everything before it, six digits in base 62. The whole string stays within
// [A-Za-z0-9_], so cmd, sh, XML, JSON and the registry leave it alone.
package token

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"net"
	"net/url"
	"strings"

	"github.com/oklog/ulid/v2"
)

const (
	// Prefix starts every token; secret scanners look for it.
	Prefix = "pinta_"
	// MaxLen bounds a token in bytes; a longer one is refused unread.
	MaxLen = 1024

	version  = 1
	flagPin  = 1
	base     = 62
	checkLen = 6
	digits   = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// Why a text is not a usable token. None of them ever quotes the text.
var (
	ErrEmpty       = errors.New("the enrolment token is empty: pass the string that `pinta-manager token create` printed")
	ErrPlaceholder = errors.New("the enrolment token is a placeholder that was never filled in: put the real token in its place")
	ErrTwoLines    = errors.New("two different lines where one enrolment token is expected: keep the one that is meant")
	ErrFormat      = errors.New("not a pinta enrolment token (it starts with " + Prefix + "): copy the whole string again")
	ErrChecksum    = errors.New("the enrolment token is damaged (its checksum is wrong): copy the whole string again")
	ErrVersion     = errors.New("the enrolment token is of a newer kind than this agent knows: update the agent")
)

// Fingerprint is a SHA-256: of a root signing key (RFC 7638 thumbprint,
// api.Thumbprint) or of a certificate's SubjectPublicKeyInfo (settings.Fingerprint).
type Fingerprint [sha256.Size]byte

// IsZero says that there is none.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// String is unpadded base64url, the form of a key id.
func (f Fingerprint) String() string { return base64.RawURLEncoding.EncodeToString(f[:]) }

// MarshalText makes it String's form in JSON, too.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalJSON is the inverse of MarshalText. It takes an array of the bytes,
// too: a state on disk may have one.
func (f *Fingerprint) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		return json.Unmarshal(text, (*[sha256.Size]byte)(f))
	}
	var s string
	err := json.Unmarshal(text, &s)
	if err == nil {
		*f, err = ParseFingerprint(s)
	}
	return err
}

// ParseFingerprint reads what String wrote.
func ParseFingerprint(s string) (f Fingerprint, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != len(f) {
		return Fingerprint{}, errors.New("not a fingerprint: 43 characters of base64url are expected")
	}
	return Fingerprint(b), nil
}

// Token is what an enrolment token says. It prints as a mask; only Reveal gives
// the string itself.
type Token struct {
	Manager string      // base URL without a trailing slash
	ID      string      // ULID, the name the Manager knows it by
	Root    Fingerprint // of the Manager's root signing key
	Pin     Fingerprint // of the Manager's own CA or certificate; zero: the system's trust store decides

	// A pointer, because fmt prints the bytes of an array inside a foreign
	// struct without asking for its methods.
	seed *[ed25519.SeedSize]byte
}

// New makes a token with a fresh secret. pin may be zero. The Manager keeps
// Key().Public() and forgets the rest.
func New(manager, id string, root, pin Fingerprint) (Token, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Token{}, err
	}
	return FromKey(key, manager, id, root, pin)
}

// FromKey is New for a secret that was made before, so that whoever creates a
// token can register its public key first and never send the secret.
func FromKey(key ed25519.PrivateKey, manager, id string, root, pin Fingerprint) (Token, error) {
	if len(key) != ed25519.PrivateKeySize {
		return Token{}, errors.New("a token needs an Ed25519 key")
	}
	t := Token{ID: id, Root: root, Pin: pin, seed: new([ed25519.SeedSize]byte)}
	copy(t.seed[:], key.Seed())
	var err error
	if t.Manager, err = CheckURL(manager); err != nil {
		return Token{}, err
	}
	if _, err := ulid.ParseStrict(id); err != nil {
		return Token{}, fmt.Errorf("token id: %w", err)
	}
	if root.IsZero() {
		return Token{}, errors.New("a token needs the fingerprint of the root signing key")
	}
	if s := t.Reveal(); len(s) > MaxLen {
		return Token{}, fmt.Errorf("the token would have %d characters, at most %d: use a shorter Manager URL", len(s), MaxLen)
	}
	return t, nil
}

// CheckURL returns the base URL of a Manager in the one form in which it is
// kept and compared: https (http on loopback only), no user, query or fragment,
// lower-case host, no trailing slash.
func CheckURL(raw string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return "", errors.New("the Manager URL can't be read: write it as https://host[:port]")
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	switch {
	case host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "":
		return "", errors.New("the Manager URL must be https://host[:port][/path] and nothing else")
	case u.Scheme == "https":
	case u.Scheme == "http" && (strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()):
	default:
		return "", errors.New("the Manager URL must be https (plain http on loopback only)")
	}
	return u.Scheme + "://" + strings.ToLower(u.Host) + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// Key is the signing key that the secret stands for.
func (t Token) Key() ed25519.PrivateKey {
	if t.seed == nil {
		return nil
	}
	return ed25519.NewKeyFromSeed(t.seed[:])
}

// IsZero says that there is no token.
func (t Token) IsZero() bool { return t.seed == nil }

// Reveal is the token as it is handed out. Don't log it.
func (t Token) Reveal() string {
	if t.seed == nil {
		return ""
	}
	id := ulid.MustParse(t.ID)
	raw := []byte{version, 0}
	raw = append(append(raw, id[:]...), t.Root[:]...)
	if !t.Pin.IsZero() {
		raw[1] |= flagPin
		raw = append(raw, t.Pin[:]...)
	}
	raw = append(append(raw, t.seed[:]...), t.Manager...)
	s := Prefix + new(big.Int).SetBytes(raw).Text(base)
	return s + checksum(s)
}

// String names the token without giving it away.
func (t Token) String() string {
	if t.seed == nil {
		return "(no token)"
	}
	return Prefix + "***(" + t.ID + ")"
}

// Format keeps every verb, %#v too, to the mask.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// MarshalText keeps JSON and slog to the mask.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Parse reads a token as it was delivered: see Clean for what is forgiven.
// Errors: ErrEmpty, ErrTwoLines, ErrPlaceholder, ErrFormat, ErrChecksum,
// ErrVersion.
func Parse(delivered string) (Token, error) {
	s, err := Clean([]byte(delivered))
	if err != nil {
		return Token{}, err
	}
	body, ok := strings.CutPrefix(s, Prefix)
	if !ok || len(s) > MaxLen || len(body) <= checkLen || strings.Trim(body, digits) != "" {
		return Token{}, ErrFormat
	}
	cut := len(s) - checkLen
	if checksum(s[:cut]) != s[cut:] {
		return Token{}, ErrChecksum
	}
	// The checksum holds, so what follows is no typo but a token that a
	// different program made.
	n, ok := new(big.Int).SetString(s[len(Prefix):cut], base)
	if !ok {
		return Token{}, ErrFormat
	}
	raw := n.Bytes()
	if len(raw) > 0 && raw[0] > version {
		return Token{}, ErrVersion
	}
	t := Token{seed: new([ed25519.SeedSize]byte)}
	if len(raw) < 2 || raw[0] != version || raw[1]&^flagPin != 0 {
		return Token{}, ErrFormat
	}
	hasPin := raw[1]&flagPin != 0
	raw = raw[2:]
	var id ulid.ULID
	for _, part := range []struct {
		dst  []byte
		here bool
	}{{id[:], true}, {t.Root[:], true}, {t.Pin[:], hasPin}, {t.seed[:], true}} {
		if !part.here {
			continue
		}
		if len(raw) < len(part.dst) {
			return Token{}, ErrFormat
		}
		raw = raw[copy(part.dst, raw):]
	}
	t.ID, t.Manager = id.String(), string(raw)
	// One token, one spelling: leading zeros, an unset fingerprint or a URL in
	// another form don't come from New.
	if u, err := CheckURL(t.Manager); err != nil || u != t.Manager || t.Root.IsZero() || t.Reveal() != s {
		return Token{}, ErrFormat
	}
	return t, nil
}

// checksum is the CRC-32 of s in six base-62 digits.
func checksum(s string) string {
	c := big.NewInt(int64(crc32.ChecksumIEEE([]byte(s)))).Text(base)
	return strings.Repeat("0", checkLen-len(c)) + c
}
