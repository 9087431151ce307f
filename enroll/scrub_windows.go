package enroll

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows/registry"

	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// policyKey is where settings.Load reads the registry policy.
const policyKey = `Software\Policies\Pinta\Agent`

// scrubPolicy deletes the token's registry value, if it is this token.
func scrubPolicy(l settings.Layout, t token.Token) error {
	if l.Root != "" {
		return nil
	}
	name := ""
	for _, k := range settings.Keys {
		if k.Name == settings.KeyEnrollmentToken {
			name = k.Policy
		}
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, policyKey, registry.QUERY_VALUE|registry.SET_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the registry policy: %w", err)
	}
	defer key.Close()
	text, _, err := key.GetStringValue(name)
	if err != nil || !holds([]byte(text), t) {
		return nil
	}
	if err := key.DeleteValue(name); err != nil {
		return fmt.Errorf("delete the registry value %s: %w", name, err)
	}
	return nil
}
