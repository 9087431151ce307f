package settings

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Network says how to reach servers outside this machine.
type Network struct {
	// Proxy is an explicit proxy URL, credentials included; empty means the
	// environment's HTTPS_PROXY, HTTP_PROXY and NO_PROXY.
	Proxy Secret
	// CAFile is a PEM bundle that is trusted in addition to the system's.
	CAFile string
	Pin    Pin
}

// Pin ties a client to one server: whoever answers must show a chain that holds
// the pinned certificate, which alone is the root, and a certificate for that
// server's host. The Manager's own CA needs no place in the system's store.
type Pin struct {
	Server string            // its URL
	SPKI   [sha256.Size]byte // of the certificate, as Fingerprint makes it; zero: no pin
}

// HTTPClient returns the one kind of client that the agent uses: HTTP/1.1 and
// 2, TLS 1.2 or later, no redirect followed (a redirect would carry secrets
// elsewhere), loopback never through a proxy, bounded waits for connection and
// headers. Time for a whole exchange is the caller's context.
func (n Network) HTTPClient() (*http.Client, error) {
	pool, err := n.roots()
	if err != nil {
		return nil, err
	}
	proxy, err := n.proxyFunc()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	if n.Pin.SPKI != [sha256.Size]byte{} {
		server, err := url.Parse(n.Pin.Server)
		if err != nil || server.Hostname() == "" {
			return nil, fmt.Errorf("the pinned server %q is no URL", n.Pin.Server)
		}
		pinTo(config, n.Pin.SPKI, server.Hostname())
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 proxy,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:       config,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: 90 * time.Second, // a config poll is held for 55 s
			IdleConnTimeout:       90 * time.Second,
			MaxIdleConnsPerHost:   2,
			ForceAttemptHTTP2:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// ProxyFor tells which proxy a request to target would use, without
// credentials; empty is a direct connection. For doctor.
func (n Network) ProxyFor(target string) (string, error) {
	proxy, err := n.proxyFunc()
	if err != nil {
		return "", err
	}
	request, err := http.NewRequest(http.MethodGet, target, nil)
	if err != nil {
		return "", err
	}
	through, err := proxy(request)
	if err != nil || through == nil {
		return "", err
	}
	return through.Redacted(), nil
}

func (n Network) roots() (*x509.CertPool, error) {
	if n.CAFile == "" {
		return nil, nil // the system's, loaded when first needed
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	bundle, err := os.ReadFile(n.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA bundle (setting caFile): %w", err)
	}
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("CA bundle %s holds no certificate: it must be PEM", n.CAFile)
	}
	return pool, nil
}

func (n Network) proxyFunc() (func(*http.Request) (*url.URL, error), error) {
	choose := http.ProxyFromEnvironment
	if n.Proxy != "" {
		explicit, err := url.Parse(n.Proxy.Reveal())
		if err != nil || explicit.Host == "" {
			return nil, errors.New("setting proxy is no URL: write it as http://host:port")
		}
		choose = http.ProxyURL(explicit)
	}
	return func(request *http.Request) (*url.URL, error) {
		if IsLoopback(request.URL.Hostname()) {
			return nil, nil
		}
		return choose(request)
	}, nil
}

// IsLoopback reports whether a host name or address means this machine.
func IsLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Fingerprint is the SHA-256 of a certificate's SubjectPublicKeyInfo: what a
// token and an admin key file carry of the Manager's own CA.
func Fingerprint(c *x509.Certificate) [sha256.Size]byte {
	return sha256.Sum256(c.RawSubjectPublicKeyInfo)
}

// pinTo replaces the trust store by the pinned certificate. Names and validity
// are still checked, by crypto/x509. The name is host: the connection's own
// ServerName is empty for an address.
func pinTo(config *tls.Config, pin [sha256.Size]byte, host string) {
	config.InsecureSkipVerify = true // VerifyConnection below verifies in full
	config.VerifyConnection = func(state tls.ConnectionState) error {
		roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
		pinned := false
		for _, c := range state.PeerCertificates {
			if Fingerprint(c) == pin {
				roots.AddCert(c)
				pinned = true
			} else {
				intermediates.AddCert(c)
			}
		}
		var err error
		if pinned {
			_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, DNSName: host})
		} else {
			err = errors.New("the server shows none of the certificates that the enrolment token pins: " +
				"a TLS-inspecting proxy stands between, or the Manager's certificate was replaced (make a new token)")
		}
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		return nil
	}
}
