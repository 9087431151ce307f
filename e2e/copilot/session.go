// Package copilot runs the real Copilot CLI offline: no account, no network
// but loopback, a scripted model, a home and repository of its own. Its tests
// hold what the hook does against what the CLI makes of it.
package copilot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/provider"
)

// Session is one run of the CLI.
type Session struct {
	CLI    string            // the executable
	Home   string            // HOME; ~/.copilot below it is Copilot's home
	Repo   string            // working directory; made a git repository if it is none
	Turns  []provider.Turn   // the model's script
	Env    map[string]string // added to, or in place of, the offline environment
	Args   []string          // added to the arguments of a plain prompt run
	Prompt string
	// Setup, if set, may change the command just before it starts, when home
	// and repository are there: to run it as another user, say.
	Setup func(*exec.Cmd) error
}

// Result is what a run left.
type Result struct {
	Exit           int
	Stdout, Stderr string
	Model          *provider.Server // closed; its requests stay readable
	Wall           time.Duration
}

// Run starts the CLI and waits for its end, at the latest that of ctx. An exit
// status other than 0 is a Result, not an error.
func (s Session) Run(ctx context.Context) (Result, error) {
	model, err := provider.Start(s.Turns)
	if err != nil {
		return Result{}, err
	}
	defer model.Close()
	if err := s.prepare(); err != nil {
		return Result{}, err
	}
	prompt := s.Prompt
	if prompt == "" {
		prompt = "run the script"
	}
	args := append([]string{"--no-auto-update", "--log-dir", filepath.Join(s.Home, "logs"), "--log-level", "debug",
		"-p", prompt, "--allow-all-tools", "--allow-all-paths"}, s.Args...)
	command := exec.CommandContext(ctx, s.CLI, args...)
	command.Dir = s.Repo
	command.Env = s.environment(model.URL())
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	command.WaitDelay = 5 * time.Second
	if s.Setup != nil {
		if err := s.Setup(command); err != nil {
			return Result{}, err
		}
	}
	start := time.Now()
	err = command.Run()
	if command.Process == nil {
		return Result{}, fmt.Errorf("start %s: %w", s.CLI, err)
	}
	result := Result{Exit: command.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String(),
		Model: model, Wall: time.Since(start)}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return result, fmt.Errorf("run %s: %w", s.CLI, err)
	}
	if ctx.Err() != nil {
		return result, fmt.Errorf("run %s: %w", s.CLI, ctx.Err())
	}
	return result, nil
}

func (s Session) prepare() error {
	for _, dir := range []string{s.Repo, filepath.Join(s.Home, "tmp"), filepath.Join(s.Home, ".copilot")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(s.Repo, ".git")); err == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(s.Repo, "README.md"), []byte("hello\n"), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-A"},
		{"-c", "user.name=dev", "-c", "user.email=dev@example.com", "commit", "-q", "-m", "start"},
	} {
		git := exec.Command("git", args...)
		git.Dir = s.Repo
		git.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.Home, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := git.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// environment keeps nothing of the caller's but PATH. The cache is shared
// between runs of one CLI, which unpacks itself at its first start.
func (s Session) environment(modelURL string) []string {
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": s.Home, "USER": "dev", "LANG": "C.UTF-8", "TERM": "xterm-256color", "SHELL": "/bin/bash",
		"TMPDIR":          filepath.Join(s.Home, "tmp"),
		"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false",
		"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "completions",
		"COPILOT_PROVIDER_BASE_URL": modelURL, "COPILOT_PROVIDER_API_KEY": "not-a-key",
		"COPILOT_MODEL": "scripted-model",
	}
	if cache := CacheDir(); cache != "" {
		env["XDG_CACHE_HOME"] = cache
	}
	maps.Copy(env, s.Env)
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

// CacheDir is where the CLI of any version keeps what it unpacks at its first
// start, shared by all runs; "" if the system names no such place.
func CacheDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "pinta-e2e-copilot")
}

// Find returns the native executable of a CLI that npm installed in dir, or
// the given path itself if it is a file.
func Find(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("the Copilot CLI: %w: install it with npm install @github/copilot", err)
	}
	if !info.IsDir() {
		return filepath.Abs(path)
	}
	native, _ := filepath.Glob(filepath.Join(path, "node_modules", "@github", "copilot-*", "copilot"))
	native = append(native, filepath.Join(path, "node_modules", ".bin", "copilot"))
	for _, candidate := range native {
		if _, err := os.Stat(candidate); err == nil {
			return filepath.Abs(candidate)
		}
	}
	return "", fmt.Errorf("no Copilot CLI below %s: install it there with npm install @github/copilot", path)
}

// Version asks the CLI for its version, such as 1.0.102. The first time it
// unpacks itself into CacheDir.
func Version(ctx context.Context, cli string) (string, error) {
	command := exec.CommandContext(ctx, cli, "--version", "--no-auto-update")
	command.Env = append(os.Environ(), "COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false")
	if cache := CacheDir(); cache != "" {
		command.Env = append(command.Env, "XDG_CACHE_HOME="+cache)
	}
	command.WaitDelay = time.Second
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", cli, err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		word = strings.TrimSuffix(word, ".")
		if strings.Count(word, ".") == 2 && word[0] >= '0' && word[0] <= '9' {
			return word, nil
		}
	}
	return "", fmt.Errorf("%s --version names no version: %q", cli, out)
}
