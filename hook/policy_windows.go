package hook

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// openPolicy opens the machine's hook file at its real path, never below
// --root, if it and its folder belong to SYSTEM or the administrators.
func openPolicy() (Policy, error) {
	data, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(data, "GitHub", "Copilot", "policy.d")
	path := filepath.Join(dir, "90-pinta.json")
	for _, name := range [...]string{dir, path} {
		if err := ownedByMachine(name); err != nil {
			return nil, err
		}
	}
	return safefile.Open(path, os.O_RDONLY, 0)
}

func ownedByMachine(path string) error {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	if !owner.IsWellKnown(windows.WinLocalSystemSid) && !owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
		return windows.ERROR_ACCESS_DENIED
	}
	return nil
}
