package settings

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/windows/registry"
)

const policyKey = `Software\Policies\Pinta\Agent`

// managedValues reads the registry policy that Intune or a GPO writes.
func managedValues(Layout) (map[string]string, string, error) {
	source := `HKLM\` + policyKey
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, policyKey, registry.QUERY_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return nil, source, nil
	}
	if err != nil {
		return nil, source, fmt.Errorf("open the policy %s: %w", source, err)
	}
	defer key.Close()
	values := map[string]string{}
	for _, k := range Keys {
		if text, _, err := key.GetStringValue(k.Policy); err == nil {
			values[k.Name] = text
		} else if number, _, err := key.GetIntegerValue(k.Policy); err == nil {
			values[k.Name] = strconv.FormatUint(number, 10)
		}
	}
	return values, source, nil
}
