package guard

import (
	"encoding/json"

	"github.com/pinta-ai/pinta-agent/guard/detect"
)

// Answer is the guard's answer of hook.md 4.3.
type Answer struct {
	Decision       string // ALLOW, DENY, REVIEW
	Reason         string // the rule's id
	UserMessage    string // the rule's message
	DurationMs     float64
	FailOpenReason string // timeout, error
	EvaluationID   string
	OutputAction   string // mask, withhold
	Redactions     []Redaction
}

// Redaction is a value of the output and its kind. It lives in this one answer.
type Redaction struct {
	Value    string `json:"value"`
	Category string `json:"category"`
}

// MarshalJSON writes the answer as the hook reads it.
func (a Answer) MarshalJSON() ([]byte, error) {
	null := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return json.Marshal(struct {
		Decision       string      `json:"decision"`
		Reason         *string     `json:"reason"`
		UserMessage    *string     `json:"userMessage"`
		DurationMs     float64     `json:"durationMs"`
		FailOpenReason string      `json:"failOpenReason,omitempty"`
		EvaluationID   string      `json:"evaluationId,omitempty"`
		OutputAction   string      `json:"outputAction,omitempty"`
		Redactions     []Redaction `json:"redactions,omitempty"`
	}{a.Decision, null(a.Reason), null(a.UserMessage), a.DurationMs, a.FailOpenReason, a.EvaluationID, a.OutputAction, a.Redactions})
}

// redactions lists the distinct values of findings, the first kind of each.
func redactions(found []detect.Finding) (list []Redaction) {
	seen := map[string]bool{}
	for _, f := range found {
		if !seen[f.Secret] && f.Secret != "" {
			seen[f.Secret] = true
			list = append(list, Redaction{f.Secret, f.Category})
		}
	}
	return list
}
