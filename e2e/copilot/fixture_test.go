package copilot_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/copilot"
	"github.com/pinta-ai/pinta-agent/e2e/provider"
	"github.com/pinta-ai/pinta-agent/e2e/world"
)

const user = "dev"

const (
	denyText       = "Deleting folders recursively is not allowed here."
	writeText      = "This file is not to be written."
	mcpText        = "This call of the MCP server is not allowed."
	permissionText = "Publishing needs a person."
	withholdText   = "The output names a confidential project."
)

// policy leaves a call 2.5 s: the machines that run these tests are busy. The
// hook's whole run stays far below the 15 s of its registration all the same.
const policy = `mode: enforce
timeoutMs: 2500
rules:
  - id: deny_recursive_delete
    on: tool_input
    tools: [shell]
    when: commands.exists(c, c.name == 'rm' && c.flags.exists(f, f == 'r' || f == 'recursive'))
    action: deny
    message: "` + denyText + `"
  - id: deny_write
    on: tool_input
    when: writes.exists(p, p.endsWith('/forbidden.txt'))
    action: deny
    message: "` + writeText + `"
  - id: deny_mcp
    on: tool_input
    tools: ["mcp:e2e/echo"]
    when: text.contains('forbidden')
    action: deny
    message: "` + mcpText + `"
  - id: deny_at_permission
    on: tool_input
    tools: [shell]
    when: kind == 'PermissionRequest' && text.contains('publish-release')
    action: deny
    message: "` + permissionText + `"
  - id: withhold_project
    on: tool_output
    when: output.contains('PROJECT-HALCYON')
    action: withhold
    message: "` + withholdText + `"
  - id: mask_secrets
    on: tool_output
    detect: [secrets]
    action: mask
    message: "The output held a secret, which was masked."
`

// cli is the real Copilot CLI and its version.
type cli struct{ path, version string }

// findCLI returns the CLI that PINTA_COPILOT names (its executable, or the
// folder npm installed it in), or that npm ci put beside this file. Without one
// the test is skipped, with PINTA_E2E=require it fails.
func findCLI(t testing.TB) cli {
	t.Helper()
	where := os.Getenv("PINTA_COPILOT")
	if where == "" {
		where = "."
	}
	c, err := open(where)
	if err != nil {
		message := fmt.Sprintf("no Copilot CLI to test with: %v; run `npm ci` in e2e/copilot, or set PINTA_COPILOT to its executable or to the folder npm installed it in", err)
		if os.Getenv("PINTA_E2E") == "require" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	return c
}

var open = onceFor(func(where string) (cli, error) {
	path, err := copilot.Find(where)
	if err != nil {
		return cli{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	version, err := copilot.Version(ctx, path)
	return cli{path, version}, err
})

func onceFor[T any](f func(string) (T, error)) func(string) (T, error) {
	var once sync.Once
	var value T
	var err error
	return func(arg string) (T, error) {
		once.Do(func() { value, err = f(arg) })
		return value, err
	}
}

// atLeast compares dotted versions; a suffix ("1.0.79-6") doesn't count.
func (c cli) atLeast(version string) bool {
	plain, _, _ := strings.Cut(c.version, "-")
	have, want := strings.Split(plain, "."), strings.Split(version, ".")
	for i := range want {
		if i >= len(have) {
			return false
		}
		a, _ := strconv.Atoi(have[i])
		b, _ := strconv.Atoi(want[i])
		if a != b {
			return a > b
		}
	}
	return true
}

// shared is what all tests of one process use: built programs, a Manager.
var shared struct {
	sync.Once
	site    *world.Site
	err     error
	cleanup func()

	plain   sync.Once
	machine *world.Machine
}

// site returns the Manager and collector, started by the first test.
func site(t testing.TB) *world.Site {
	t.Helper()
	shared.Do(func() {
		var dir string
		if dir, shared.err = os.MkdirTemp("", "pinta-e2e-"); shared.err != nil {
			return
		}
		shared.cleanup = func() { os.RemoveAll(dir) }
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		programs, err := programs(ctx, dir)
		if err == nil {
			shared.site, err = world.Open(ctx, dir, programs)
		}
		if err == nil {
			shared.cleanup = func() {
				if shared.machine != nil {
					shared.machine.Agent.Stop()
				}
				shared.site.Close()
				os.RemoveAll(dir)
			}
			_, err = shared.site.Publish(ctx, policy)
		}
		shared.err = err
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.site
}

// programsEnv names a folder with programs that are built already.
const programsEnv = "PINTA_E2E_PROGRAMS"

func programs(ctx context.Context, dir string) (world.Programs, error) {
	if built := os.Getenv(programsEnv); built != "" {
		return world.In(built), nil
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return world.Programs{}, err
	}
	return world.Build(ctx, bin)
}

// enrolled starts a machine below a folder of that name, with one user.
func enrolled(t *testing.T, folder string) *world.Machine {
	t.Helper()
	s := site(t)
	m := s.Machine(filepath.Join(s.Dir, folder))
	if err := os.MkdirAll(m.Home(user), 0o755); err != nil {
		t.Fatal(err)
	}
	join(t, m)
	return m
}

// plain is a machine that the tests share which leave its agent alone.
func plain(t *testing.T) *world.Machine {
	t.Helper()
	shared.plain.Do(func() {
		s := site(t)
		m := s.Machine(filepath.Join(s.Dir, "plain"))
		if err := os.MkdirAll(m.Home(user), 0o755); err != nil {
			t.Fatal(err)
		}
		shared.machine = m
		enroll(t, m)
		start(t, m)
	})
	if shared.machine == nil || shared.machine.Agent == nil {
		t.Fatal("the shared machine did not start")
	}
	return shared.machine
}

func enroll(t *testing.T, m *world.Machine) {
	t.Helper()
	token, err := m.Site.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Enroll(t.Context(), token.Token); err != nil {
		t.Fatal(err)
	}
}

// join enrols the machine and runs its agent until the test's end.
func join(t *testing.T, m *world.Machine) {
	t.Helper()
	enroll(t, m)
	t.Cleanup(func() {
		m.Agent.Stop()
		if t.Failed() {
			t.Logf("the agent's last words:\n%s", m.Agent.Tail())
		}
	})
	start(t, m)
}

// start starts the agent and waits until it answers.
func start(t testing.TB, m *world.Machine) {
	t.Helper()
	if err := m.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// secretOf makes a fresh secret of a known form; none is ever in the sources.
func secretOf(prefix string) string { return prefix + (rand.Text() + rand.Text())[:36] }

// script is one session of the CLI under construction: what the model asks for,
// and afterwards what came of it.
type script struct {
	t       *testing.T
	cli     cli
	session copilot.Session
	result  copilot.Result
}

// newScript prepares a session of the machine's user in a fresh repository.
func newScript(t *testing.T, m *world.Machine, name string) *script {
	t.Helper()
	c := findCLI(t)
	home := m.Home(user)
	return &script{t: t, cli: c, session: copilot.Session{CLI: c.path, Home: home, Repo: filepath.Join(home, "src", name), Env: map[string]string{}}}
}

// path is a file in the repository.
func (s *script) path(name string) string { return filepath.Join(s.session.Repo, name) }

// write makes a file in the repository.
func (s *script) write(name, content string) {
	s.t.Helper()
	writeFile(s.t, s.path(name), content, 0o644)
}

func writeFile(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // past the umask, and of a file that was there
		t.Fatal(err)
	}
}

// turn adds a turn of the model.
func (s *script) turn(turn provider.Turn) { s.session.Turns = append(s.session.Turns, turn) }

// bash has the model call the shell, after before, if given, was done.
func (s *script) bash(id, command string, before ...func()) {
	s.turn(provider.Turn{ToolCalls: []provider.ToolCall{bash(id, command)}, Do: func() {
		for _, f := range before {
			f()
		}
	}})
}

func bash(id, command string) provider.ToolCall {
	return provider.Call(id, "bash", map[string]any{"command": command, "description": "a step of the script"})
}

// trust makes the repository's own hooks and settings count, as those of a
// folder that the user trusts.
func (s *script) trust() {
	s.t.Helper()
	config, err := json.Marshal(map[string]any{"trustedFolders": []string{s.session.Repo}, "trusted_folders": []string{s.session.Repo}})
	if err != nil {
		s.t.Fatal(err)
	}
	writeFile(s.t, filepath.Join(s.session.Home, ".copilot", "config.json"), string(config), 0o644)
	s.session.Env["GITHUB_COPILOT_PROMPT_MODE_REPO_HOOKS"] = "true"
}

// run plays the session to its end.
func (s *script) run() {
	s.t.Helper()
	s.turn(provider.Turn{Text: "The script is done."})
	ctx, cancel := context.WithTimeout(s.t.Context(), 4*time.Minute)
	defer cancel()
	var err error
	s.result, err = s.session.Run(ctx)
	if err != nil {
		s.t.Fatalf("%v\nstdout: %s\nstderr: %s", err, s.result.Stdout, s.result.Stderr)
	}
	s.t.Cleanup(s.explain)
	s.t.Logf("Copilot CLI %s: exit %d after %s", s.cli.version, s.result.Exit, s.result.Wall.Round(time.Millisecond))
	if s.result.Exit != 0 {
		s.t.Errorf("the CLI ended with status %d: %s", s.result.Exit, s.result.Stderr)
	}
	if n := s.result.Model.Unused(); n > 0 {
		s.t.Errorf("%d turns of the script were not asked for; stderr: %s", n, s.result.Stderr)
	}
}

// told is what the model was given for a call.
func (s *script) told(id string) string {
	text, _ := s.result.Model.ToolResult(id)
	return text
}

// explain shows what the hooks and the CLI said about hooks, if the test failed.
func (s *script) explain() {
	if !s.t.Failed() {
		return
	}
	seen := map[string]bool{}
	logs, _ := filepath.Glob(filepath.Join(s.session.Home, "logs", "*.log"))
	for _, log := range logs {
		data, _ := os.ReadFile(log)
		for line := range strings.Lines(string(data)) {
			_, said, _ := strings.Cut(line, "Z ")
			if ours := strings.Contains(said, "pinta-copilot:") || strings.Contains(said, "WARN") && strings.Contains(said, "ook"); ours && !seen[said] && len(seen) < 20 {
				seen[said] = true
				s.t.Logf("the CLI's log: %s", strings.TrimSpace(said))
			}
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// denied checks that a call was refused with the policy's text and left no
// trace; since is the first version of the CLI that must enforce it. The
// outcome is recorded under key.
func (s *script) denied(key, id, text, trace, since string) {
	s.t.Helper()
	told, ran := s.told(id), trace != "" && exists(trace)
	switch refused := strings.Contains(told, text); {
	case refused && !ran:
		note(s.t, key, "enforced")
		return
	case refused && ran:
		note(s.t, key, "the text arrived, but the call ran")
	case ran:
		note(s.t, key, "not enforced")
	default:
		note(s.t, key, "the call failed without the policy's text")
	}
	if s.cli.atLeast(since) {
		s.t.Errorf("%s: want the text %q and no trace; the model was told %q, ran: %v", key, text, told, ran)
	}
}

// runs checks that a call was not refused: its trace is there. A fault of ours
// must never be a denial, whatever the version.
func (s *script) runs(key, id, trace string) {
	s.t.Helper()
	if told := s.told(id); !exists(trace) {
		note(s.t, key, "denied")
		s.t.Errorf("%s: the call did not run: the model was told %q", key, told)
		return
	}
	note(s.t, key, "runs")
}

// secretFree checks that no request to the model held a text.
func (s *script) secretFree(what, secret string) bool {
	for _, r := range s.result.Model.Requests() {
		if strings.Contains(string(r.Body), secret) {
			s.t.Logf("a request to the model holds %s", what)
			return false
		}
	}
	return true
}

// spans waits until a span of the machine that last describes has arrived at
// the collector, and returns all of the machine so far.
func spans(t testing.TB, m *world.Machine, last func(world.Span) bool) []world.Span {
	t.Helper()
	var own []world.Span
	err := world.Until(context.Background(), 60*time.Second, func() error {
		own = slices.DeleteFunc(m.Site.Collector.Received(), func(s world.Span) bool { return s.Attributes["pinta.device.id"] != m.Device })
		if slices.ContainsFunc(own, last) {
			return nil
		}
		return fmt.Errorf("of the machine's %d spans none is the one waited for", len(own))
	})
	if err != nil {
		t.Fatal(err)
	}
	return own
}
