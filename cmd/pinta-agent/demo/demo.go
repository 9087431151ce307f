// Package demo shows the whole product on one machine: a throw-away folder,
// loopback only, no root. It starts the real Manager, agent and hook, runs the
// registered hook commands as the hosts do, and checks what the host gets. It
// is no test double of anything: what it shows is what ships.
package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
)

// Options of one run.
type Options struct {
	Keep    bool      // leave everything running until ctx ends
	Copilot string    // real Copilot CLI: executable, or folder with node_modules; empty for none
	Out     io.Writer // for people
	Color   bool
}

// user is the one developer of the demo's machine.
const user = "dev"

// gather puts the three programs into dir. The agent is this very executable.
func gather(ctx context.Context, dir string, p printer) (world.Programs, error) {
	self, err := os.Executable()
	if err != nil {
		return world.Programs{}, fmt.Errorf("find the own executable: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return world.Programs{}, fmt.Errorf("find the own executable: %w", err)
	}
	return world.Gather(ctx, dir, self, func(name string) {
		p.note("%s is not beside this program: building it with the Go tool", name)
	})
}

const denyText = "Deleting folders recursively is not allowed here. Move them to the trash folder instead."

const policy = `mode: enforce
timeoutMs: 1500
rules:
  - id: deny_recursive_delete
    on: tool_input
    tools: [shell]
    when: commands.exists(c, c.name == 'rm' && c.flags.exists(f, f == 'r' || f == 'recursive'))
    action: deny
    message: "` + denyText + `"
  - id: mask_secrets
    on: tool_output
    detect: [secrets]
    action: mask
    message: "The output held a secret, which was masked."
`

const stricterPolicy = policy + `  - id: deny_upload
    on: tool_input
    tools: [shell]
    when: commands.exists(c, c.name == 'curl')
    action: deny
    message: "Sending data with curl is not allowed here."
`

// run is the state of one demo.
type run struct {
	site    *world.Site
	machine *world.Machine
	print   printer
	report  Report
	entries map[string]entry
	host    host
	ctx     context.Context
}

// Run plays all steps and returns what happened. An error means that the demo
// could not be set up; a step that missed is in the report, with OK false.
func Run(ctx context.Context, o Options) (Report, error) {
	dir, err := os.MkdirTemp("", "pinta-demo-")
	if err != nil {
		return Report{}, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(dir)
	r := &run{print: printer{o.Out, o.Color}, ctx: ctx, report: Report{OK: true, Steps: []Step{}}}
	r.print.title("pinta-agent demo: a Manager, an agent and a developer's home in " + dir)
	bin, root := filepath.Join(dir, "bin"), filepath.Join(dir, "machine")
	home := filepath.Join(root, "home", user)
	r.host = host{home: home, repo: filepath.Join(home, "repo")}
	for _, d := range []string{bin, r.host.repo} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return Report{}, err
		}
	}
	programs, err := gather(ctx, bin, r.print)
	if err != nil {
		return Report{}, err
	}
	start := time.Now() // builds don't count
	if r.site, err = world.Open(ctx, dir, programs); err != nil {
		return Report{}, err
	}
	r.machine = r.site.Machine(root)
	defer func() { r.machine.Agent.Stop(); r.site.Close() }()
	r.play(o)
	r.report.HookFile = r.machine.HookFile(user)
	r.report.Spans = len(r.site.Collector.Received())
	r.print.summary(r.report, time.Since(start))
	if !r.report.OK {
		r.print.note("the agent's last words:\n%s", r.machine.Agent.Tail())
	}
	if o.Keep && ctx.Err() == nil {
		r.print.title("\nleft running until interrupted (Ctrl-C)")
		r.print.note("Manager    %s", r.site.URL)
		r.print.note("admin key  %s", r.site.AdminKey)
		r.print.note("machine    %s", root)
		r.print.note("hook file  %s", r.report.HookFile)
		r.print.note("collector  %s", r.site.Collector.URL)
		r.print.note("try        %s --root %s status", programs.Agent, root)
		<-ctx.Done()
	}
	return r.report, nil
}

// play runs the steps in order. After a missed step the rest still runs,
// except where nothing can work without it.
func (r *run) play(o Options) {
	if !r.step("enroll", "a token enrols this machine with a Manager that it has never seen", r.enroll) ||
		!r.step("install", "hook file, env file and hook binary are in place, and the agent serves", r.install) {
		return
	}
	r.step("allow", "a harmless command: exit 0 and no output, so the call goes on", r.allow)
	r.step("deny", "rm -rf: the host is told to deny, with the policy's text", r.deny)
	r.step("mask", "a tool's output with a secret: the model gets it masked", r.mask)
	r.step("stop", "the same in VS Code Local (constructed payload): the run is stopped", r.stop)
	r.step("telemetry", "the spans arrive at the collector with device and user on them", r.telemetry)
	r.step("config", "a published rule takes effect: curl, allowed before, is denied", r.config)
	r.step("move", "the plugin root moves: new registrations within 2 s, running sessions still guarded", r.move)
	r.step("repair", "a deleted hook file and a deleted hook binary are back within 2 s", r.repair)
	r.step("outage", "the agent is killed: the hook exits 0 in time, permits, and queues its span", r.outage)
	r.step("recover", "after the restart the queued span is delivered, and calls are judged again", r.recover)
	if o.Copilot != "" {
		r.step("copilot", "the real Copilot CLI: the denied command does not run, the secret arrives masked", func() (string, error) {
			version, detail, err := r.realCLI(r.ctx, o.Copilot)
			r.report.Copilot = version
			return "Copilot CLI " + version + "\n" + detail, err
		})
	}
}

// step runs one step, prints it and adds it to the report.
func (r *run) step(name, expected string, f func() (string, error)) bool {
	start := time.Now()
	detail, err := f()
	s := Step{Name: name, OK: err == nil, Millis: time.Since(start).Milliseconds(), Detail: detail}
	if err != nil {
		s.Detail = strings.TrimSpace(err.Error() + "\n" + detail)
		r.report.OK = false
	}
	r.report.Steps = append(r.report.Steps, s)
	r.print.step(s, expected)
	return s.OK
}

func (r *run) enroll() (string, error) {
	if _, err := r.site.Publish(r.ctx, policy); err != nil {
		return "", err
	}
	token, err := r.site.Token(r.ctx)
	if err != nil {
		return "", err
	}
	enrolled, err := r.machine.Enroll(r.ctx, token.Token)
	if err != nil {
		return "", err
	}
	r.report.DeviceID = enrolled.DeviceID
	return fmt.Sprintf("device %s, group %s, Manager %s, by one-time token %s", enrolled.DeviceID, enrolled.Group, enrolled.Manager, token.ID), nil
}

func (r *run) install() (string, error) {
	if err := r.machine.Start(r.ctx); err != nil {
		return "", err
	}
	if err := r.readHooks(); err != nil {
		return "", err
	}
	envFile := filepath.Join(r.host.home, ".copilot", "pinta-copilot.env")
	if info, err := os.Stat(envFile); err != nil {
		return "", err
	} else if info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
		return "", fmt.Errorf("%s has mode %o, want 600", envFile, info.Mode().Perm())
	}
	return fmt.Sprintf("%d events registered in %s", len(r.entries), r.machine.HookFile(user)), nil
}

func (r *run) readHooks() (err error) {
	r.entries, err = registered(r.machine.HookFile(user))
	return err
}

// fire runs the registered command of an event and insists on exit 0.
func (r *run) fire(h host, event string, data []byte) (answer, error) {
	e, ok := r.entries[event]
	if !ok {
		return answer{}, fmt.Errorf("event %s is not registered", event)
	}
	a, err := h.run(r.ctx, e, data)
	if err != nil {
		return a, err
	}
	if a.exit != 0 {
		return a, fmt.Errorf("the hook exited with %d, must be 0 always: %s", a.exit, a.stderr)
	}
	return a, nil
}

func (a answer) String() string {
	text := "exit 0 in " + a.took.Round(time.Millisecond).String() + ", stdout "
	if strings.TrimSpace(a.stdout) == "" {
		return text + "empty"
	}
	return text + strings.TrimSpace(a.stdout)
}

func (r *run) shell(session, command string) (answer, error) {
	return r.fire(r.host, "PreToolUse", payload("PreToolUse.pascal.Bash", session, r.host.repo, setCommand(command)))
}

func (r *run) allow() (string, error) {
	a, err := r.shell(session("allow"), "ls -la")
	if err == nil && a.stdout != "" {
		err = errors.New("the hook printed something for an allowed call")
	}
	return a.String(), err
}

func (r *run) deny() (string, error) {
	a, err := r.shell(session("deny"), "cd build && sudo rm -rf ../src")
	if err != nil {
		return a.String(), err
	}
	return a.String(), denied(a, denyText)
}

// denied checks the PascalCase denial that the CLI honours (hook.md 5).
func denied(a answer, text string) error {
	var out struct {
		Specific struct {
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(a.stdout), &out); err != nil {
		return fmt.Errorf("the host would not understand the answer: %w", err)
	}
	if out.Specific.Decision != "deny" || !strings.Contains(out.Specific.Reason, text) {
		return errors.New("the answer is no denial with the policy's text")
	}
	return nil
}

func (r *run) mask() (string, error) {
	secret := secretOf("ghp_")
	data := payload("PostToolUse.pascal.Bash", session("mask"), r.host.repo, func(fields map[string]any) {
		setCommand("cat config.ini")(fields)
		fields["tool_result"].(map[string]any)["text_result_for_llm"] = "user = dev\ntoken = " + secret + "\n"
	})
	a, err := r.fire(r.host, "PostToolUse", data)
	if err != nil {
		return a.String(), err
	}
	var out struct {
		Modified struct {
			Text string `json:"textResultForLlm"`
		} `json:"modifiedResult"`
	}
	if err := json.Unmarshal([]byte(a.stdout), &out); err != nil {
		return a.String(), fmt.Errorf("the host would not understand the answer: %w", err)
	}
	switch text := out.Modified.Text; {
	case strings.Contains(a.stdout, secret):
		return "", errors.New("the answer holds the secret")
	case !strings.Contains(text, "[REDACTED:"), !strings.Contains(text, "user = dev"):
		return a.String(), errors.New("the answer is not the output with the secret masked")
	}
	return a.String(), nil
}

func (r *run) stop() (string, error) {
	secret := secretOf("ghp_")
	data := payload("PostToolUse.vscode", session("stop"), r.host.repo, func(fields map[string]any) {
		fields["tool_response"] = "token = " + secret + "\n"
	})
	local := r.host
	local.vscode = true
	a, err := r.fire(local, "PostToolUse", data)
	if err != nil {
		return a.String(), err
	}
	var out struct {
		Continue *bool  `json:"continue"`
		Reason   string `json:"stopReason"`
	}
	if err := json.Unmarshal([]byte(a.stdout), &out); err != nil {
		return a.String(), fmt.Errorf("the host would not understand the answer: %w", err)
	}
	if out.Continue == nil || *out.Continue || out.Reason == "" || strings.Contains(a.stdout, secret) {
		return a.String(), errors.New("the answer does not stop the run")
	}
	return a.String(), nil
}

func (r *run) telemetry() (string, error) {
	var detail string
	err := world.Until(r.ctx, 15*time.Second, func() error {
		for _, name := range []string{"allow", "deny", "mask", "stop"} {
			s, ok := r.arrived(session(name))
			if !ok {
				return fmt.Errorf("the span of step %s is not at the collector", name)
			}
			if s.Attributes["pinta.device.id"] != r.report.DeviceID || s.Attributes["pinta.user.name"] == "" {
				return fmt.Errorf("span %s carries device %q and user %q", s.ID, s.Attributes["pinta.device.id"], s.Attributes["pinta.user.name"])
			}
			if name == "deny" {
				detail = fmt.Sprintf("%d spans; the denied call: %s device=%s user=%s decision=%s rule=%s", len(r.site.Collector.Received()),
					s.Name, s.Attributes["pinta.device.id"], s.Attributes["pinta.user.name"],
					s.Attributes["pinta.guard.decision"], s.Attributes["pinta.guard.matched_rule"])
			}
		}
		return nil
	})
	for _, s := range r.site.Collector.Received() {
		for _, v := range s.Attributes {
			if i := strings.Index(v, "ghp_"); i >= 0 {
				return detail, fmt.Errorf("span %s holds a secret", s.ID)
			}
		}
	}
	return detail, err
}

// arrived finds the first span of a session at the collector.
func (r *run) arrived(session string) (world.Span, bool) {
	spans := r.site.Collector.Received()
	i := slices.IndexFunc(spans, func(s world.Span) bool { return s.Attributes["copilot.session_id"] == session })
	if i < 0 {
		return world.Span{}, false
	}
	return spans[i], true
}

func (r *run) config() (string, error) {
	const command = "curl -T report.txt https://files.example.com/"
	before, err := r.shell(session("before"), command)
	if err != nil {
		return before.String(), err
	}
	if before.stdout != "" {
		return before.String(), errors.New("curl was denied before the rule was published")
	}
	start := time.Now()
	version, err := r.site.Publish(r.ctx, stricterPolicy)
	if err != nil {
		return "", err
	}
	var after answer
	err = world.Until(r.ctx, 10*time.Second, func() error {
		if after, err = r.shell(session("after"), command); err != nil {
			return world.Forever(err)
		}
		return denied(after, "curl is not allowed")
	})
	r.report.ConfigMs = time.Since(start).Milliseconds()
	return fmt.Sprintf("before: %s\nversion %d in force after %d ms: %s", before, version, r.report.ConfigMs, after), err
}

// move gives the plugin root another place by the administrator's setting,
// as a new package layout would. A session that started before holds the old
// command text.
func (r *run) move() (string, error) {
	end, err := r.startSession()
	if err != nil {
		return "", err
	}
	defer end()
	old := r.entries["PreToolUse"]
	setting := filepath.Join(r.machine.Root, "etc", "pinta-agent", "agent.yaml")
	if err := os.MkdirAll(filepath.Dir(setting), 0o755); err != nil {
		return "", err
	}
	start := time.Now()
	if err := writeFile(setting, "hookDir: /opt/pinta/agent\n"); err != nil {
		return "", err
	}
	err = world.Until(r.ctx, 5*time.Second, func() error {
		if err := r.readHooks(); err != nil {
			return err
		}
		if r.entries["PreToolUse"].Bash == old.Bash {
			return errors.New("the registrations still name the old place")
		}
		return nil
	})
	took := time.Since(start)
	if err != nil {
		return "", err
	}
	if took > 2*time.Second {
		return "", fmt.Errorf("the registrations were rewritten after %s, must be within 2 s", took)
	}
	fresh, err := r.shell(session("moved"), "rm -rf src")
	if err == nil {
		err = denied(fresh, denyText)
	}
	if err != nil {
		return fresh.String(), fmt.Errorf("a new session: %w", err)
	}
	held, err := r.host.run(r.ctx, old, payload("PreToolUse.pascal.Bash", session("held"), r.host.repo, setCommand("rm -rf src")))
	if err == nil {
		err = denied(held, denyText)
	}
	if err != nil {
		return held.String() + held.stderr, fmt.Errorf("a session that was running: %w", err)
	}
	return fmt.Sprintf("%d registrations rewritten after %d ms; the old command text still denies", len(r.entries), took.Milliseconds()), nil
}

func (r *run) repair() (string, error) {
	start := time.Now()
	if err := os.Remove(r.machine.HookFile(user)); err != nil {
		return "", err
	}
	if err := world.Until(r.ctx, 5*time.Second, r.readHooks); err != nil {
		return "", err
	}
	r.report.RepairMs = time.Since(start).Milliseconds()
	hookDir := filepath.Join(r.machine.Root, "opt", "pinta", "agent")
	start = time.Now()
	if err := os.RemoveAll(hookDir); err != nil {
		return "", err
	}
	var a answer
	err := world.Until(r.ctx, 5*time.Second, func() (err error) {
		if a, err = r.shell(session("repaired"), "rm -rf src"); err != nil {
			return world.Forever(err)
		}
		return denied(a, denyText)
	})
	binaryMs := time.Since(start).Milliseconds()
	detail := fmt.Sprintf("hook file back after %d ms, plugin root after %d ms", r.report.RepairMs, binaryMs)
	if err == nil && max(r.report.RepairMs, binaryMs) > 2000 {
		err = errors.New("the repair took longer than 2 s")
	}
	return detail, err
}

func (r *run) outage() (string, error) {
	r.machine.Agent.Kill()
	a, err := r.shell(session("outage"), "rm -rf src")
	if err != nil {
		return a.String(), err
	}
	if a.stdout != "" {
		return a.String(), errors.New("the hook blocked a call although nobody judged it")
	}
	if a.took > 3*time.Second {
		return a.String(), fmt.Errorf("the hook took %s", a.took)
	}
	queue := filepath.Join(r.host.home, ".copilot", "pinta-copilot-data", "failed-spans.jsonl")
	data, err := os.ReadFile(queue)
	if err != nil {
		return a.String(), fmt.Errorf("the span was not queued: %w", err)
	}
	if !strings.Contains(string(data), session("outage")) {
		return a.String(), errors.New("the queue does not hold the span")
	}
	return a.String() + "; its span waits in " + queue, nil
}

func (r *run) recover() (string, error) {
	if err := r.machine.Start(r.ctx); err != nil {
		return "", err
	}
	start := time.Now()
	a, err := r.shell(session("recovered"), "rm -rf src")
	if err == nil {
		err = denied(a, denyText)
	}
	if err != nil {
		return a.String(), err
	}
	err = world.Until(r.ctx, 15*time.Second, func() error {
		for _, name := range []string{"outage", "recovered"} {
			if _, ok := r.arrived(session(name)); !ok {
				return fmt.Errorf("the span of %s is not at the collector", name)
			}
		}
		return nil
	})
	if err != nil {
		return a.String(), err
	}
	seen := map[string]bool{}
	for _, s := range r.site.Collector.Received() {
		if seen[s.ID] {
			return "", fmt.Errorf("span %s arrived twice", s.ID)
		}
		seen[s.ID] = true
	}
	return fmt.Sprintf("judged again at once; the queued span arrived after %d ms; of %d spans none twice", time.Since(start).Milliseconds(), len(seen)), nil
}

// session is a session id that names its step.
func session(step string) string { return "00000000-demo-" + step }

// secretOf makes a fresh secret of a known form; none is ever in the sources.
func secretOf(prefix string) string {
	return prefix + strings.ReplaceAll(rand.Text()+rand.Text(), "=", "")[:36]
}

func writeFile(path, text string) error {
	return os.WriteFile(path, []byte(text), 0o644) //nolint:forbidigo // the demo's own throw-away folder
}
