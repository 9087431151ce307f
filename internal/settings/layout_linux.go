package settings

import (
	"os"
	"path/filepath"
)

func systemLayout() Layout {
	return Layout{
		System:     true,
		HookBinary: "/usr/lib/pinta-agent/pinta-hook",
		Agent:      "/usr/bin/pinta-agent",
		ConfigFile: "/etc/pinta-agent/agent.yaml",
		TokenFile:  "/etc/pinta-agent/enrollment-token",
		StateDir:   "/var/lib/pinta-agent",
		RunDir:     "/run/pinta-agent",
		Endpoint:   "/run/pinta-agent/agent.sock",
		PolicyDir:  "/etc/github-copilot/policy.d",
		Account:    "pinta-agent",
	}
}

func userLayout(home string) Layout {
	l := Layout{
		HookBinary: filepath.Join(home, ".local/share/pinta-agent/pinta-hook"),
		ConfigFile: filepath.Join(home, ".config/pinta-agent/agent.yaml"),
		StateDir:   filepath.Join(home, ".local/state/pinta-agent"),
	}
	l.Agent, _ = os.Executable()
	l.RunDir, l.Endpoint = userSocket(l.StateDir)
	return l
}
