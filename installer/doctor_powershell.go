package installer

// sessionKey holds the machine's environment, below HKLM.
const sessionKey = `SYSTEM\CurrentControlSet\Control\Session Manager\Environment`

// powerShell tells what keeps Windows PowerShell from running an entry: whether
// it was found at path, and the machine's __PSLockdownPolicy. It stands apart
// from the look at the machine so that it is tested on every system.
func powerShell(path string, found bool, lockdown string) []Finding {
	var out []Finding
	add := func(sev Severity, path, detail, remedy string) {
		out = append(out, Finding{ID: "powershell.restricted", Severity: sev, Object: "machine", Path: path, Detail: detail, Remedy: remedy})
	}
	if !found {
		add(Error, path, "Windows PowerShell can't be found: VS Code runs hooks with it", "restore Windows PowerShell")
	}
	if lockdown != "" && lockdown != "0" {
		add(Notice, `HKLM\`+sessionKey, "PowerShell runs in Constrained Language Mode; the launcher works in it", "nothing to do")
	}
	return out
}
