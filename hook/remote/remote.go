// Package remote reaches what is not on this machine: TLS, proxies, other
// hosts. It is the only package of the hook that imports crypto/tls.
//
// Being linked is what costs: a program that does nothing but link crypto/tls
// takes 1.4-1.5 times an empty one, most of it page faults of its packages'
// initialisation (about 60 of 190, a third of the time in crypto/internal/
// fips140). Doing whole local runs in an init function that Go's order puts
// before that of crypto/x509 was tried and gained less than 0.05, since the
// rest of crypto is initialised first and the main goroutine is locked to its
// thread until then.
package remote

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/post"
	"github.com/pinta-ai/pinta-agent/internal/local"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

func init() { post.Remote = connect }

// connect connects to t through the configured proxy, if one is to be used,
// and secures the connection for https.
func connect(t post.Target, env post.Env, deadline time.Time) (local.Conn, post.Route, error) {
	dialer := &net.Dialer{Deadline: deadline}
	proxy, err := proxyFor(t, env)
	if err != nil {
		return nil, post.Route{}, err
	}
	first := t
	if proxy != nil {
		first = *proxy
	}
	conn, err := dialer.Dial("tcp", net.JoinHostPort(strings.TrimSuffix(first.Host, "."), first.Port))
	if err != nil {
		return nil, post.Route{}, err
	}
	_ = conn.SetDeadline(deadline)
	way, err := post.Route{}, error(nil)
	if proxy != nil {
		conn, way, err = throughProxy(conn, t, *proxy, env)
	}
	if err == nil && t.TLS {
		conn, err = secure(conn, t.Host, env)
	}
	if err != nil {
		_ = conn.Close()
		return nil, post.Route{}, err
	}
	return conn, way, nil
}

// throughProxy makes conn, which leads to proxy, lead to t.
func throughProxy(conn net.Conn, t, proxy post.Target, env post.Env) (net.Conn, post.Route, error) {
	if proxy.TLS {
		var err error
		if conn, err = secure(conn, proxy.Host, env); err != nil {
			return conn, post.Route{}, err
		}
	}
	if !t.TLS {
		return conn, post.Route{Prefix: "http://" + t.Authority(), Auth: proxy.Auth}, nil
	}
	return conn, post.Route{}, post.Tunnel(conn, t, proxy.Auth)
}

func secure(conn net.Conn, host string, env post.Env) (net.Conn, error) {
	c := tls.Client(conn, &tls.Config{ServerName: strings.TrimSuffix(host, "."), RootCAs: roots(env), MinVersion: tls.VersionTLS12})
	return c, c.Handshake()
}

// maxCA is the size of the largest certificate file that is read.
const maxCA = 4 << 20

// roots are the system's certificates and, in addition, those of the usual
// variables. nil means the system's alone. A file that can't be read adds
// nothing; verification is never switched off.
func roots(env post.Env) *x509.CertPool {
	var extra [][]byte
	for _, key := range [...]string{"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"} {
		if path := env(key); path != "" {
			if pem, err := readSystem(path, maxCA); err == nil {
				extra = append(extra, pem)
			}
		}
	}
	// crypto/x509 would take SSL_CERT_FILE instead of the system's store.
	_ = os.Unsetenv("SSL_CERT_FILE")
	if extra == nil {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, pem := range extra {
		pool.AppendCertsFromPEM(pem)
	}
	return pool
}

// readSystem reads a file that belongs to the administrator, who may have
// symlinked it.
func readSystem(path string, limit int64) ([]byte, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return safefile.ReadFile(path, limit)
}
