package installer

import (
	"path/filepath"
	"strings"
)

// isHost tells whether a command line is Copilot CLI's or VS Code's.
func isHost(argv []string) bool {
	for i, a := range argv {
		if i > 2 { // the program, or an interpreter's script
			break
		}
		a = strings.ToLower(strings.ReplaceAll(a, `\`, "/"))
		if strings.Contains(a, "@github/copilot") || strings.Contains(a, "/copilot/pkg/") {
			return true
		}
		base := strings.TrimSuffix(filepath.Base(a), ".exe")
		if base == "copilot" || i == 0 && (base == "code" || base == "code-insiders" || strings.HasPrefix(base, "code helper")) {
			return true
		}
	}
	return false
}
