package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"
)

// ErrPin: the server's chain doesn't lead to the pinned CA.
var ErrPin = errors.New("the server's certificate is not of the pinned CA; if the Manager's CA was replaced, a new token or key file is needed, else something between intercepts TLS")

// Pin is the SHA-256 of a CA certificate's SubjectPublicKeyInfo.
func Pin(ca *x509.Certificate) [sha256.Size]byte { return sha256.Sum256(ca.RawSubjectPublicKeyInfo) }

// PinTLS returns a client configuration that trusts exactly the CA with this pin, which the server must send in its chain.
// host (of the Manager's URL, without port) and validity are checked as usual; the system's trust store isn't asked.
func PinTLS(pin [sha256.Size]byte, host string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		ServerName:         host,
		InsecureSkipVerify: true, // VerifyConnection below does it, by the pin
		Time:               now,
		VerifyConnection: func(s tls.ConnectionState) error {
			roots, inter := x509.NewCertPool(), x509.NewCertPool()
			found := false
			if len(s.PeerCertificates) == 0 {
				return ErrPin
			}
			for _, c := range s.PeerCertificates[1:] {
				if p := Pin(c); c.IsCA && subtle.ConstantTimeCompare(p[:], pin[:]) == 1 {
					roots.AddCert(c)
					found = true
				} else {
					inter.AddCert(c)
				}
			}
			if !found {
				return ErrPin
			}
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
				DNSName: hostName(host), Roots: roots, Intermediates: inter, CurrentTime: now(),
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			})
			return err
		},
	}
}

// hostName brackets an IPv6 address, as x509 expects it.
func hostName(s string) string {
	if ip := net.ParseIP(s); ip != nil && ip.To4() == nil {
		return "[" + s + "]"
	}
	return s
}
