package manager

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a Manager as a process runs it, with TLS.
type served struct {
	*testing.T
	url   string
	admin *api.Client
	stop  func() time.Duration
}

func serve(t *testing.T, change ...func(*ServeOptions)) *served {
	t.Helper()
	dir := t.TempDir()
	o := ServeOptions{Options: Options{Dir: dir, Policies: Guard{}}, Listen: "127.0.0.1:0", ReadyFile: filepath.Join(dir, "ready.json")}
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, o) }()
	var ready struct{ URL, AdminKeyFile string }
	for end := time.Now().Add(20 * time.Second); ; {
		text, err := os.ReadFile(o.ReadyFile)
		if err == nil {
			if err := json.Unmarshal(text, &ready); err != nil {
				t.Fatal(err) // it appears complete
			}
			break
		}
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatal("not ready")
		}
	}
	f, err := ReadAdminKeyFile(ready.AdminKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	network, err := f.Network()
	if err != nil {
		t.Fatal(err)
	}
	client, err := network.HTTPClient()
	if err != nil {
		t.Fatal(err)
	}
	s := &served{T: t, url: ready.URL, admin: &api.Client{BaseURL: f.Server, HTTP: client, Authorize: func(r *http.Request, _ []byte) error {
		r.Header.Set("Authorization", "Bearer "+f.Key)
		return nil
	}}}
	stopped := false
	s.stop = func() time.Duration {
		if stopped {
			return 0
		}
		stopped = true
		began := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		client.CloseIdleConnections()
		return time.Since(began)
	}
	t.Cleanup(func() { s.stop() })
	return s
}

// agent enrols a device through the front door.
func (s *served) agent() *dev {
	s.Helper()
	secret, key := newTestKey(), newTestKey()
	made, err := api.JSON[api.TokenCreated](s.admin.CreateToken(s.Context(), api.TokenCreate{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", PublicKey: api.EncodeKey(public(secret))}))
	if err != nil {
		s.Fatal(err)
	}
	body, err := api.SignEnrol(&api.EnrolRequest{Schema: 1, TokenID: made.ID, Reason: api.EnrolReasonFirst, Nonce: "n", Iat: time.Now().Unix(), Aud: made.URL,
		Device: api.EnrolDevice{PublicKey: api.EncodeKey(public(key))}}, secret, key)
	if err != nil {
		s.Fatal(err)
	}
	doc, err := api.Raw(s.admin.Enroll(s.Context(), body))
	if err != nil {
		s.Fatal(err)
	}
	d := &dev{key: key, boot: "boot-1"}
	root, err := base64.RawURLEncoding.DecodeString(made.Root)
	if err != nil {
		s.Fatal(err)
	}
	if err := api.VerifyRoot(string(doc), &d.reply, [32]byte(root)); err != nil {
		s.Fatal(err)
	}
	d.id, d.audience = d.reply.DeviceID, d.reply.Audience
	return d
}

// poll is one held poll on a client of the test's; reused tells whether it came over an old connection.
func (s *served) poll(d *dev, client *http.Client, etag string, wait int) (res *http.Response, reused bool, err error) {
	ctx := httptrace.WithClientTrace(s.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	c := &api.Client{BaseURL: s.url, HTTP: client, Authorize: func(r *http.Request, body []byte) error {
		return d.caller().Authorize(r, body, time.Now())
	}}
	res, err = c.GetDeviceConfig(ctx, api.GetDeviceConfigParams{Wait: wait, IfNoneMatch: etag})
	if err != nil {
		return nil, reused, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res, reused, err
}

func (s *served) client() *http.Client {
	s.Helper()
	c := s.admin.HTTP.(*http.Client)
	t := c.Transport.(*http.Transport).Clone()
	s.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// A held poll's connection is taken from the server and given back: the next requests come over it, and a wake that is late
// doesn't hurt it.
func TestHeldConnectionGoesOn(t *testing.T) {
	s := serve(t)
	d, client := s.agent(), s.client()
	res, _, err := s.poll(d, client, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	etag := res.Header.Get("ETag")
	for i := range 3 {
		res, reused, err := s.poll(d, client, etag, 1)
		if err != nil || res.StatusCode != http.StatusNotModified || !reused {
			t.Fatalf("%d: %v %v reused %v", i, res, err, reused)
		}
	}
}

func TestLateWake(t *testing.T) {
	a, b := tcpPair(t)
	p := &parked{conn: a, keep: true}
	if !p.wait(time.Millisecond) {
		t.Fatal("gone")
	}
	if err := a.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	p.wake()
	go b.Write([]byte("x"))
	if n, err := a.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Fatalf("%d %v", n, err)
	}

	p = &parked{conn: a}
	p.wake() // before the wait
	if !p.wait(time.Hour) {
		t.Fatal("gone")
	}
	p = &parked{conn: a}
	go b.Write([]byte("x"))
	if p.wait(time.Hour) {
		t.Fatal("who sends while he waits is no agent")
	}
	p = &parked{conn: a}
	b.Close()
	if p.wait(time.Hour) {
		t.Fatal("still there")
	}
}

func tcpPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if b, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if a, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// On its end the Manager answers held polls at once, and is gone well within 5 s.
func TestServeEnds(t *testing.T) {
	s := serve(t)
	d, client := s.agent(), s.client()
	res, _, err := s.poll(d, client, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	etag := res.Header.Get("ETag")
	type answer struct {
		status int
		err    error
	}
	held := make(chan answer, 1)
	go func() {
		res, _, err := s.poll(d, client, etag, 300)
		if err != nil {
			held <- answer{err: err}
			return
		}
		held <- answer{status: res.StatusCode}
	}()
	time.Sleep(200 * time.Millisecond) // on its way or held: both have to work
	if took := s.stop(); took > 4*time.Second {
		t.Fatalf("took %s", took)
	}
	if a := <-held; a.err != nil || a.status != http.StatusServiceUnavailable {
		t.Fatalf("%+v", a)
	}
}

// The own CA is pinned; who asks for another pin, or trusts the system only, doesn't talk to it.
func TestOwnCA(t *testing.T) {
	s := serve(t)
	for name, n := range map[string]settings.Network{"system": {}, "another pin": {Pin: settings.Pin{Server: s.url, SPKI: [32]byte{1}}}} {
		c, err := n.HTTPClient()
		if err != nil {
			t.Fatal(err)
		}
		if res, err := c.Get(s.url + api.Prefix + "/healthz"); err == nil {
			res.Body.Close()
			t.Errorf("%s: trusted", name)
		}
	}
	conn, err := tls.Dial("tcp", s.url[len("https://"):], &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
	if err == nil {
		conn.Close()
		t.Error("old TLS is taken")
	}
}

func TestServeRefuses(t *testing.T) {
	for name, o := range map[string]ServeOptions{
		"plain HTTP for all": {HTTP: true, Listen: "0.0.0.0:0"},
		"cert without key":   {TLSCert: "x"},
		"both":               {HTTP: true, TLSCert: "x", TLSKey: "y"},
		"no certificate":     {TLSCert: "/nowhere", TLSKey: "/nowhere", Listen: "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Dir, o.Policies = t.TempDir(), Guard{}
			if err := Serve(t.Context(), o); err == nil {
				t.Fatal("served")
			}
		})
	}
}

// A slow or mute client costs its connection and nothing else, for as long as the server lets it.
func TestRawRequests(t *testing.T) {
	b := newBed(t)
	for name, text := range map[string]string{
		"no HTTP":     "hello\r\n\r\n",
		"two lengths": "POST /api/v1/enroll HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
		"big header":  "GET / HTTP/1.1\r\nHost: x\r\nX: " + string(make([]byte, 40<<10)) + "\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", b.srv.Listener.Addr().String())
		b.must(err)
		go io.WriteString(conn, text)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && res.StatusCode < 400 {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
		conn.Close()
	}
}

// A Manager's store and keys outlive it; a root key of another Manager is refused.
func TestKeysStay(t *testing.T) {
	b := newBed(t)
	root := b.m.Root()
	b.restart()
	equal(t, b.m.Root(), root)
	b.close()
	other := newBed(t)
	b.must(os.Rename(filepath.Join(other.dir, rootFile), filepath.Join(b.dir, rootFile)))
	if m, err := Open(Options{Dir: b.dir, URL: "https://x", Policies: Guard{}}); err == nil {
		m.Close()
		t.Fatal("opened with another root key")
	}
	b.must(os.Remove(filepath.Join(b.dir, rootFile))) // kept offline
	m, err := Open(Options{Dir: b.dir, URL: "https://x", Policies: Guard{}})
	b.must(err)
	equal(t, m.Root(), root)
	b.must(m.view(t.Context(), func(tx store.Tx) error { return nil }))
	b.must(m.Close())
}
