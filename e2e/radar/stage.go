package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/copilot"
	"github.com/pinta-ai/pinta-agent/e2e/world"
)

// tools are what every version is examined with.
type tools struct {
	self     string // this program, which the CLI starts as hook and MCP server
	tests    string // the compiled tests of e2e/copilot
	programs string // folder of the three programs
}

// build compiles programs and scenarios.
func (r radar) build(ctx context.Context) (tools, error) {
	fmt.Fprintln(r.out, "building the programs and the scenarios")
	self, err := os.Executable()
	if err != nil {
		return tools{}, err
	}
	t := tools{self: self, tests: filepath.Join(r.work, "scenarios"), programs: filepath.Join(r.work, "bin")}
	if err := os.MkdirAll(t.programs, 0o755); err != nil {
		return tools{}, err
	}
	if _, err := world.Build(ctx, t.programs); err != nil {
		return tools{}, err
	}
	command := exec.CommandContext(ctx, "go", "test", "-c", "-o", t.tests, "./e2e/copilot")
	command.Dir = r.checkout
	if out, err := command.CombinedOutput(); err != nil {
		return tools{}, fmt.Errorf("build the scenarios: %w\n%s", err, out)
	}
	return t, nil
}

// install returns the executable of a version, installed by npm the first time.
func (r radar) install(ctx context.Context, version string) (string, error) {
	dir := filepath.Join(r.work, "cli", version)
	if path, err := copilot.Find(dir); err == nil {
		return path, nil
	}
	fmt.Fprintln(r.out, "   installing it by npm in", dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o644); err != nil {
		return "", err
	}
	npm := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "@github/copilot@"+version)
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install @github/copilot@%s: %w\n%s", version, err, out)
	}
	return copilot.Find(dir)
}

// stage is where one version is examined.
type stage struct {
	tools
	cli, version string
	dir          string
	checkout     string
}

func newStage(r radar, t tools, cli, version string) (stage, error) {
	dir := filepath.Join(r.work, "sessions", version)
	if err := os.RemoveAll(dir); err != nil {
		return stage{}, err
	}
	return stage{tools: t, cli: cli, version: version, dir: dir, checkout: r.checkout}, os.MkdirAll(dir, 0o755)
}

func (s stage) log() string { return filepath.Join(s.dir, "scenarios.log") }

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// scenarios plays the tests of e2e/copilot. A failing one is a finding, not an
// error.
func (s stage) scenarios(ctx context.Context) (outcomes map[string]string, failed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute)
	defer cancel()
	results := filepath.Join(s.dir, "scenarios.json")
	command := exec.CommandContext(ctx, s.tests, "-test.v", "-test.timeout=35m")
	command.Dir = filepath.Join(s.checkout, "e2e", "copilot")
	command.Env = append(os.Environ(), "PINTA_COPILOT="+s.cli, "PINTA_E2E_PROGRAMS="+s.programs, "PINTA_E2E_RESULTS="+results)
	out, runErr := command.CombinedOutput()
	if err := os.WriteFile(s.log(), out, 0o644); err != nil {
		return nil, nil, err
	}
	data, err := os.ReadFile(results)
	if err != nil {
		return nil, nil, fmt.Errorf("the scenarios left no results: %w: %v\n%s", err, runErr, tail(out))
	}
	if err := json.Unmarshal(data, &outcomes); err != nil {
		return nil, nil, err
	}
	for _, m := range failedTest.FindAllSubmatch(out, -1) {
		if name := string(m[1]); !slices.Contains(failed, name) {
			failed = append(failed, name)
		}
	}
	slices.Sort(failed)
	return outcomes, failed, nil
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

// session prepares a run of the CLI with hooks that start this program.
func (s stage) session(name string, hooks map[string]any) (copilot.Session, error) {
	home := filepath.Join(s.dir, name, "home")
	file, err := json.Marshal(map[string]any{"version": 1, "hooks": hooks})
	if err != nil {
		return copilot.Session{}, err
	}
	dir := filepath.Join(home, ".copilot", "hooks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return copilot.Session{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "radar.json"), file, 0o644); err != nil {
		return copilot.Session{}, err
	}
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"rigmcp": map[string]any{"command": s.self, "args": []string{mcpVerb}, "tools": []string{"*"}}}})
	return copilot.Session{CLI: s.cli, Home: home, Repo: filepath.Join(s.dir, name, "repo"),
		Args: []string{"--additional-mcp-config", string(servers)}}, err
}

// play runs a session; what the CLI makes of it is no error.
func play(ctx context.Context, session copilot.Session) (copilot.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	return session.Run(ctx)
}

// quote makes a word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// jsonText is v as JSON without escapes for HTML.
func jsonText(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // only values of this program
	}
	return strings.TrimSpace(b.String())
}
