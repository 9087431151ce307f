package enroll

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows/registry"

	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// Where the MSI leaves the property ENROLLMENT_TOKEN: a key that only SYSTEM
// and the administrators can open (security.md S5).
const (
	deliveredKey   = `Software\Pinta\Agent\Enrollment`
	deliveredValue = "Token"
)

// delivered is the place where an installer leaves a token.
func delivered(l settings.Layout) []source {
	if l.Root != "" || !l.System {
		return nil
	}
	read := func() ([]byte, error) {
		key, err := registry.OpenKey(registry.LOCAL_MACHINE, deliveredKey, registry.QUERY_VALUE)
		if errors.Is(err, registry.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fail(CodeLocal, `open HKLM\%s: %w`, deliveredKey, err)
		}
		defer key.Close()
		text, _, err := key.GetStringValue(deliveredValue)
		if errors.Is(err, registry.ErrNotExist) || text == "" {
			return nil, nil
		}
		if err != nil {
			return nil, fail(CodeLocal, `read HKLM\%s: %w`, deliveredKey, err)
		}
		return []byte(text), nil
	}
	scrub := func(token.Token) error {
		key, err := registry.OpenKey(registry.LOCAL_MACHINE, deliveredKey, registry.SET_VALUE)
		if err != nil {
			return fmt.Errorf(`open HKLM\%s: %w`, deliveredKey, err)
		}
		defer key.Close()
		return key.DeleteValue(deliveredValue)
	}
	return []source{{"the installer's registry value", read, scrub}}
}
