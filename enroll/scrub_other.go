//go:build !windows

package enroll

import (
	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// scrubPolicy takes the token out of the managed source above agent.yaml. On
// macOS that is a profile, which is the MDM's alone: a token in one should be
// one that expires. On Linux there is none.
func scrubPolicy(settings.Layout, token.Token) error { return nil }
