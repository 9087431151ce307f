package endpoint

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

func TestLoopbackRefuses(t *testing.T) {
	l, err := listenLoopback("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var c callers
	c.admit(map[string]string{"token-of-dev": "dev"})
	own := l.Addr().String()
	called := ""
	handler := c.guard(l.Addr(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p, _ := serve.PeerFrom(r.Context())
		called = p.User
	}))
	for name, test := range map[string]struct {
		method, host, token string
		header              [2]string
		want                int
	}{
		"right":           {"POST", own, "token-of-dev", [2]string{}, 200},
		"localhost":       {"POST", "LOCALHOST" + own[strings.LastIndex(own, ":"):], "token-of-dev", [2]string{}, 200},
		"no token":        {"POST", own, "", [2]string{}, 401},
		"another's token": {"POST", own, "token-of-eve", [2]string{}, 401},
		"rebinding":       {"POST", "evil.example.com:4319", "token-of-dev", [2]string{}, 403},
		"other port":      {"POST", "127.0.0.1:1", "token-of-dev", [2]string{}, 403},
		"a page":          {"POST", own, "token-of-dev", [2]string{"Origin", "https://evil.example.com"}, 403},
		"a null page":     {"POST", own, "token-of-dev", [2]string{"Origin", "null"}, 403},
		"a form":          {"POST", own, "token-of-dev", [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"a link":          {"POST", own, "token-of-dev", [2]string{"Referer", "http://localhost/"}, 403},
		"GET":             {"GET", own, "token-of-dev", [2]string{}, 403},
		"preflight":       {"OPTIONS", own, "token-of-dev", [2]string{}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			called = ""
			r := httptest.NewRequest(test.method, "/guard/evaluate", strings.NewReader("{}"))
			r.Host = test.host
			r.Header.Set("X-Pinta-Relay-Token", test.token)
			if test.header[0] != "" {
				r.Header.Set(test.header[0], test.header[1])
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != test.want || (called == "dev") != (test.want == 200) {
				body, _ := io.ReadAll(w.Result().Body)
				t.Errorf("status %d, called as %q: %s", w.Code, called, body)
			}
			if w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Error("CORS is allowed")
			}
		})
	}
}

func TestLoopbackAddressMustBeLoopback(t *testing.T) {
	for _, address := range []string{"0.0.0.0:4319", ":4319", "192.0.2.1:4319", "example.com:4319", "127.0.0.1"} {
		if l, err := listenLoopback(address); err == nil {
			l.Close()
			t.Errorf("%s was taken", address)
		}
	}
}
