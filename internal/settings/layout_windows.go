package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

const systemPipe = `\\.\pipe\pinta-agent`

// knownFolder asks the system, not the environment, which a caller can set.
func knownFolder(id *windows.KNOWNFOLDERID, fallback string) string {
	if p, err := windows.KnownFolderPath(id, windows.KF_FLAG_DEFAULT); err == nil {
		return p
	}
	return fallback
}

func systemLayout() Layout {
	programs := filepath.Join(knownFolder(windows.FOLDERID_ProgramFiles, `C:\Program Files`), "Pinta", "Agent")
	data := knownFolder(windows.FOLDERID_ProgramData, `C:\ProgramData`)
	ours := filepath.Join(data, "Pinta", "Agent")
	return Layout{
		System:     true,
		HookBinary: filepath.Join(programs, "pinta-hook.exe"),
		Agent:      filepath.Join(programs, "pinta-agent.exe"),
		ConfigFile: filepath.Join(ours, "agent.yaml"),
		StateDir:   filepath.Join(ours, "state"),
		Endpoint:   systemPipe,
		PolicyDir:  filepath.Join(data, "GitHub", "Copilot", "policy.d"),
		Account:    `NT AUTHORITY\LocalService`,
	}
}

func userLayout(home string) Layout {
	ours := filepath.Join(knownFolder(windows.FOLDERID_LocalAppData, filepath.Join(home, "AppData", "Local")), "pinta-agent")
	l := Layout{
		HookBinary: filepath.Join(ours, "pinta-hook.exe"),
		ConfigFile: filepath.Join(home, ".config", "pinta-agent", "agent.yaml"),
		StateDir:   filepath.Join(ours, "state"),
		Endpoint:   systemPipe + "-" + userSID(),
	}
	l.Agent, _ = os.Executable()
	return l
}

func userSID() string {
	u, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "unknown"
	}
	return u.User.Sid.String()
}

func isAdministrator() bool { return windows.GetCurrentProcessToken().IsElevated() }

// rootedEndpoint names a pipe of its own for each --root folder, since pipes
// live in one flat name space.
func (l Layout) rootedEndpoint() string {
	sum := sha256.Sum256([]byte(l.Root))
	return systemPipe + "-" + hex.EncodeToString(sum[:8])
}
