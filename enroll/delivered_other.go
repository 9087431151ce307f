//go:build !windows

package enroll

import "github.com/pinta-ai/pinta-agent/internal/settings"

// delivered is the place where an installer leaves a token; Layout.TokenFile
// here.
func delivered(settings.Layout) []source { return nil }
