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
	var out []Finding
	add := func(sev Severity, path, detail, remedy string) {
		out = append(out, Finding{ID: "powershell.restricted", Severity: sev, Object: "machine", Path: path, Detail: detail, Remedy: remedy})
	}
	if dir, err := windows.GetSystemDirectory(); err == nil {
		ps := filepath.Join(dir, "WindowsPowerShell", "v1.0", "powershell.exe")
		if _, err := os.Stat(ps); err != nil {
			add(Error, ps, "Windows PowerShell can't be found: VS Code runs hooks with it", "restore Windows PowerShell")
		}
	}
	const session = `SYSTEM\CurrentControlSet\Control\Session Manager\Environment`
	if k, err := registry.OpenKey(registry.LOCAL_MACHINE, session, registry.READ); err == nil {
		defer func() { _ = k.Close() }()
		if v, _, err := k.GetStringValue("__PSLockdownPolicy"); err == nil && v != "" && v != "0" {
			add(Notice, `HKLM\`+session, "PowerShell runs in Constrained Language Mode; the launcher works in it", "nothing to do")
		}
	}
	return out
}
