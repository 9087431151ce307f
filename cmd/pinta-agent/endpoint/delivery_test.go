//go:build unix

package endpoint

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestCollectorByProxyAndOwnCA: spans go to a collector behind a proxy that
// wants a password, whose certificate only the configured CA vouches for, with
// the config's headers; without that CA they wait (manager.md 5).
func TestCollectorByProxyAndOwnCA(t *testing.T) {
	delivered := make(chan http.Header, 10)
	collector := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			delivered <- r.Header
		}
	}))
	defer collector.Close()
	var connects atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := "Basic " + base64.StdEncoding.EncodeToString([]byte("office:pass"))
		if r.Method != http.MethodConnect || r.Host != "example.com:443" || r.Header.Get("Proxy-Authorization") != want {
			t.Errorf("the proxy was asked for %s %s, %s", r.Method, r.Host, r.Header)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		connects.Add(1)
		to, err := net.Dial("tcp", collector.Listener.Addr().String())
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusOK)
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		go func() { _, _ = io.Copy(to, from); to.Close() }()
		_, _ = io.Copy(from, to)
		from.Close()
	}))
	defer proxy.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: collector.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	through := "http://office:pass@" + strings.TrimPrefix(proxy.URL, "http://")
	config := &Config{DeviceID: "01DEVICE", Collector: "https://example.com/v1/traces", Headers: map[string]string{"x-key": "k"}}

	t.Run("with the CA", func(t *testing.T) {
		tell, socket := servedAt(t, Setup{Host: "box", Proxy: through, CAFile: ca})
		tell(toChild{Config: config})
		postSpan(t, socket)
		select {
		case h := <-delivered:
			if h.Get("X-Key") != "k" || h.Get("Content-Encoding") != "gzip" || h.Get("Proxy-Authorization") != "" {
				t.Errorf("headers %v", h)
			}
		case <-time.After(20 * time.Second):
			t.Error("no span arrived")
		}
	})
	t.Run("without it", func(t *testing.T) {
		before := connects.Load()
		tell, socket := servedAt(t, Setup{Host: "box", Proxy: through})
		tell(toChild{Config: config})
		postSpan(t, socket)
		for end := time.Now().Add(20 * time.Second); connects.Load() == before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the collector was never tried")
			}
		}
		select {
		case <-delivered:
			t.Error("a span went to somebody who isn't the collector")
		case <-time.After(300 * time.Millisecond):
		}
	})
}

func postSpan(t *testing.T, socket string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	response, err := client.Post("http://agent/v1/traces", "application/json", strings.NewReader(
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708","name":"x","kind":1,"startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
}
