package settings

import (
	"os"
	"path/filepath"
)

const darwinFolder = "/Library/Application Support/Pinta/Agent"

func systemLayout() Layout {
	return Layout{
		System:     true,
		HookBinary: darwinFolder + "/pinta-hook",
		Agent:      darwinFolder + "/pinta-agent",
		ConfigFile: darwinFolder + "/agent.yaml",
		StateDir:   darwinFolder + "/state",
		RunDir:     "/var/run/pinta-agent",
		Endpoint:   "/var/run/pinta-agent/agent.sock",
		PolicyDir:  "/etc/github-copilot/policy.d",
		Account:    "_pinta-agent",
	}
}

func userLayout(home string) Layout {
	l := Layout{
		HookBinary: filepath.Join(home, "Library/Application Support/pinta-agent/pinta-hook"),
		ConfigFile: filepath.Join(home, ".config/pinta-agent/agent.yaml"),
		StateDir:   filepath.Join(home, ".local/state/pinta-agent"),
	}
	l.Agent, _ = os.Executable()
	l.RunDir, l.Endpoint = userSocket(l.StateDir)
	return l
}
