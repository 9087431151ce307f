package settings

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestPin: a pin stands for one server. Its CA's certificate for somebody else
// is refused, also where the server is addressed by IP and TLS sends no name.
func TestPin(t *testing.T) {
	ca, caKey := certificate(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	here := net.IPv4(127, 0, 0, 1)
	for name, c := range map[string]struct {
		leaf x509.Certificate
		pin  [32]byte
		ok   bool
	}{
		"its own":           {x509.Certificate{IPAddresses: []net.IP{here}}, Fingerprint(ca), true},
		"another address's": {x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 2)}}, Fingerprint(ca), false},
		"another name's":    {x509.Certificate{DNSNames: []string{"manager.example.com"}}, Fingerprint(ca), false},
		"expired":           {x509.Certificate{IPAddresses: []net.IP{here}, NotAfter: time.Now().Add(-time.Minute)}, Fingerprint(ca), false},
		"another pin":       {x509.Certificate{IPAddresses: []net.IP{here}}, [32]byte{1}, false},
		"no pin":            {x509.Certificate{IPAddresses: []net.IP{here}}, [32]byte{}, false}, // the system knows no such CA
	} {
		t.Run(name, func(t *testing.T) {
			leaf, key := certificate(t, &c.leaf, ca, caKey)
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, ca.Raw}, PrivateKey: key}}}
			server.StartTLS()
			defer server.Close()
			client, err := Network{Pin: Pin{Server: server.URL, SPKI: c.pin}}.HTTPClient()
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdleConnections()
			res, err := client.Get(server.URL)
			if err == nil {
				res.Body.Close()
			}
			if (err == nil) != c.ok {
				t.Errorf("error %v, want ok %v", err, c.ok)
			}
		})
	}
	if _, err := (Network{Pin: Pin{SPKI: [32]byte{1}}}).HTTPClient(); err == nil {
		t.Error("a pin without a server is taken")
	}
}

// certificate makes a certificate from a template, signed by parent or itself.
func certificate(t *testing.T, c, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore = big.NewInt(1), time.Now().Add(-time.Hour)
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	if parent == nil {
		parent, parentKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}
