//go:build unix

package installer

import "os"

// hostShells are the ways in which hosts run an entry here: Copilot CLI by
// bash without start-up files, VS Code by sh.
func hostShells(e Entry) []Command {
	var out []Command
	for _, bash := range []string{"/bin/bash", "/usr/bin/bash"} {
		if _, err := os.Stat(bash); err == nil {
			out = append(out, Command{Path: bash, Args: []string{"--norc", "--noprofile", "-c", e.Bash}})
			break
		}
	}
	return append(out, Command{Path: "/bin/sh", Args: []string{"-c", e.Bash}})
}

func homeEnv(home string) []string { return []string{"HOME=" + home} }
