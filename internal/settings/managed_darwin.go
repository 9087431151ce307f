package settings

import (
	"errors"
	"fmt"
	"io/fs"

	"howett.net/plist"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

const managedPreferences = "/Library/Managed Preferences/ai.pinta.agent.plist"

// managedValues reads the preferences that an MDM profile forces.
func managedValues(Layout) (map[string]string, string, error) {
	data, err := safefile.ReadFile(managedPreferences, maxConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, managedPreferences, nil
	}
	if err != nil {
		return nil, managedPreferences, fmt.Errorf("read the managed preferences: %w", err)
	}
	var all map[string]any
	if _, err := plist.Unmarshal(data, &all); err != nil {
		return nil, managedPreferences, fmt.Errorf("managed preferences %s: %w", managedPreferences, err)
	}
	values := map[string]string{}
	for _, k := range Keys {
		if v, ok := all[k.Name]; ok {
			values[k.Name] = fmt.Sprint(v)
		}
	}
	return values, managedPreferences, nil
}
