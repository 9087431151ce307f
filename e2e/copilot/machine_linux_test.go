package copilot_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
)

const (
	devID   = 4242 // the developer's account
	agentID = 4243 // the account of guard and relay

	firstPolicy = "1.0.57" // of the versions looked at, the first that reads machine policies
)

// TestMachinePolicy installs the product as a package does, as root with the
// agent's own account and a developer's, and runs the CLI as that developer:
// machine policy entries beside the user's.
func TestMachinePolicy(t *testing.T) {
	findCLI(t)
	if !isolated(t) {
		return
	}
	m := install(t)
	t.Run("privilege", func(t *testing.T) { privilege(t, m) })
	t.Run("together", func(t *testing.T) { together(t, m) })
	t.Run("repository disables hooks", func(t *testing.T) { machineDisabled(t, m) })
	t.Run("hostile environment", func(t *testing.T) { machineHostile(t, m) })
	t.Run("faults", func(t *testing.T) { machineFaults(t, m) })
}

// install makes the accounts, puts the programs where a package does, enrols
// and starts the service.
func install(t *testing.T) *world.Machine {
	t.Helper()
	for path, content := range map[string]string{
		"/etc/passwd": fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"+
			"%s:x:%d:%d::/home/%s:/bin/bash\npinta-agent:x:%d:%d::/nonexistent:/usr/sbin/nologin\n", user, devID, devID, user, agentID, agentID),
		"/etc/group": fmt.Sprintf("root:x:0:\nnogroup:x:65534:\n%s:x:%d:\npinta-agent:x:%d:\n", user, devID, agentID),
	} {
		writeFile(t, path, content, 0o644)
	}
	for _, old := range []string{"/etc/github-copilot", "/etc/pinta-agent", "/usr/lib/pinta-agent", "/var/lib/pinta-agent"} {
		if err := os.RemoveAll(old); err != nil {
			t.Fatal(err)
		}
	}
	s := site(t)
	own(t, "/home/"+user)
	for from, to := range map[string]string{s.Programs.Agent: "/usr/bin/pinta-agent", s.Programs.Hook: "/usr/lib/pinta-agent/pinta-hook"} {
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := world.Copy(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := world.Copy(s.Programs.Hook, "/usr/bin/pinta-hook"); err != nil { // beside the agent: its source of repairs
		t.Fatal(err)
	}
	m := s.Machine("")
	m.Program = "/usr/bin/pinta-agent"
	join(t, m)
	for _, path := range []string{"/etc/github-copilot/policy.d/90-pinta.json", m.HookFile(user)} {
		if !exists(path) {
			t.Fatalf("%s is not installed", path)
		}
	}
	return m
}

// own gives a folder and all in it to the developer.
func own(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, devID, devID)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// asUser makes the session the developer's own.
func (s *script) asUser() {
	s.session.Env["USER"], s.session.Env["XDG_CACHE_HOME"] = user, unpacked
	s.session.Setup = func(c *exec.Cmd) error {
		own(s.t, filepath.Join("/home", user))
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: devID, Gid: devID}}
		return nil
	}
}

// privilege: what parses input of others has no rights, nothing in the
// developer's home is root's, and the env file holds no token.
func privilege(t *testing.T, m *world.Machine) {
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", m.Agent.PID()))
	if err != nil {
		t.Fatal(err)
	}
	var found bool
	for _, list := range children {
		pids, _ := os.ReadFile(list)
		for pid := range strings.FieldsSeq(string(pids)) {
			line, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
			if !strings.Contains(string(line), "\x00endpoint") {
				continue
			}
			found = true
			status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
			if err != nil {
				t.Fatal(err)
			}
			id := fmt.Sprintf("%d\t%d\t%d\t%d", agentID, agentID, agentID, agentID)
			const none = "0000000000000000"
			for _, want := range []string{"Uid:\t" + id, "Gid:\t" + id, "CapPrm:\t" + none, "CapEff:\t" + none, "CapInh:\t" + none, "CapAmb:\t" + none, "NoNewPrivs:\t1"} {
				if !strings.Contains(string(status), want+"\n") {
					t.Errorf("guard and relay's process does not have %q:\n%s", want, status)
				}
			}
		}
	}
	if !found {
		t.Error("guard and relay have no process of their own")
	}
	err = filepath.WalkDir(filepath.Join(m.Home(user), ".copilot"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != devID {
			t.Errorf("%s belongs to uid %d", path, info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	env, err := os.ReadFile(filepath.Join(m.Home(user), ".copilot", "pinta-copilot.env"))
	if err != nil {
		t.Fatal(err)
	}
	for _, no := range []string{"TOKEN", "HEADERS", "pinta_"} {
		if strings.Contains(string(env), no) {
			t.Errorf("the env file holds %s:\n%s", no, env)
		}
	}
}

// together: machine and user entry run for each event; one judges and counts.
func together(t *testing.T, m *world.Machine) {
	s := newScript(t, m, "together")
	secret := secretOf("ghp_")
	s.write("mask.ini", "token = "+secret+"\n")
	s.write("victim/keep", "")
	s.asUser()
	s.bash("call_allow", "touch allowed; : together")
	s.bash("call_deny", "touch denied-ran; rm -rf victim; : together")
	s.bash("call_mask", "cat mask.ini; : together")
	s.run()
	s.runs("machine.allow", "call_allow", s.path("allowed"))
	s.denied("machine.deny", "call_deny", denyText, s.path("denied-ran"), "1.0.49")
	s.masked("machine.mask", "call_mask", secret, "1.0.57")
	all := spans(t, m, func(sp world.Span) bool { return sp.Name == "copilot.session_end" })
	count, sources := map[string]int{}, map[string]int{}
	for _, sp := range all {
		sources[sp.Attributes["pinta.hook.source"]]++
		if sp.Attributes["pinta.user.name"] != user {
			t.Errorf("span %s: user %q", sp.Name, sp.Attributes["pinta.user.name"])
		}
		for name, value := range sp.Attributes {
			if sp.Name == "copilot.pre_tool_use" && strings.HasSuffix(name, "tool_input") {
				count[value]++
			}
		}
	}
	judged := "once"
	for _, n := range count {
		if n > 1 {
			judged = "twice"
		}
	}
	policy := "read"
	if sources["machine"] == 0 {
		policy = "not read"
		if s.cli.atLeast(firstPolicy) {
			t.Error("the machine's entries never ran")
		}
	}
	note(t, "machine.policy", policy)
	if len(count) != 3 || s.cli.atLeast("1.0.102") && (judged != "once" || sources["user"] > 0) {
		t.Errorf("spans of each call %v, of each source %v", count, sources)
	}
	note(t, "machine.once", judged)
}

// machineDisabled: a trusted repository's disableAllHooks leaves the machine's
// entries in force.
func machineDisabled(t *testing.T, m *world.Machine) {
	s := newScript(t, m, "disabled")
	s.write("victim/keep", "")
	s.write(".github/copilot/settings.json", `{"disableAllHooks":true}`)
	s.trust()
	s.asUser()
	s.bash("call_deny", "touch denied-ran; rm -rf victim")
	s.run()
	s.denied("machine.disableAllHooks", "call_deny", denyText, s.path("denied-ran"), firstPolicy)
}

// machineHostile: with the machine's entries not even another COPILOT_HOME
// helps, which takes the user's hooks out of the CLI's sight.
func machineHostile(t *testing.T, m *world.Machine) {
	s := newScript(t, m, "hostile")
	s.write("victim/keep", "")
	noisy := s.path("noisy.sh")
	s.write("noisy.sh", "echo hello from BASH_ENV\n")
	maps.Copy(s.session.Env, hostile(s.cli, unreachable(t)))
	s.session.Env["BASH_ENV"] = noisy
	s.session.Env["COPILOT_HOME"] = filepath.Join(m.Home(user), "elsewhere")
	s.asUser()
	s.bash("call_allow", "touch allowed")
	s.bash("call_deny", "touch denied-ran; rm -rf victim")
	s.run()
	s.runs("machine.hostile-allow", "call_allow", s.path("allowed"))
	s.denied("machine.hostile-deny", "call_deny", denyText, s.path("denied-ran"), firstPolicy)
}

// machineFaults: the machine's entries are as harmless as the user's when
// binary or service are gone.
func machineFaults(t *testing.T, m *world.Machine) {
	s := newScript(t, m, "faults")
	s.write("victim/keep", "")
	s.asUser()
	const hook = "/usr/lib/pinta-agent/pinta-hook"
	put := func(content string, mode os.FileMode) func() {
		return func() { os.RemoveAll(hook); writeFile(t, hook, content, mode) }
	}
	s.bash("call_killed", "touch killed; rm -rf nothing", func() { m.Agent.Kill() })
	s.bash("call_missing", "touch missing; rm -rf nothing", func() { os.RemoveAll(filepath.Dir(hook)) })
	s.bash("call_mode", "touch mode; rm -rf nothing", put("x", 0o644))
	s.bash("call_corrupt", "touch corrupt; rm -rf nothing", put("\x7fELF\x02\x01\x01 not really", 0o755))
	s.bash("call_segv", "touch segv; rm -rf nothing", put("#!/bin/sh\nkill -SEGV $$\n", 0o755))
	s.bash("call_exit2", "touch exit2; rm -rf nothing", put("#!/bin/sh\nexit 2\n", 0o755))
	s.bash("call_after", "touch after-ran; rm -rf victim", func() {
		start(t, m)
		if err := world.Until(t.Context(), 30*time.Second, func() error {
			info, err := os.Stat(hook)
			if err == nil && info.Size() < 1<<20 {
				err = fmt.Errorf("%s is not yet repaired", hook)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
	s.run()
	for _, id := range []string{"killed", "missing", "mode", "corrupt", "segv", "exit2"} {
		s.runs("fault.machine-"+id, "call_"+id, s.path(id))
	}
	s.denied("fault.machine-repaired", "call_after", denyText, s.path("after-ran"), "1.0.49")
}
