package api

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"fmt"

	jose "github.com/go-jose/go-jose/v4"
)

// SignEnrol makes the body of POST /enroll: general JSON serialization, signed by the token's key and the device's key.
func SignEnrol(r *EnrolRequest, token, device crypto.Signer) ([]byte, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode enrolment: %w", err)
	}
	s, err := jose.NewMultiSigner([]jose.SigningKey{signingKey(token), signingKey(device)}, options(KindEnrol, false))
	if err != nil {
		return nil, fmt.Errorf("sign enrolment: %w", err)
	}
	j, err := s.Sign(payload)
	if err != nil {
		return nil, fmt.Errorf("sign enrolment: %w", err)
	}
	return []byte(j.FullSerialize()), nil
}

// SignedEnrol is an enrolment request that is read but not yet believed: the token's key has to be looked up by what it
// says.
type SignedEnrol struct {
	Request EnrolRequest
	Device  ed25519.PublicKey // as Request says
	jws     *jose.JSONWebSignature
}

// ParseEnrol reads the body of POST /enroll. Errors: ErrMalformed, ErrSchema, and ErrSignature for another algorithm.
func ParseEnrol(body []byte) (*SignedEnrol, error) {
	if len(body) > MaxEnrol {
		return nil, fmt.Errorf("%s is over %d bytes: %w", KindEnrol, MaxEnrol, ErrMalformed)
	}
	if err := scan(body); err != nil {
		return nil, fmt.Errorf("%s %v: %w", KindEnrol, err, ErrMalformed)
	}
	// Nothing beside what is signed: headers outside of the signatures could say anything.
	var outer struct {
		Payload    string `json:"payload"`
		Signatures []struct {
			Protected string `json:"protected"`
			Signature string `json:"signature"`
		} `json:"signatures"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if d.Decode(&outer) != nil {
		return nil, fmt.Errorf("%s has members that are not signed: %w", KindEnrol, ErrMalformed)
	}
	j, err := jose.ParseSignedJSON(string(body), algorithms)
	if err != nil {
		if isAlgorithm(err) {
			return nil, fmt.Errorf("%s by an algorithm other than EdDSA: %w", KindEnrol, ErrSignature)
		}
		return nil, fmt.Errorf("%s: %w", KindEnrol, ErrMalformed)
	}
	if len(j.Signatures) != 2 {
		return nil, fmt.Errorf("%s needs the signatures of token and device: %w", KindEnrol, ErrMalformed)
	}
	for _, s := range j.Signatures {
		if typ, _ := s.Protected.ExtraHeaders[jose.HeaderType].(string); typ != string(KindEnrol) {
			return nil, fmt.Errorf("document is no %s: %w", KindEnrol, ErrMalformed)
		}
	}
	e := &SignedEnrol{jws: j}
	if err := decode(j.UnsafePayloadWithoutVerification(), &e.Request); err != nil {
		return nil, err
	}
	if e.Device, err = DecodeKey(e.Request.Device.PublicKey); err != nil {
		return nil, err
	}
	return e, nil
}

// Verify checks both signatures. The device's proves that the sender holds the key that it wants enrolled.
func (e *SignedEnrol) Verify(token ed25519.PublicKey) error {
	if token.Equal(e.Device) {
		return fmt.Errorf("%s uses the token's key for the device: %w", KindEnrol, ErrSignature)
	}
	for _, pub := range []ed25519.PublicKey{token, e.Device} {
		if _, _, payload, err := e.jws.VerifyMulti(pub); err != nil || payload == nil {
			return fmt.Errorf("%s: %w", KindEnrol, ErrSignature)
		}
	}
	return nil
}
