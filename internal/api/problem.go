package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// problemType is the prefix of the type member; the code follows.
const problemType = "urn:pinta:problem:"

// problems says for each code the status and the title, which never change.
var problems = map[ProblemCode]struct {
	status int
	title  string
}{
	ProblemCodeMalformed:            {http.StatusBadRequest, "The request is malformed"},
	ProblemCodeEmptyBody:            {http.StatusBadRequest, "The body is empty"},
	ProblemCodeTooLarge:             {http.StatusRequestEntityTooLarge, "The body is too large"},
	ProblemCodeUnsupportedMediaType: {http.StatusUnsupportedMediaType, "The content type or encoding is not taken here"},
	ProblemCodeNotFound:             {http.StatusNotFound, "There is no such thing"},
	ProblemCodeMethodNotAllowed:     {http.StatusMethodNotAllowed, "The method is not allowed here"},
	ProblemCodeTokenUnknown:         {http.StatusUnauthorized, "The enrolment token is not known to this Manager"},
	ProblemCodeTokenExpired:         {http.StatusUnauthorized, "The enrolment token has expired"},
	ProblemCodeTokenRevoked:         {http.StatusUnauthorized, "The enrolment token was revoked"},
	ProblemCodeTokenExhausted:       {http.StatusUnauthorized, "The enrolment token has been used up"},
	ProblemCodeTokenScope:           {http.StatusForbidden, "The enrolment token is not meant for this machine"},
	ProblemCodeUnauthenticated:      {http.StatusUnauthorized, "A valid credential is needed"},
	ProblemCodeForbidden:            {http.StatusForbidden, "The API key's role doesn't allow this"},
	ProblemCodeSignature:            {http.StatusUnauthorized, "A signature doesn't hold"},
	ProblemCodeAudience:             {http.StatusUnauthorized, "The request was meant for another Manager"},
	ProblemCodeClockSkew:            {http.StatusUnauthorized, "The clocks differ too much"},
	ProblemCodeReplay:               {http.StatusUnauthorized, "This request was made before"},
	ProblemCodeRequestMismatch:      {http.StatusUnauthorized, "The credential was made for another request"},
	ProblemCodeDeviceUnknown:        {http.StatusUnauthorized, "The device or its key is not known to this Manager"},
	ProblemCodeDeviceRetired:        {http.StatusForbidden, "The device was retired"},
	ProblemCodeClone:                {http.StatusForbidden, "Two machines use the same device key; enrol again"},
	ProblemCodeKeyInUse:             {http.StatusConflict, "The offered key belongs to another device or was used before"},
	ProblemCodeConflict:             {http.StatusConflict, "The request conflicts with what is there"},
	ProblemCodePolicyInvalid:        {http.StatusUnprocessableEntity, "The policy is not valid"},
	ProblemCodeBusy:                 {http.StatusTooManyRequests, "The Manager has too much to do"},
	ProblemCodeUnavailable:          {http.StatusServiceUnavailable, "The Manager can't serve this now"},
	ProblemCodeInternal:             {http.StatusInternalServerError, "The Manager failed"},
}

// NewProblem makes the problem of a code. detail is for people and must not repeat what was sent.
func NewProblem(code ProblemCode, detail string) *Problem {
	p, ok := problems[code]
	if !ok {
		code, p = ProblemCodeInternal, problems[ProblemCodeInternal]
	}
	return &Problem{Type: problemType + string(code), Title: p.title, Status: p.status, Code: code, Detail: detail}
}

// Error says title and detail. A Problem is what a refused call of Client returns.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return fmt.Sprintf("manager: %s (%s)", p.Title, p.Code)
	}
	return fmt.Sprintf("manager: %s: %s (%s)", p.Title, p.Detail, p.Code)
}

// Is makes errors.Is(err, NewProblem(code, "")) true for each problem of that code.
func (p *Problem) Is(target error) bool {
	t, ok := target.(*Problem)
	return ok && t.Code == p.Code
}

// After adds how long to wait, rounded up to seconds.
func (p *Problem) After(d time.Duration) *Problem {
	p.RetryAfter = max(1, int(math.Ceil(d.Seconds())))
	return p
}

// Write answers a request with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="pinta"`)
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the status line is out; a reader that is gone is no fault of ours
}

// CodeOf returns the code of a problem in err's chain, or "".
func CodeOf(err error) ProblemCode {
	var p *Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}
