package api

import (
	"crypto/sha256"
	"crypto/x509"
)

// Pin is the SHA-256 of a certificate's SubjectPublicKeyInfo: what a token and an admin key file carry of the Manager's own
// CA.
func Pin(ca *x509.Certificate) [sha256.Size]byte { return sha256.Sum256(ca.RawSubjectPublicKeyInfo) }
