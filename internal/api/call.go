package api

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

const (
	// CallLife is the longest life of a device JWT (manager.md 2).
	CallLife = 120 * time.Second
	// CallAhead is how far a device's clock may be ahead of the Manager's.
	CallAhead = 60 * time.Second
)

var (
	// ErrAudience: made for another Manager.
	ErrAudience = errors.New("made for another audience")
	// ErrClock: expired, or from the future.
	ErrClock = errors.New("outside its time")
	// ErrMismatch: made for another request.
	ErrMismatch = errors.New("made for another request")
)

// Caller is a device as it signs its calls.
type Caller struct {
	DeviceID, Audience string
	Boot               string // id of this boot of the machine
	Key                crypto.Signer
}

// Authorize puts a JWT for exactly this request into its header. now is the Manager's time as far as it is known.
func (c Caller) Authorize(r *http.Request, body []byte, now time.Time) error {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	claims, err := json.Marshal(DeviceClaims{
		Iss: c.DeviceID, Aud: c.Audience, Iat: now.Unix(), Exp: now.Add(CallLife).Unix(),
		Jti: base64.RawURLEncoding.EncodeToString(id[:]), Req: RequestHash(r.Method, r.URL.RequestURI(), body), Boot: c.Boot,
	})
	if err != nil {
		return fmt.Errorf("encode claims: %w", err)
	}
	jwt, err := signCompact(KindDevice, claims, MaxJWT, c.Key, false)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+jwt)
	return nil
}

// RequestHash binds a JWT to a request: base64url(SHA-256(method LF path-and-query LF body as sent)).
func RequestHash(method, uri string, body []byte) string {
	h := sha256.New()
	_, _ = io.WriteString(h, method+"\n"+uri+"\n") // hash.Hash never fails
	_, _ = h.Write(body)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Call is a device JWT that is read but not yet believed.
type Call struct {
	Claims DeviceClaims
	KeyID  string
	jws    *jose.JSONWebSignature
}

// ParseCall reads a JWT. Errors: ErrMalformed, and ErrSignature for another algorithm.
func ParseCall(jwt string) (*Call, error) {
	j, err := parseCompact(jwt, KindDevice, MaxJWT)
	if err != nil {
		return nil, err
	}
	c := &Call{jws: j, KeyID: j.Signatures[0].Protected.KeyID}
	payload := j.UnsafePayloadWithoutVerification()
	if err := scan(payload); err != nil {
		return nil, fmt.Errorf("%s %v: %w", KindDevice, err, ErrMalformed)
	}
	if err := json.Unmarshal(payload, &c.Claims); err != nil {
		return nil, fmt.Errorf("%s has a claim of the wrong type: %w", KindDevice, ErrMalformed)
	}
	if !c.Claims.inBounds() {
		return nil, fmt.Errorf("%s has a claim out of its bounds: %w", KindDevice, ErrMalformed)
	}
	return c, nil
}

func (k DeviceClaims) inBounds() bool {
	const life = int64(CallLife / time.Second)
	return k.Iss != "" && len(k.Iss) <= 64 && len(k.Jti) >= 16 && len(k.Jti) <= 64 && len(k.Boot) <= 64 &&
		k.Iat > 0 && k.Exp > k.Iat && k.Exp <= k.Iat+life
}

// Verify checks the call by the device's key, in this order: signature, audience, time. Errors: ErrSignature,
// ErrAudience, ErrClock. It needs no body, so that a stranger's isn't read; Match is due when the body is there. That the
// jti is new is the caller's to check.
func (c *Call) Verify(pub ed25519.PublicKey, audience string, now time.Time) error {
	if _, err := c.jws.Verify(pub); err != nil {
		return fmt.Errorf("%s: %w", KindDevice, ErrSignature)
	}
	switch k := c.Claims; {
	case k.Aud != audience:
		return fmt.Errorf("%s: %w", KindDevice, ErrAudience)
	case now.Unix() >= k.Exp || k.Iat > now.Add(CallAhead).Unix():
		return fmt.Errorf("%s: %w", KindDevice, ErrClock)
	}
	return nil
}

// Match checks that the call was made for this request: ErrMismatch if not.
func (c *Call) Match(r *http.Request, body []byte) error {
	if c.Claims.Req != RequestHash(r.Method, r.URL.RequestURI(), body) {
		return fmt.Errorf("%s: %w", KindDevice, ErrMismatch)
	}
	return nil
}
