package hook

import (
	"errors"
	"strconv"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/post"
	"github.com/pinta-ai/pinta-agent/hook/queue"
	"github.com/pinta-ai/pinta-agent/hook/verdict"
)

// maxReply is how much of a collector's answer is read: it says nothing that
// is acted upon.
const maxReply = 64 << 10

// deliver sends what waits and then the span, within the telemetry budget. A
// collector that doesn't take the first is not tried with the second.
func (r *run) deliver(collector string, payload []byte) {
	deadline := time.Now().Add(r.env.TelemetryBudget())
	if last := r.start.Add(lastCall); deadline.After(last) {
		deadline = last
	}
	kept := false
	send := r.sender(collector, deadline, &kept)
	if dir := r.env.Data(); dir != "" {
		stats, err := queue.Flush(dir, r.p.Now(), deadline, send)
		if kept = kept || stats.Down; err != nil && !kept {
			r.p.failed("queue", err)
		}
		r.lost(stats.Dropped)
	}
	if !kept {
		_, _ = send(payload)
	}
	if kept {
		r.keep(payload)
	}
}

// sender posts bodies to the collector. kept is set when it doesn't take one.
func (r *run) sender(collector string, deadline time.Time, kept *bool) queue.Send {
	headers := []post.Header{{Name: "content-type", Value: "application/json"}, {Name: "user-agent", Value: verdict.UserAgent()}}
	for _, h := range r.env.TelemetryHeaders() {
		headers = append(headers, post.Header(h))
	}
	return func(body []byte) (queue.Outcome, error) {
		a, err := post.Do(post.Request{URL: collector, Headers: headers, Body: body, Limit: maxReply}, r.env.Get, deadline)
		switch {
		case a.Status >= 200 && a.Status < 300:
			return queue.Delivered, nil // whatever became of the rest of the answer
		case refused(a.Status):
			r.p.note("telemetry: the collector refuses this data with status " + strconv.Itoa(a.Status) + ": dropped")
			return queue.Refused, nil
		case err == nil:
			err = errors.New("the collector answered with status " + strconv.Itoa(a.Status))
		}
		*kept = true
		r.p.failed("telemetry waits in the queue", err)
		return queue.Keep, err
	}
}

// refused says whether a body is not to be tried again (hook.md 9).
func refused(status int) bool {
	return status == 400 || status == 413 || status == 415 || status == 422
}

// keep queues the span for a later run.
func (r *run) keep(payload []byte) {
	dir := r.env.Data()
	if dir == "" {
		r.p.note("span lost: there is no home to queue it in")
		return
	}
	dropped, err := queue.Append(dir, payload, r.p.Now())
	if err != nil {
		r.p.failed("span lost", err)
	}
	r.lost(dropped)
}

// lost notes how many waiting spans had to go.
func (r *run) lost(n int) {
	if n > 0 {
		r.p.note("queue: " + strconv.Itoa(n) + " old spans dropped")
	}
}
