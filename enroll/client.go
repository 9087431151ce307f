package enroll

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"sync"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/internal/version"
)

// maxBody bounds what is signed and sent at once: a batch of spans is the
// largest.
const maxBody = 8 << 20

// Client makes device calls. It signs each of them, answers the Manager's clock
// once, moves over to a rotated key, and heeds a retirement or a clone; what the
// caller gets is the answer that remains.
//
// It is an http.RoundTripper, so that a retrying client can sit on top: each
// try is signed anew. It sends to the Manager of the identity and nowhere else.
type Client struct {
	// Via, if set before use, takes the place of the network (simulations, tests).
	Via http.RoundTripper
	// Base, if set before use, is where the Manager is now, in place of the
	// address that the identity was given at (setting managerUrl).
	Base string

	state   *State
	network settings.Network
	log     *slog.Logger

	mu   sync.Mutex
	pin  settings.Pin // of http
	http *http.Client
}

// NewClient makes device calls for the identity that s holds at each of them.
func NewClient(s *State, n settings.Network, log *slog.Logger) *Client {
	return &Client{state: s, network: n, log: log}
}

// API is the generated client of the Manager that this machine is enrolled
// with. Error: ErrNotEnrolled.
func (c *Client) API() (*api.Client, error) {
	id, err := c.state.Identity()
	if err != nil {
		return nil, err
	}
	return &api.Client{BaseURL: c.base(id), UserAgent: userAgent, HTTP: &http.Client{Transport: c, CheckRedirect: noRedirect}}, nil
}

func (c *Client) base(id Identity) string {
	if c.Base != "" {
		return c.Base
	}
	return id.Manager
}

var userAgent = "pinta-agent/" + version.Version

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// RoundTrip signs a request and sends it.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	rec, err := c.state.load()
	if err != nil {
		return nil, err
	}
	if rec.Identity == nil {
		return nil, ErrNotEnrolled
	}
	if base, err := url.Parse(c.base(*rec.Identity)); err != nil || r.URL.Scheme != base.Scheme || r.URL.Host != base.Host {
		return nil, errors.New("a device call to another server than the Manager of this identity: it is not sent")
	}
	via, err := c.transport(*rec.Identity)
	if err != nil {
		return nil, err
	}
	if rec.Candidate != nil && c.state.rotating.TryLock() {
		// A rotation was cut off: find out which of the two keys is good.
		err := c.settle(r.Context(), via, rec)
		c.state.rotating.Unlock()
		if err != nil {
			return nil, err
		}
		if rec, err = c.state.load(); err != nil || rec.Identity == nil {
			return nil, errors.Join(err, ErrNotEnrolled)
		}
	}
	res, problem, err := c.try(via, r, body, *rec.Identity, rec.Key)
	if err != nil {
		return nil, err
	}
	c.heed(problem)
	return res, nil
}

// try sends the request under one key. The Manager's clock and a repeated jti
// (a transport that sent the request twice) are answered once each.
func (c *Client) try(via http.RoundTripper, r *http.Request, body []byte, id Identity, sealed []byte) (*http.Response, *api.Problem, error) {
	key, err := openKey(sealed)
	if err != nil {
		return nil, nil, err
	}
	clock, replay := true, true
	for {
		res, err := c.send(via, r, body, id, key)
		if err != nil {
			return nil, nil, err
		}
		p, err := peekProblem(res)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case p != nil && clock && c.state.correctClock(p):
			clock = false
		case p != nil && replay && p.Code == api.ProblemCodeReplay:
			replay = false
		default:
			return res, p, nil
		}
		discard(res)
	}
}

func (c *Client) send(via http.RoundTripper, r *http.Request, body []byte, id Identity, key ed25519.PrivateKey) (*http.Response, error) {
	once := r.Clone(r.Context())
	if body != nil {
		once.Body, once.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		once.GetBody = nil // a transport must not repeat a call that is good once
	}
	if err := c.state.authorize(once, body, id, key); err != nil {
		return nil, err
	}
	return via.RoundTrip(once)
}

// heed acts on the two problems that concern the identity itself.
func (c *Client) heed(p *api.Problem) {
	if p == nil {
		return
	}
	var err error
	switch p.Code {
	case api.ProblemCodeDeviceRetired:
		// The Manager may have changed its signing keys while this machine was away.
		if p.Keys != "" {
			_, err = c.state.SetSigningKeys(p.Keys)
		}
		err = errors.Join(err, c.state.Retire(p.Statement))
	case api.ProblemCodeClone:
		err = c.state.AskReenrol(api.EnrolReasonClone)
	}
	if err != nil && !errors.Is(err, ErrNotEnrolled) {
		c.log.Warn("what the manager says of this device changes nothing", "code", p.Code, "error", err)
	}
}

// transport is the way to the Manager of id, kept as long as its pin is the same.
func (c *Client) transport(id Identity) (http.RoundTripper, error) {
	if c.Via != nil {
		return c.Via, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	network := c.network
	network.Pin = settings.Pin{Server: c.base(id), SPKI: id.Pin}
	if c.http == nil || c.pin != network.Pin {
		client, err := network.HTTPClient()
		if err != nil {
			return nil, err
		}
		if c.http != nil {
			c.http.CloseIdleConnections()
		}
		c.http, c.pin = client, network.Pin
	}
	return c.http.Transport, nil
}

// Close lets idle connections go.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// RotateKey gives this device a new key: it is stored, offered under the old
// one, and takes its place when the Manager has taken a call signed with it. A
// kill in between leaves both, and the next call finds out which is good.
func (c *Client) RotateKey(ctx context.Context) error {
	c.state.rotating.Lock()
	defer c.state.rotating.Unlock()
	var rec record
	err := c.state.change(func(r *record) error {
		_, err := r.rotate(freshKey)
		rec = *r
		return err
	})
	if err != nil {
		return err
	}
	via, err := c.transport(*rec.Identity)
	if err != nil {
		return err
	}
	key, err := openKey(rec.Candidate)
	if err != nil {
		return err
	}
	doc, err := api.Sign(&api.KeyRotation{
		Schema: api.Schema, DeviceID: rec.Identity.DeviceID, PublicKey: api.EncodeKey(key.Public().(ed25519.PublicKey)),
		Iat: c.state.managerTime().Unix(), Aud: rec.Identity.Audience,
	}, key)
	if err != nil {
		return err
	}
	// Refused or lost: in both cases one of the keys is good.
	offered := api.Done(c.as(via, rec, rec.Key).RotateDeviceKey(ctx, []byte(doc)))
	if err := c.settle(ctx, via, rec); err != nil {
		return fmt.Errorf("change the device key: %w", errors.Join(offered, err))
	}
	now, err := c.state.load()
	if err == nil && string(now.Key) != string(rec.Candidate) {
		err = errors.Join(errors.New("the manager doesn't take the new device key: the old one stays"), offered)
	}
	return err
}

// settle asks the Manager under the candidate, then under the old key, and
// keeps the one that works. Works means that the root key's own statement came
// back: a proxy or a login page must not decide between two keys, and as long
// as neither is proven both are kept.
func (c *Client) settle(ctx context.Context, via http.RoundTripper, rec record) error {
	for _, k := range []struct {
		sealed []byte
		change func(*record)
	}{
		{rec.Candidate, func(r *record) { r.proven(rec.Candidate) }},
		{rec.Key, func(r *record) { r.rejected(rec.Candidate) }},
	} {
		statement, err := api.Raw(c.as(via, rec, k.sealed).GetDeviceKeys(ctx))
		if p := new(api.Problem); errors.As(err, &p) && p.Status == http.StatusUnauthorized {
			continue
		}
		if err != nil {
			return err
		}
		if err := api.VerifyRoot(string(statement), new(api.KeyStatement), rec.Identity.Root); err != nil {
			return fmt.Errorf("the answer is not the manager's: %w", err)
		}
		return c.state.change(func(r *record) error { k.change(r); return nil })
	}
	return errors.New("the manager knows neither the old nor the new device key: both are kept")
}

// as makes calls under one particular key.
func (c *Client) as(via http.RoundTripper, rec record, sealed []byte) *api.Client {
	return &api.Client{BaseURL: c.base(*rec.Identity), UserAgent: userAgent, HTTP: doer(func(r *http.Request) (*http.Response, error) {
		body, err := readBody(r)
		if err != nil {
			return nil, err
		}
		res, problem, err := c.try(via, r, body, *rec.Identity, sealed)
		if err == nil {
			c.heed(problem)
		}
		return res, err
	})}
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the body to sign: %w", err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("a device call of over %d bytes is not sent", maxBody)
	}
	return body, nil
}

// peekProblem reads a problem document and leaves it in the answer for whoever
// gets it next. nil is an answer that is none: a success, or a 304.
func peekProblem(res *http.Response) (*api.Problem, error) {
	if res.StatusCode < 400 {
		return nil, nil
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	res.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the manager's answer: %w", err)
	}
	res.Body = io.NopCloser(bytes.NewReader(raw))
	p := &api.Problem{Status: res.StatusCode}
	// What another server answers (a proxy, say) is a problem without a code.
	if mt, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); mt == "application/problem+json" {
		if json.Unmarshal(raw, p) != nil {
			*p = api.Problem{}
		}
		p.Status = res.StatusCode
	}
	return p, nil
}

func discard(res *http.Response) {
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	res.Body.Close()
}
