package post

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

func noEnv(string) string { return "" }

func vars(kv ...string) Env {
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

func TestParse(t *testing.T) {
	for raw, want := range map[string]Target{
		"http://h":                        {Host: "h", Port: "80", path: "/"},
		"HTTP://H:8080/a?b=c#d":           {Host: "h", Port: "8080", path: "/a?b=c"},
		"https://h":                       {TLS: true, Host: "h", Port: "443", path: "/"},
		"https://u:p%40w@h:1/x":           {TLS: true, Host: "h", Port: "1", path: "/x", Auth: "dTpwQHc="},
		"http://u@h":                      {Host: "h", Port: "80", path: "/", Auth: "dTo="},
		"http://[::1]:9/x":                {Host: "::1", Port: "9", path: "/x"},
		"http://h?q":                      {Host: "h", Port: "80", path: "/?q"},
		"http://h:/x":                     {Host: "h", Port: "80", path: "/x"},
		"http://h/a%20b/%2f?x=//y":        {Host: "h", Port: "80", path: "/a%20b/%2f?x=//y"},
		"":                                {},
		"h":                               {},
		"ftp://h":                         {},
		"http://":                         {},
		"http://h:99999":                  {},
		"http://h:x":                      {},
		"http://[::1":                     {},
		"http://h/ x":                     {},
		"http://h/\r\nx: y":               {},
		"http://%zz@h":                    {},
		"http+unix://":                    {},
		"http+unix://%2":                  {},
		"http+npipe://other/pipe/x/y":     {},
		"http+npipe://./pipe/a%5Cb/guard": {},
	} {
		got, err := ParseTarget(raw)
		if (err != nil) != (want == Target{}) || err == nil && got != want {
			t.Errorf("%q: %+v %v, want %+v", raw, got, err, want)
		}
	}
	for raw, want := range map[string]local.Target{
		"http+unix://%2Frun%2Fpinta-agent%2Fagent.sock/guard/evaluate": {Network: "unix", Address: "/run/pinta-agent/agent.sock", Path: "/guard/evaluate"},
		"HTTP+UNIX://%2ftmp%2Fa%20b.sock":                              {Network: "unix", Address: "/tmp/a b.sock", Path: "/"},
		"http+npipe://./pipe/pinta-agent/v1/traces?x":                  {Network: "pipe", Address: `\\.\pipe\pinta-agent`, Path: "/v1/traces?x"},
	} {
		got, err := ParseTarget(raw)
		if err != nil || got.local == nil || *got.local != want || !Local(raw) {
			t.Errorf("%q: %+v %v", raw, got, err)
		}
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost.": true, "a.localhost": true, "127.0.0.1": true, "127.1": true, "127.8.9.1": true, "0x7f.1": true, "2130706433": true, "0177.0.0.1": true,
		"0.0.0.0": true, "::1": true, "::ffff:127.0.0.1": true, "::": true, "::1%lo": true,
		"localhost.com": false, "notlocalhost": false, "128.0.0.1": false, "10.0.0.1": false, "127.0.0.1.example": false, "::2": false, "1270.0.1": false, "127.0.0.256": false, "127.0.0.0.1": false, "": false, "127.": false,
	} {
		if got := loopback(host) != nil; got != want && host != "127." {
			t.Errorf("%q: %v", host, got)
		}
	}
}

func TestPost(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X", "y")
		w.WriteHeader(207)
		fmt.Fprintf(w, "%s %s %s %s %d %s", r.Method, r.RequestURI, r.Header.Get("a"), r.Header.Get("authorization"), r.ContentLength, body)
	}))
	defer s.Close()
	a, err := Do(Request{URL: strings.Replace(s.URL, "http://", "http://u:p@", 1) + "/p?q", Headers: []Header{{"a", "b"}}, Body: []byte("body"), Limit: 1 << 10}, noEnv, soon())
	if err != nil || a.Status != 207 || string(a.Body) != "POST /p?q b Basic dTpw 4 body" {
		t.Errorf("%d %q %v", a.Status, a.Body, err)
	}
}

// raw serves one connection by hand.
func raw(t *testing.T, f func(c net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); f(c) }()
		}
	}()
	return "http://" + l.Addr().String() + "/x"
}

func answer(text string) func(net.Conn) {
	return func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		_, _ = io.WriteString(c, text)
	}
}

func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, c := range map[string]struct {
		text   string
		status int
		body   string
		cut    bool
		fails  bool
	}{
		"length":             {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", 200, "ab", false, false},
		"length, more comes": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabcd", 200, "ab", false, false},
		"length, cut short":  {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", 200, "ab", false, true},
		"to the end":         {"HTTP/1.0 200\r\n\r\nab", 200, "ab", false, false},
		"bare LF":            {"HTTP/1.1 200 OK\nContent-Length: 2\n\nab", 200, "ab", false, false},
		"chunked":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 200, "abc", false, false},
		"chunked, broken":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\nzz\r\n", 200, "ab", false, true},
		"chunked, huge size": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", 200, "", false, true},
		"interim":            {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\na: b\r\n\r\nHTTP/1.1 201 OK\r\nContent-Length: 1\r\n\r\nx", 201, "x", false, false},
		"only interim":       {strings.Repeat("HTTP/1.1 100 C\r\n\r\n", 20), 100, "", false, true},
		"no content":         {"HTTP/1.1 204 No\r\n\r\n", 204, "", false, false},
		"over the limit":     {"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + long, 200, long[:1000], true, false},
		"over, chunked":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n" + long + "\r\n0\r\n\r\n", 200, long[:1000], true, false},
		"over, to the end":   {"HTTP/1.1 200 OK\r\n\r\n" + long, 200, long[:1000], true, false},
		"not HTTP":           {"SSH-2.0-x\r\n", 0, "", false, true},
		"nothing":            {"", 0, "", false, true},
		"half a head":        {"HTTP/1.1 200 OK\r\nConte", 0, "", false, true},
		"endless head":       {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 1<<20), 0, "", false, true},
		"countless fields":   {"HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", 1<<16), 0, "", false, true},
		"negative length":    {"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nab", 200, "ab", false, false},
		"bad status":         {"HTTP/1.1 2x0 OK\r\n\r\n", 0, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := Do(Request{URL: raw(t, answer(c.text)), Limit: 1000}, noEnv, soon())
			if (err != nil) != c.fails || string(a.Body) != c.body || a.Cut != c.cut || !c.fails && a.Status != c.status {
				t.Errorf("%d %.60q cut %v, %v", a.Status, a.Body, a.Cut, err)
			}
		})
	}
}

// TestEarlyAnswer: a server that refuses a body before it has read it is
// heard, whether it hangs up or not.
func TestEarlyAnswer(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the socket of package net reports the reset only")
	}
	for _, stay := range []bool{false, true} {
		url := raw(t, func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 100))
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
			if stay {
				time.Sleep(2 * time.Second)
			} else {
				_ = c.(*net.TCPConn).CloseWrite()
				time.Sleep(200 * time.Millisecond)
			}
		})
		start := time.Now()
		a, err := Do(Request{URL: url, Body: bytes.Repeat([]byte("x"), 16<<20), Limit: 10}, noEnv, soon())
		if err != nil || a.Status != 413 || time.Since(start) > 2*time.Second {
			t.Errorf("stay %v: %d %v after %v", stay, a.Status, err, time.Since(start))
		}
	}
}

func TestDeadline(t *testing.T) {
	for name, f := range map[string]func(net.Conn){
		"no answer":   func(net.Conn) { time.Sleep(3 * time.Second) },
		"half a head": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"); time.Sleep(3 * time.Second) },
		"half a body": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}")
			time.Sleep(3 * time.Second)
		},
		"no end": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			extended := strings.Repeat("1;"+strings.Repeat("a", 60_000)+"\r\nx\r\n", 20)
			for start := time.Now(); time.Since(start) < 5*time.Second; {
				if _, err := io.WriteString(c, extended); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, err := Do(Request{URL: raw(t, f), Body: []byte("x"), Limit: 16 << 20}, noEnv, start.Add(200*time.Millisecond))
			if took := time.Since(start); !errors.Is(err, ErrTimeout) || took > 2*time.Second || took < 150*time.Millisecond {
				t.Errorf("%v after %v", err, took)
			}
		})
	}
}

func TestSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("pipes there")
	}
	for _, dir := range []string{"short", strings.Repeat("d", 120)} {
		folder := filepath.Join(t.TempDir(), dir)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, "a b.sock")
		wd, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		// A listener can't bind a long path either: it goes by the base name.
		if err := os.Chdir(folder); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", "a b.sock")
		if err := os.Chdir(wd); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host+r.RequestURI) })}
		go func() { _ = s.Serve(l) }()
		a, err := Do(Request{URL: local.URL(path, "/guard?x"), Body: []byte("{}"), Limit: 100}, vars("http_proxy", "http://127.0.0.1:9"), soon())
		if err != nil || string(a.Body) != "localhost/guard?x" {
			t.Errorf("%s: %q %v", dir, a.Body, err)
		}
		if now, _ := os.Getwd(); now != wd {
			t.Errorf("the working folder is %s now", now)
		}
		_ = s.Close()
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"), 10)
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = min(max(limit, 0), 1<<16)
		r := reader{src: bytes.NewReader(data)}
		h, err := r.head()
		if err != nil {
			return
		}
		if body, _, _ := r.body(h, limit); len(body) > limit {
			t.Errorf("%d bytes over %d", len(body), limit)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("http://u:p@[::1]:80/x?y#z")
	f.Add("http+unix://%2Fa/b")
	f.Fuzz(func(t *testing.T, rawURL string) {
		got, err := ParseTarget(rawURL)
		if err != nil {
			return
		}
		head := appendRequest(nil, "POST", got.path, got.Authority(), nil)
		if bytes.Count(head, []byte("\r\n")) != 3 || !strings.HasPrefix(got.path, "/") {
			t.Errorf("%q", head)
		}
		loopback(got.Host)
	})
}
