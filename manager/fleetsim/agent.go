package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// The pauses of sync/device.
var (
	firstBackoff = enroll.Backoff{Base: 3 * time.Second, Max: 15 * time.Minute}
	laterBackoff = enroll.Backoff{Base: 30 * time.Second, Max: 15 * time.Minute}
)

// agent is one simulated machine.
type agent struct {
	fleet  *fleet
	caller api.Caller
	key    ed25519.PrivateKey
	client *api.Client // signs
	keys   api.Keys
	etag   string

	version atomic.Int64
	acked   int64        // version of the last report that was taken; under fleet.mu
	polls   atomic.Int64 // that the Manager has answered well, or holds
}

func newAgent(f *fleet) (*agent, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	network, err := settings.Network{Pin: settings.Pin{Server: f.token.Manager, SPKI: f.token.Pin}}.HTTPClient()
	if err != nil {
		return nil, err
	}
	a := &agent{fleet: f, key: key}
	a.client = &api.Client{BaseURL: f.token.Manager, HTTP: counted{network, f.rate}, UserAgent: "fleetsim"}
	return a, nil
}

// counted counts what is sent. It asks for gzip itself, so that answers stay packed: see fleet.take.
type counted struct {
	*http.Client
	rate *rate
}

func (c counted) Do(r *http.Request) (*http.Response, error) {
	c.rate.hit()
	r.Header.Set("Accept-Encoding", "gzip")
	return c.Client.Do(r)
}

// enrol enrols as `pinta-agent enroll` does, for a minute at most.
func (a *agent) enrol(ctx context.Context) error {
	t := a.fleet.token
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for n := 1; ; n++ {
		req := &api.EnrolRequest{Schema: api.Schema, TokenID: t.ID, Reason: api.EnrolReasonFirst, Nonce: rand.Text(), Iat: time.Now().Unix(), Aud: t.Manager,
			Device: api.EnrolDevice{PublicKey: api.EncodeKey(a.key.Public().(ed25519.PublicKey)), Hostname: "sim-" + rand.Text()[:8], Os: "linux", OsVersion: "sim", Arch: "amd64", AgentVersion: "sim", MachineHint: rand.Text()}}
		body, err := api.SignEnrol(req, t.Key(), a.key)
		if err != nil {
			return err
		}
		doc, err := api.Raw(a.client.Enroll(ctx, body))
		if err == nil {
			return a.accept(string(doc), req.Nonce)
		}
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != api.ProblemCodeBusy {
			return err
		}
		a.fleet.busy.Add(1)
		if !pause(ctx, enroll.Backoff{Base: time.Second, Max: 15 * time.Second}.Delay(n, time.Duration(p.RetryAfter)*time.Second)) {
			return ctx.Err()
		}
	}
}

func (a *agent) accept(doc, nonce string) error {
	var r api.EnrolReply
	if err := api.VerifyRoot(doc, &r, a.fleet.token.Root); err != nil {
		return err
	}
	if r.Nonce != nonce {
		return errors.New("the reply is to another request")
	}
	keys, err := api.ParseKeys(r.SigningKeys.Keys)
	if err != nil {
		return err
	}
	a.keys = keys
	a.caller = api.Caller{DeviceID: r.DeviceID, Audience: r.Audience, Boot: rand.Text(), Key: a.key}
	a.client.Authorize = func(r *http.Request, body []byte) error { return a.caller.Authorize(r, body, time.Now()) }
	a.fleet.enrolled.Add(1)
	return nil
}

// pollLoop holds a poll, one after the other, and acknowledges what comes.
func (a *agent) pollLoop(ctx context.Context) {
	backoff, failures := firstBackoff, 0
	pause(ctx, mathrand.N(a.fleet.wait)) // machines don't start in the same moment
	for ctx.Err() == nil {
		began := time.Now()
		err := a.poll(ctx)
		var delay time.Duration
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, api.ErrNotModified):
			failures, backoff = 0, laterBackoff
		case err == nil:
			failures, backoff = 0, laterBackoff
			if err := a.report(ctx); err != nil {
				a.failed("acknowledge", err)
			}
		default:
			a.failed("poll", err)
			failures++
			delay = backoff.Delay(failures, asked(err))
		}
		pause(ctx, max(delay, time.Second-time.Since(began)))
	}
}

// poll asks for the config and checks it as an agent does.
func (a *agent) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.fleet.wait+30*time.Second)
	defer cancel()
	if a.etag != "" {
		a.fleet.held.Add(1)
		defer a.fleet.held.Add(-1)
	}
	// A poll that is held for a while has reached the Manager.
	holding := time.AfterFunc(2*time.Second, func() { a.polls.Add(1) })
	res, err := a.client.GetDeviceConfig(ctx, api.GetDeviceConfigParams{Wait: int(a.fleet.wait / time.Second), IfNoneMatch: a.etag})
	fresh := holding.Stop()
	etag := ""
	if err == nil {
		etag = res.Header.Get("ETag")
	}
	version, err := a.fleet.take(a, res, err)
	if fresh && (err == nil || errors.Is(err, api.ErrNotModified)) {
		a.polls.Add(1)
	}
	if err != nil {
		return err
	}
	a.etag = etag
	a.version.Store(version)
	return nil
}

// reportLoop reports now and then.
func (a *agent) reportLoop(ctx context.Context) {
	pause(ctx, mathrand.N(a.fleet.checkin))
	for failures := 0; ctx.Err() == nil; {
		delay := a.fleet.checkin*9/10 + mathrand.N(a.fleet.checkin/5)
		if a.version.Load() > 0 {
			if err := a.report(ctx); err != nil && ctx.Err() == nil {
				a.failed("report", err)
				failures++
				delay = max(delay, laterBackoff.Delay(failures, asked(err)))
			} else {
				failures = 0
			}
		}
		pause(ctx, delay)
	}
}

func (a *agent) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	version := a.version.Load()
	_, err := api.JSON[api.ReportReply](a.client.ReportDevice(ctx, api.Report{
		ConfigVersion: version, State: api.ConfigStateApplied, Agent: api.ReportAgent{Version: "sim", Os: "linux", Uptime: int64(time.Since(a.fleet.rate.started).Seconds())},
		Users: []api.ReportUser{{Name: "sim", CopilotHome: "/home/sim/.copilot", Hook: api.ReportUserHookOk, LastEvent: time.Now()}},
		Hosts: []api.ReportHost{{Kind: api.ReportHostKindCopilotCli, Version: "1.0.102", Path: "/usr/bin/copilot"}},
	}))
	if err == nil {
		a.fleet.acked(a, version)
	}
	return err
}

// failed counts an error, unless the Manager is down on purpose.
func (a *agent) failed(what string, err error) {
	if a.fleet.down.Load() {
		return
	}
	if a.fleet.errors.Add(1) <= 20 {
		fmt.Fprintf(os.Stderr, "%s %s: %v\n", time.Now().Format("15:04:05"), what, err)
	}
}

// asked is the pause that the Manager asks for.
func asked(err error) time.Duration {
	var p *api.Problem
	if errors.As(err, &p) {
		return time.Duration(p.RetryAfter) * time.Second
	}
	return 0
}
