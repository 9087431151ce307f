package manager

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

const (
	caFile   = "ca.pem" // certificate and key
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 90 * 24 * time.Hour
)

// authority is the Manager's own CA. Tokens and admin key files carry its pin, so nothing has to be installed anywhere.
// Its certificates live in memory only and are replaced in time.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	now  func() time.Time
	names

	mu   sync.Mutex
	leaf *tls.Certificate
}

// names are what the certificate is for.
type names struct {
	dns []string
	ips []net.IP
}

func (n *names) add(host string) {
	if ip := net.ParseIP(host); ip != nil {
		if !slices.ContainsFunc(n.ips, ip.Equal) {
			n.ips = append(n.ips, ip)
		}
	} else if host != "" && !slices.Contains(n.dns, host) {
		n.dns = append(n.dns, host)
	}
}

// openAuthority reads or makes the CA in dir.
func openAuthority(dir string, now func() time.Time) (*authority, error) {
	a := &authority{now: now}
	path := filepath.Join(dir, caFile)
	text, err := safefile.ReadFile(path, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = newAuthority(path, now())
	}
	if err != nil {
		return nil, fmt.Errorf("own CA: %w", err)
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("own CA %s: %w", path, err)
	}
	a.cert = pair.Leaf
	a.key, _ = pair.PrivateKey.(crypto.Signer)
	if !a.cert.IsCA || a.key == nil {
		return nil, fmt.Errorf("own CA %s holds no CA certificate and key", path)
	}
	return a, nil
}

func newAuthority(path string, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Pinta Manager CA"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}, &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "Pinta Manager CA"}}, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: der}, {Type: "PRIVATE KEY", Bytes: private}} {
		if err := pem.Encode(&b, block); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), safefile.WriteFile(path, b.Bytes(), safefile.Private)
}

// pin is what tokens carry.
func (a *authority) pin() []byte {
	p := settings.Fingerprint(a.cert)
	return p[:]
}

// certificate returns one with at least a third of its life to come, together with the CA, which a pinning client needs.
func (a *authority) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if a.leaf != nil && now.Add(leafLife/3).Before(a.leaf.Leaf.NotAfter) {
		return a.leaf, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Pinta Manager"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: a.dns, IPAddresses: a.ips,
	}, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a.leaf = &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}
	return a.leaf, nil
}
