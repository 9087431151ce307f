package installer

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/pinta-ai/pinta-agent/internal/settings"
)

func managedSettings(l settings.Layout) []string {
	dir := filepath.Dir(l.PolicyDir)
	return []string{filepath.Join(dir, "managed-settings.json"), filepath.Join(dir, "settings.json")}
}

const editorPolicyKey = `Software\Policies\Microsoft\VSCode`

func editorPolicies(l settings.Layout) []setting {
	if l.Root != "" {
		return nil
	}
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, editorPolicyKey, registry.READ)
	if err != nil {
		return nil
	}
	defer func() { _ = k.Close() }()
	var out []setting
	if v, _, err := k.GetIntegerValue("ChatHooks"); err == nil && v == 0 {
		out = append(out, setting{`HKLM\` + editorPolicyKey, "ChatHooks is 0"})
	}
	if v, _, err := k.GetIntegerValue("ChatAllowManagedHooksOnly"); err == nil && v == 1 {
		out = append(out, setting{`HKLM\` + editorPolicyKey, "ChatAllowManagedHooksOnly is 1"})
	}
	return out
}

// platformFindings looks at what keeps PowerShell from running an entry.
func platformFindings() []Finding {
	path, found := "", true
	if dir, err := windows.GetSystemDirectory(); err == nil {
		path = filepath.Join(dir, "WindowsPowerShell", "v1.0", "powershell.exe")
		_, err := os.Stat(path)
		found = err == nil
	}
	lockdown := ""
	if k, err := registry.OpenKey(registry.LOCAL_MACHINE, sessionKey, registry.READ); err == nil {
		defer func() { _ = k.Close() }()
		lockdown, _, _ = k.GetStringValue("__PSLockdownPolicy")
	}
	return powerShell(path, found, lockdown)
}
