package demo

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

//go:embed testdata/*.json
var payloads embed.FS

// entry is what the host needs of one registration.
type entry struct {
	Bash       string            `json:"bash"`
	PowerShell string            `json:"powershell"`
	Env        map[string]string `json:"env"`
	TimeoutSec int               `json:"timeoutSec"`
}

// registered reads a hook file as the host does at session start.
func registered(hookFile string) (map[string]entry, error) {
	data, err := os.ReadFile(hookFile)
	if err != nil {
		return nil, err
	}
	var file struct {
		Hooks map[string][]entry `json:"hooks"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("hook file %s: %w", hookFile, err)
	}
	entries := map[string]entry{}
	for event, list := range file.Hooks {
		if len(list) != 1 {
			return nil, fmt.Errorf("hook file %s: event %s has %d entries, want 1", hookFile, event, len(list))
		}
		entries[event] = list[0]
	}
	return entries, nil
}

// answer is what the host gets of one hook run.
type answer struct {
	exit           int
	stdout, stderr string
	took           time.Duration
}

// host runs registered commands as Copilot CLI or VS Code Local does
// (host.md): the shell, the environment and the working folder are theirs.
type host struct {
	home, repo string
	vscode     bool
}

// run starts an entry's command text with a payload on stdin.
func (h host) run(ctx context.Context, e entry, payload []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(e.TimeoutSec)*time.Second)
	defer cancel()
	var command *exec.Cmd
	switch {
	case runtime.GOOS == "windows":
		shell := filepath.Join(os.Getenv("SystemRoot"), "System32", "WindowsPowerShell", "v1.0", "powershell.exe")
		command = exec.CommandContext(ctx, shell, "-nop", "-nol", "-ExecutionPolicy", "Bypass", "-c", e.PowerShell)
	case h.vscode:
		command = exec.CommandContext(ctx, "/bin/sh", "-c", e.Bash)
	default:
		command = exec.CommandContext(ctx, "/bin/bash", "--norc", "--noprofile", "-c", e.Bash)
	}
	command.Dir = h.repo
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.home, "USERPROFILE=" + h.home, "USER=dev", "LANG=C.UTF-8"}
	if h.vscode {
		command.Env = append(command.Env, "VSCODE_PID=1", "VSCODE_IPC_HOOK="+filepath.Join(h.home, "vscode.sock"))
	} else {
		command.Env = append(command.Env, "COPILOT_CLI=1", "COPILOT_CLI_BINARY_VERSION=1.0.102", "COPILOT_PROJECT_DIR="+h.repo)
	}
	for k, v := range e.Env {
		command.Env = append(command.Env, k+"="+v)
	}
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(payload), &stdout, &stderr
	start := time.Now()
	err := command.Run()
	a := answer{stdout: stdout.String(), stderr: stderr.String(), took: time.Since(start), exit: -1}
	if command.ProcessState != nil {
		a.exit = command.ProcessState.ExitCode()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return a, fmt.Errorf("run the registered command: %w", err)
	}
	if ctx.Err() != nil {
		return a, errors.New("the registered command did not end within its time limit")
	}
	return a, nil
}

// payload reads a recorded payload and sets some of its fields: the session,
// the time, the folder, and what change says.
func payload(name, session, cwd string, change func(map[string]any)) []byte {
	data, err := payloads.ReadFile("testdata/" + name + ".json")
	if err != nil {
		panic(err) // embedded
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		panic(err)
	}
	fields["session_id"] = session
	fields["timestamp"] = time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00")
	fields["cwd"] = cwd
	change(fields)
	out, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return out
}

// setCommand changes the shell command that a payload carries.
func setCommand(command string) func(map[string]any) {
	return func(fields map[string]any) {
		fields["tool_input"].(map[string]any)["command"] = command
	}
}
