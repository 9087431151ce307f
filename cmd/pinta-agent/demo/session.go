package demo

import (
	"os"
	"os/exec"
	"path/filepath"
)

// SessionCommand is the hidden subcommand of a session's stand-in.
const SessionCommand = "session"

// startSession starts a program by the name of Copilot's, which waits for the
// end of its stdin: to the agent a session that has read its hooks.
func (r *run) startSession() (end func(), err error) {
	agent := r.site.Programs.Agent
	program := filepath.Join(filepath.Dir(agent), "copilot"+filepath.Ext(agent))
	if err := os.Link(agent, program); err != nil {
		return nil, err
	}
	command := exec.Command(program, "demo", SessionCommand)
	command.Env = []string{"HOME=" + r.site.Dir, "TMPDIR=" + r.site.Dir, "SystemRoot=" + os.Getenv("SystemRoot")}
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	return func() { in.Close(); command.Wait() }, nil //nolint:errcheck // its end is all that counts
}
