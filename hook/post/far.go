package post

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// This file is the slow way: other machines, TLS, proxies.

// connectFar connects to t through the configured proxy, if one is to be used,
// and secures the connection for https.
func connectFar(t target, isLoopback bool, env Env, deadline time.Time) (local.Conn, route, error) {
	dialer := &net.Dialer{Deadline: deadline}
	proxy, err := proxyFor(t, isLoopback, env)
	if err != nil {
		return nil, route{}, err
	}
	first := t
	if proxy != nil {
		first = *proxy
	}
	conn, err := dialer.Dial("tcp", net.JoinHostPort(strings.TrimSuffix(first.host, "."), first.port))
	if err != nil {
		return nil, route{}, err
	}
	_ = conn.SetDeadline(deadline)
	way, err := route{}, error(nil)
	if proxy != nil {
		conn, way, err = throughProxy(conn, t, *proxy, env)
	}
	if err == nil && t.tls {
		conn, err = secure(conn, t.host, env)
	}
	if err != nil {
		_ = conn.Close()
		return nil, route{}, err
	}
	return conn, way, nil
}

// throughProxy makes conn, which leads to proxy, lead to t.
func throughProxy(conn net.Conn, t, proxy target, env Env) (net.Conn, route, error) {
	if proxy.tls {
		var err error
		if conn, err = secure(conn, proxy.host, env); err != nil {
			return conn, route{}, err
		}
	}
	if !t.tls {
		return conn, route{prefix: "http://" + t.authority(), auth: proxy.auth}, nil
	}
	host := net.JoinHostPort(t.host, t.port)
	var headers []Header
	if proxy.auth != "" {
		headers = append(headers, Header{"proxy-authorization", "Basic " + proxy.auth})
	}
	if _, err := conn.Write(appendRequest(nil, "CONNECT", host, host, headers)); err != nil {
		return conn, route{}, err
	}
	r := reader{src: conn}
	h, err := r.head()
	if err != nil {
		return conn, route{}, err
	}
	if h.status != 200 {
		return conn, route{}, errors.New("the proxy refused the connection: status " + strconv.Itoa(h.status))
	}
	if len(r.buf) > 0 {
		return conn, route{}, errHTTP // TLS servers don't speak first
	}
	return conn, route{}, nil
}

func secure(conn net.Conn, host string, env Env) (net.Conn, error) {
	c := tls.Client(conn, &tls.Config{ServerName: strings.TrimSuffix(host, "."), RootCAs: roots(env), MinVersion: tls.VersionTLS12})
	return c, c.Handshake()
}

// maxCA is the size of the largest certificate file that is read.
const maxCA = 4 << 20

// roots are the system's certificates and, in addition, those of the usual
// variables. nil means the system's alone. A file that can't be read adds
// nothing; verification is never switched off.
func roots(env Env) *x509.CertPool {
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

// proxyFor returns the proxy for t, nil for a direct connection.
func proxyFor(t target, isLoopback bool, env Env) (*target, error) {
	if isLoopback {
		return nil, nil
	}
	raw := ""
	if t.tls {
		raw = either(env, "https_proxy", "HTTPS_PROXY")
	} else {
		raw = either(env, "http_proxy", "HTTP_PROXY")
	}
	if raw == "" || exempt(t.host, t.port, either(env, "no_proxy", "NO_PROXY")) || aliasOfLoopback(t.host) {
		return nil, nil
	}
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	p, err := parse(raw)
	if err != nil || p.local != nil {
		return nil, errors.New("the proxy's address is no http or https URL")
	}
	return &p, nil
}

func either(env Env, lower, upper string) string {
	if v := strings.TrimSpace(env(lower)); v != "" {
		return v
	}
	return strings.TrimSpace(env(upper))
}

// exempt says whether NO_PROXY names the host: *, a name and what lies below
// it, an address, a network, each with or without a port.
func exempt(host, port, list string) bool {
	addr := net.ParseIP(host)
	host = strings.TrimSuffix(host, ".")
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if entry == "*" {
			return true
		}
		if _, network, err := net.ParseCIDR(entry); err == nil {
			if addr != nil && network.Contains(addr) {
				return true
			}
			continue
		}
		if h, p, err := net.SplitHostPort(entry); err == nil {
			if p != port {
				continue
			}
			entry = h
		}
		entry = strings.Trim(entry, "[]")
		if a := net.ParseIP(entry); a != nil {
			if addr != nil && a.Equal(addr) {
				return true
			}
			continue
		}
		entry = strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
		if entry != "" && (host == entry || strings.HasSuffix(host, "."+entry)) {
			return true
		}
	}
	return false
}

// maxHosts is how much of the hosts file is looked at.
const maxHosts = 256 << 10

// aliasOfLoopback says whether the hosts file gives host a loopback address.
// It is asked only when a proxy would be used otherwise.
func aliasOfLoopback(host string) bool {
	path := "/etc/hosts"
	if runtime.GOOS == "windows" {
		path = os.Getenv("SystemRoot") + `\System32\drivers\etc\hosts`
	}
	data, err := readSystem(path, maxHosts)
	if err != nil {
		return false
	}
	return hostsLoopback(string(data), strings.TrimSuffix(host, "."))
}

func hostsLoopback(hosts, host string) bool {
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 || loopback(fields[0]) == nil {
			continue
		}
		for _, name := range fields[1:] {
			if strings.EqualFold(strings.TrimSuffix(name, "."), host) {
				return true
			}
		}
	}
	return false
}
