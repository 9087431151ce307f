// Package verdict asks the guard about one event and words its denials: the
// question, the answer's types, and what each host understands as "no"
// (hook.md 4 and 5). It decides nothing itself; whatever goes wrong allows.
package verdict

import (
	"errors"
	"strconv"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/config"
	"github.com/pinta-ai/pinta-agent/hook/post"
	"github.com/pinta-ai/pinta-agent/internal/version"
)

const (
	// MaxQuestion is the size of the largest body the guard is sent, and
	// MaxRetry that of the second one after a 413, in bytes.
	MaxQuestion = 4 << 20
	MaxRetry    = 921_600
	maxAnswer   = 16 << 20
)

// UserAgent names the hook to guard and collector.
func UserAgent() string { return "pinta-copilot/" + version.Version }

// Question is one guard question.
type Question struct {
	Endpoint string
	Token    string
	// Body returns the judged span as JSON of at most limit bytes.
	Body func(limit int) []byte
	// Budget is the time for a body of size bytes.
	Budget func(size int) time.Duration
	// Latest bounds the deadline, whatever the budget.
	Latest time.Time
	Env    post.Env
}

// Ask puts the question. The verdict is never nil; err says why a call passes
// unjudged, for one line on stderr.
func Ask(q Question) (*Verdict, error) {
	body := q.Body(MaxQuestion)
	budget := q.Budget(len(body))
	deadline := time.Now().Add(budget)
	if deadline.After(q.Latest) {
		deadline = q.Latest
	}
	answer, err := q.send(body, budget, deadline)
	if err == nil && answer.Status == 413 && len(body) > MaxRetry {
		answer, err = q.send(q.Body(MaxRetry), budget, deadline)
	}
	return judge(answer, err)
}

func (q *Question) send(body []byte, budget time.Duration, deadline time.Time) (post.Answer, error) {
	return post.Do(post.Request{
		URL: q.Endpoint,
		Headers: []post.Header{
			{Name: "content-type", Value: "application/json"},
			{Name: "user-agent", Value: UserAgent()},
			{Name: config.RelayHeader, Value: q.Token},
			{Name: "x-pinta-guard-budget-ms", Value: strconv.FormatInt(int64((budget+time.Millisecond-1)/time.Millisecond), 10)},
		},
		Body:  body,
		Limit: maxAnswer,
	}, q.Env, deadline)
}

var (
	errAnswer = errors.New("the answer is no verdict")
	errFault  = errors.New("internal fault: the call passes unjudged")
	errCut    = errors.New("the answer is longer than 16 MiB")
)

// Unjudged is the verdict of a question that a fault of ours prevented.
func Unjudged() (*Verdict, error) { return open(Fault), errFault }

// judge makes a verdict of what came back.
func judge(a post.Answer, err error) (*Verdict, error) {
	switch {
	case a.Status == 410:
		return open(Refused), errors.New("the guard refused: status 410")
	case a.Status == 200 && a.Cut:
		if deniesEarly(a.Body) {
			return &Verdict{Decision: Deny}, errCut
		}
		return open(Fault), errCut
	case a.Status == 200:
		// An object that has arrived whole is the answer, even if the
		// connection then failed.
		if v := decode(a.Body); v != nil {
			return v, nil
		}
	}
	switch {
	case err == post.ErrTimeout:
		return open(Timeout), err
	case err != nil:
		return open(Fault), err
	case a.Status != 200:
		return open(Fault), errors.New("the guard answered with status " + strconv.Itoa(a.Status))
	}
	return open(Fault), errAnswer
}
