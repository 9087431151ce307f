package remote

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/post"
)

func noEnv(string) string { return "" }

func vars(kv ...string) post.Env {
	return func(key string) string {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == key {
				return kv[i+1]
			}
		}
		return ""
	}
}

func soon() time.Time { return time.Now().Add(5 * time.Second) }

func TestNoProxy(t *testing.T) {
	for _, c := range []struct {
		host, list string
		want       bool
	}{
		{"a.example", "", false}, {"a.example", "*", true}, {"a.example", "example", true}, {"a.example", ".example", true}, {"a.example", "*.example", true}, {"a.example", "b, a.EXAMPLE", true},
		{"a.example", "a.example:443", true}, {"a.example", "a.example:80", false}, {"ba.example", "a.example", false}, {"10.1.2.3", "10.0.0.0/8", true}, {"11.1.2.3", "10.0.0.0/8", false},
		{"10.1.2.3", "10.1.2.3", true}, {"2001:db8::1", "[2001:db8::1]", true}, {"2001:db8::1", "2001:db8::/32", true},
	} {
		if got := exempt(c.host, "443", c.list); got != c.want {
			t.Errorf("%s in %q: %v", c.host, c.list, got)
		}
	}
}

func TestProxyChoice(t *testing.T) {
	far, secure := post.Target{Host: "far.example", Port: "80"}, post.Target{TLS: true, Host: "far.example", Port: "443"}
	for _, c := range []struct {
		name string
		t    post.Target
		env  post.Env
		want string
	}{
		{"none", far, noEnv, ""},
		{"lower case first", far, vars("http_proxy", "http://p:1", "HTTP_PROXY", "http://q:2"), "p:1"},
		{"upper case", far, vars("HTTP_PROXY", "q:2"), "q:2"},
		{"by scheme", secure, vars("HTTP_PROXY", "q:2"), ""},
		{"https", secure, vars("HTTPS_PROXY", "https://q:2"), "q:2"},
		{"exempt", far, vars("HTTP_PROXY", "q:2", "NO_PROXY", "example"), ""},
		{"loopback", post.Target{Host: "127.1", Port: "80"}, vars("HTTP_PROXY", "q:2"), ""},
		{"socks", far, vars("HTTP_PROXY", "socks5://q:2"), "error"},
	} {
		got, err := proxyFor(c.t, c.env)
		text := ""
		if err != nil {
			text = "error"
		} else if got != nil {
			text = got.Host + ":" + got.Port
		}
		if text != c.want {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
}

func TestHostsAlias(t *testing.T) {
	const hosts = "# c\n127.0.0.1 localhost\n127.0.1.1\tmyhost.local myhost # x\n10.0.0.1 far\n::1 six\n"
	for host, want := range map[string]bool{"myhost.local": true, "MYHOST": true, "six": true, "far": false, "x": false, "": false} {
		if got := hostsLoopback(hosts, host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer s.Close()
	s.Config.ErrorLog = nil
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	link := ca + ".link"
	if err := os.Symlink(ca, link); err != nil {
		link = ca
	}
	for name, c := range map[string]struct {
		env post.Env
		ok  bool
	}{
		"unknown issuer":             {noEnv, false},
		"certificate of OTLP":        {vars("OTEL_EXPORTER_OTLP_CERTIFICATE", ca), true},
		"certificate by symlink":     {vars("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", link), true},
		"certificate of Node":        {vars("SSL_CERT_FILE", "/etc/pinta/missing.pem", "NODE_EXTRA_CA_CERTS", ca), true},
		"missing file, still strict": {vars("SSL_CERT_FILE", "/etc/pinta/missing.pem"), false},
		"no certificate in the file": {vars("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/passwd"), false},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := post.Do(post.Request{URL: s.URL, Body: []byte("x"), Limit: 10}, c.env, soon())
			if (err == nil) != c.ok || c.ok && string(a.Body) != "ok" {
				t.Errorf("%q %v", a.Body, err)
			}
		})
	}
}

// TestThroughProxy sends plain requests whole and secure ones by CONNECT.
func TestThroughProxy(t *testing.T) {
	var seen []string
	origin := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "secret") }))
	defer origin.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: origin.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
		if r.Method != "CONNECT" {
			_, _ = io.WriteString(w, "plain")
			return
		}
		if strings.Contains(r.RequestURI, "refused") {
			w.WriteHeader(403)
			return
		}
		far, err := net.Dial("tcp", origin.Listener.Addr().String())
		if err != nil {
			w.WriteHeader(502)
			return
		}
		near, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
		_, _ = io.Copy(near, far)
		_ = near.Close()
	}))
	defer proxy.Close()
	env := vars("HTTP_PROXY", strings.Replace(proxy.URL, "://", "://u:p@", 1), "HTTPS_PROXY", proxy.URL, "OTEL_EXPORTER_OTLP_CERTIFICATE", ca)
	for url, want := range map[string]string{
		"http://far.invalid:81/a?b":    "plain",
		"https://example.com/x":        "secret",
		"https://refused.example.com/": "",
	} {
		a, err := post.Do(post.Request{URL: url, Body: []byte("x"), Limit: 10}, env, soon())
		if string(a.Body) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v", url, a.Body, err)
		}
	}
	all := strings.Join(seen, "\n")
	for _, want := range []string{"POST http://far.invalid:81/a?b Basic dTpw", "CONNECT example.com:443 "} {
		if !strings.Contains(all, want) {
			t.Errorf("the proxy saw\n%s\nbut not %s", all, want)
		}
	}
}
