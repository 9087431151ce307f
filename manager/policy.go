package manager

import (
	"encoding/json"
	"errors"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

// Policies compiles what authors write; package guard does.
type Policies interface {
	// Compile checks and type-checks a policy. A refusal is a *PolicyError.
	Compile(files []api.PolicyFile) (Compiled, error)
	// Test judges events, and runs the fixtures among the files.
	Test(files, events []api.PolicyFile) (api.PolicyTestResult, error)
	// CanonicalTool is the canonical name of a host's tool.
	CanonicalTool(host string) string
}

// Compiled is a policy that can be published.
type Compiled struct {
	Guard     json.RawMessage      // the config's guard section
	Telemetry *api.TelemetryConfig // nil: to the Manager
	Rules     int
	Mode      string
	Warnings  []api.PolicyFinding
}

// PolicyError says why a policy is refused.
type PolicyError struct{ Findings []api.PolicyFinding }

func (e *PolicyError) Error() string {
	if len(e.Findings) == 0 {
		return "policy is not valid"
	}
	return "policy is not valid: " + e.Findings[0].Message
}

func policyProblem(err error) error {
	var pe *PolicyError
	if !errors.As(err, &pe) {
		return err
	}
	p := api.NewProblem(api.ProblemCodePolicyInvalid, "")
	p.Findings = pe.Findings
	return p
}
