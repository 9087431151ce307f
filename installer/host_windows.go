package installer

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// hostShells are the ways in which hosts run an entry here. pwsh is left out:
// where it lies is up to PATH.
func hostShells(e Entry) []Command {
	dir, err := windows.GetSystemDirectory()
	if err != nil {
		return nil
	}
	ps := filepath.Join(dir, "WindowsPowerShell", "v1.0", "powershell.exe")
	return []Command{{Path: ps, Args: []string{"-nop", "-nol", "-c", e.PowerShell}}}
}

func homeEnv(home string) []string { return []string{"USERPROFILE=" + home} }

func noexec(string) bool { return false }
