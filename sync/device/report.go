package device

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/version"
)

// maxReport is what the Manager takes (openapi.yaml, reportDevice).
const maxReport = 512 << 10

// reportLoop reports on change and at every check-in.
func (d *Device) reportLoop(ctx context.Context) {
	pause, failures := time.Duration(0), 0
	for d.pauseReport(ctx, pause, failures > 0) {
		if d.broken() {
			// One failing request at a time is enough: the poll finds out when the
			// Manager is back, and says that something has changed.
			pause, failures = d.checkin(), 0
			continue
		}
		if _, err := d.State.Identity(); err != nil {
			pause = look
			continue
		}
		if err := d.report(ctx); err != nil {
			failures++
			pause = max(gap, laterBackoff.Delay(failures, retryAfter(err)))
			continue
		}
		every := d.checkin()
		pause, failures = every-every/10+upTo(every/5), 0
	}
}

// pauseReport waits for the next report: the time, a change (not sooner than
// gap, and not while reports fail), or a call to wake. False: ctx is over.
func (d *Device) pauseReport(ctx context.Context, pause time.Duration, failing bool) bool {
	change := d.change
	if failing {
		change = nil
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	case <-d.woken[reportWoken]:
		return sleep(ctx, upTo(look), nil)
	case <-change:
		return sleep(ctx, gap, nil)
	}
}

// broken says that polls fail in a row.
func (d *Device) broken() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status.Failures >= breakAfter
}

// report tells the Manager how things are and does what it answers.
func (d *Device) report(ctx context.Context) error {
	d.reporting.Lock()
	defer d.reporting.Unlock()
	c, err := d.Client.API()
	if err != nil {
		return err
	}
	r, err := d.fillReport()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, slack)
	reply, err := api.JSON[api.ReportReply](c.ReportDevice(bounded, r))
	cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d.contact(err)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.status.Reported = d.Clock.Now()
	d.mu.Unlock()
	if d.Reported != nil {
		d.Reported(r)
	}
	if err := d.acknowledged(r.ActionsDone); err != nil {
		return err
	}
	return d.follow(ctx, c, reply)
}

// follow does what the answer to a report asks for.
func (d *Device) follow(ctx context.Context, c *api.Client, reply api.ReportReply) error {
	id, err := d.State.Identity()
	if err != nil {
		return err
	}
	if reply.KeysVersion > id.KeysVersion {
		if err := d.fetchKeys(ctx, c); err != nil {
			return err
		}
	}
	if reply.Reenroll != "" {
		if err := d.State.AskReenrol(api.EnrolReason(reply.Reenroll)); err != nil {
			return err
		}
	}
	return d.doActions(ctx, c, reply.Actions)
}

// fillReport adds what this package knows to what the agent reports.
func (d *Device) fillReport() (api.Report, error) {
	r := d.Report()
	now := d.Clock.Now()
	d.mu.Lock()
	r.State = api.ConfigStateApplied
	if d.current != nil {
		r.ConfigVersion, r.Stale = d.current.doc.Version, d.current.stale(now)
	}
	if d.refused.err != nil {
		r.State, r.Reason = api.ConfigStateFailed, reason(d.refused.err)
	}
	d.mu.Unlock()
	if r.Agent.Version == "" {
		r.Agent = api.ReportAgent{Version: version.Version, Os: runtime.GOOS, Uptime: int64(now.Sub(d.started).Seconds())}
	}
	var err error
	if r.ActionsDone, err = d.unacknowledged(); err != nil {
		return r, err
	}
	return shrink(r), nil
}

// reason is what the administrator reads: the class of the refusal, and the
// agent's own words where the class alone says nothing.
func reason(err error) string {
	var r *Refusal
	if !errors.As(err, &r) {
		return err.Error()
	}
	if r.Reason != "apply" && r.Reason != "store" {
		return r.Reason
	}
	text := r.Reason + ": " + r.Err.Error()
	if len(text) > 500 {
		text = text[:500]
	}
	return text
}

// shrink leaves out what is least needed until the Manager takes the report.
func shrink(r api.Report) api.Report {
	for _, drop := range []func(){func() {}, func() { r.Repairs = nil }, func() { r.Hosts = nil }, func() { r.Users = nil }} {
		drop()
		if raw, err := json.Marshal(r); err == nil && len(raw) <= maxReport {
			return r
		}
	}
	return r
}
