package device

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/internal/api"
)

// errWoken ends a held poll that is to be asked anew.
var errWoken = errors.New("woken")

// pollLoop asks for a newer config, one held request after the other.
func (d *Device) pollLoop(ctx context.Context) {
	backoff, limit := firstBackoff, hold
	failures, cuts := 0, 0
	for ctx.Err() == nil {
		if !d.enrolled(ctx) {
			failures, backoff = 0, firstBackoff
			sleep(ctx, look, d.woken[pollWoken])
			continue
		}
		began := d.Clock.Now()
		wait := min(d.patience(began), limit)
		err := d.poll(ctx, wait, false)
		if ctx.Err() != nil {
			return
		}
		held := d.Clock.Now().Sub(began)
		pause := time.Duration(0)
		switch {
		case errors.Is(err, errWoken):
			pause = upTo(gap)
		case errors.Is(err, api.ErrNotModified):
			failures, cuts, backoff = 0, 0, laterBackoff
			// A Manager that ends answers everybody at once; all of them asking
			// again at once is what it needs least.
			if rest := wait - held; rest > wait/2 {
				pause = upTo(rest)
			}
		case err == nil || isRefusal(err):
			failures, cuts, backoff = 0, 0, laterBackoff
			pause = d.penance()
		default:
			failures++
			pause = backoff.Delay(failures, retryAfter(err))
			// Twice in a row an answer that never came, after a while of silence:
			// something between doesn't bear requests that are held so long.
			if held < shortest || api.CodeOf(err) != "" {
				cuts = 0
			} else if cuts++; cuts > 1 && limit > shortest {
				limit, cuts = max(limit/2, shortest), 0
			}
		}
		// Whatever comes back at once: never more than one poll a second.
		pause = max(pause, time.Second-held)
		if d.broken() && failures == 0 {
			d.Changed() // reports have waited for this
		}
		d.pace(failures, pause)
		sleep(ctx, pause, d.woken[pollWoken])
	}
}

func (d *Device) pace(failures int, pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status.Failures = failures
	d.status.Next = time.Time{}
	if pause > 0 {
		d.status.Next = d.Clock.Now().Add(pause)
	}
}

// penance is the pause before the next poll where the If-None-Match of a refused
// config holds nobody.
func (d *Device) penance() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.refused.idle {
		return 0
	}
	return d.refused.until.Sub(d.Clock.Now())
}

func isRefusal(err error) bool {
	var r *Refusal
	return errors.As(err, &r)
}

// retryAfter is the pause that the Manager asked for.
func retryAfter(err error) time.Duration {
	var p *api.Problem
	if errors.As(err, &p) {
		return time.Duration(p.RetryAfter) * time.Second
	}
	return 0
}

// enrolled says whether there is an identity to call with; if one has ended,
// it sees to what that means.
func (d *Device) enrolled(ctx context.Context) bool {
	_, err := d.State.Identity()
	if errors.Is(err, enroll.ErrNotEnrolled) {
		if err := d.afterRetirement(ctx); err != nil {
			d.Log.Error("retired, but what was installed could not be taken back; it is tried again", "error", err)
		}
	}
	return err == nil
}

// patience is how long the next poll may be held: until a refused config is
// due for another look, if there is one.
func (d *Device) patience(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rest := d.refused.until.Sub(now); d.refused.err != nil && rest < hold {
		return max(rest, 0).Truncate(time.Second) + time.Second
	}
	return hold
}

// knownETag names the config that the Manager need not send: the one in force,
// or one that was refused and is not due yet. What another Manager called its
// config means nothing to this one.
func (d *Device) knownETag() string {
	id, err := d.State.Identity()
	if err != nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.refused.err != nil && d.Clock.Now().Before(d.refused.until):
		return d.refused.etag
	case d.current != nil && d.current.root == id.Root:
		return d.current.etag
	}
	return ""
}

// poll asks once and takes what comes. fresh asks for the config whatever is
// known. Errors: api.ErrNotModified, *Refusal, errWoken, or that of the exchange.
func (d *Device) poll(ctx context.Context, wait time.Duration, fresh bool) error {
	c, err := d.Client.API()
	if err != nil {
		return err
	}
	params := api.GetDeviceConfigParams{Wait: int(wait / time.Second)}
	if !fresh {
		params.IfNoneMatch = d.knownETag()
	}
	held, wake := context.WithTimeout(ctx, wait+slack)
	defer wake()
	d.mu.Lock()
	d.wake = wake
	d.mu.Unlock()
	res, err := c.GetDeviceConfig(held, params)
	var header http.Header
	read := &counted{}
	if err == nil {
		header = res.Header
		read.ReadCloser, res.Body = res.Body, read
	}
	jws, err := api.Raw(res, err)
	if err != nil && errors.Is(held.Err(), context.Canceled) {
		return errWoken // or the service ends: the Manager did nothing wrong
	}
	etag := header.Get("ETag")
	switch {
	case err != nil && read.n > api.MaxAnswer && res.StatusCode == http.StatusOK:
		err = refuse("malformed", "%w", err) // as every other document that is none
		d.judged(etag, err)
		d.Changed()
	case err == nil:
		if err = d.take(ctx, c, arrival{string(jws), etag, header.Get("Pinta-Override"), header.Get("Pinta-Group")}); !errors.Is(err, api.ErrNotModified) {
			d.judged(etag, err)
			d.Changed()
		}
	}
	if errors.Is(err, api.ErrNotModified) {
		d.contact(nil)
		if fresh {
			return nil
		}
		return err
	}
	var r *Refusal
	switch {
	case !errors.As(err, &r):
		d.contact(err)
	case r.Reason != "malformed" && r.Reason != "signature":
		d.contact(nil) // it was the Manager all the same
	}
	return err
}

// judged remembers a refusal, so that the same document isn't fetched again and
// again; one that may be mended by itself (no disk, no rule engine yet) gets
// another look later.
func (d *Device) judged(etag string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.refused = refusal{}
		return
	}
	now := d.Clock.Now()
	tries := 1
	if d.refused.etag == etag {
		tries = d.refused.tries + 1
	}
	// Who answers at once with what was refused a moment ago, or with what has no
	// name, would be asked in a circle: a login page, say.
	idle := etag == "" || d.refused.etag == etag && now.Before(d.refused.until)
	d.refused = refusal{etag: etag, until: now.Add(time.Minute + laterBackoff.Delay(tries, 0)), idle: idle, tries: tries, err: err}
	d.Log.Error("the newest config is not applied; the one in force stays", "error", err)
}

// counted is a body with what was read of it, in bytes.
type counted struct {
	io.ReadCloser
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n += n
	return n, err
}
