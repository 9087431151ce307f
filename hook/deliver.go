package hook

import (
	"errors"
	"strconv"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/post"
	"github.com/pinta-ai/pinta-agent/hook/verdict"
)

// maxReply is how much of a collector's answer is read: it says nothing that
// is acted upon.
const maxReply = 64 << 10

// sender posts bodies to the collector. It returns nil when the collector has
// taken a body or will never take it, an error when it may later.
func (r *run) sender(collector string, deadline time.Time) func(body []byte) error {
	headers := []post.Header{{Name: "content-type", Value: "application/json"}, {Name: "user-agent", Value: verdict.UserAgent()}}
	for _, h := range r.env.TelemetryHeaders() {
		headers = append(headers, post.Header(h))
	}
	return func(body []byte) error {
		a, err := post.Do(post.Request{URL: collector, Headers: headers, Body: body, Limit: maxReply}, r.env.Get, deadline)
		switch {
		case a.Status >= 200 && a.Status < 300:
			return nil // whatever became of the rest of the answer
		case refused(a.Status):
			r.p.note("telemetry: the collector refuses this data, status " + strconv.Itoa(a.Status) + "; dropped")
			return nil
		case err == nil:
			err = errors.New("status " + strconv.Itoa(a.Status))
		}
		r.p.failed("telemetry waits in the queue", err)
		return err
	}
}

// refused says whether a body is not to be tried again (hook.md 9).
func refused(status int) bool {
	return status == 400 || status == 413 || status == 415 || status == 422
}
