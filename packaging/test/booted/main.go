// Command booted proves the deb on a booted Debian, from inside it: run by
// packaging/test/deb.sh in a throw-away machine, as root. It drives a real
// Manager and a real collector on loopback and the hooks of two real users.
//
//	booted V1.deb V2.deb BROKEN.deb PROGRAMS
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
)

const denyText = "Recursive delete is not allowed here."

const policy = `mode: enforce
timeoutMs: 1500
rules:
  - id: deny_recursive_delete
    on: tool_input
    tools: [shell]
    when: commands.exists(c, c.name == 'rm' && c.flags.exists(f, f == 'r' || f == 'recursive'))
    action: deny
    message: "` + denyText + `"
`

type bench struct {
	ctx    context.Context
	site   *world.Site
	token  string
	device string
	failed int
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: booted V1.deb V2.deb BROKEN.deb PROGRAMS")
		os.Exit(2)
	}
	v1, v2, broken, programs := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	rpms, err := filepath.Glob(filepath.Join(programs, "*.rpm")) // in the order of their versions
	if err != nil || len(rpms) != 2 {
		panic(fmt.Sprint(rpms, err))
	}
	dir, err := os.MkdirTemp("/var/tmp", "site-")
	if err != nil {
		panic(err)
	}
	b := &bench{ctx: context.Background()}
	b.check("two users, a Manager and a policy", func() error { return b.prepare(dir, programs) })
	b.check("install with a preseeded token: enrolled", func() error { return b.install(v1) })
	b.check("no trace of the token", b.noTrace)
	b.check("hooks of both users and of the machine, owned and moded right", b.registered)
	b.check("real events of both users are guarded, the machine's too", func() error { return b.guarded(true) })
	b.check("sandbox at most 3.0, guard and relay without rights", b.sandbox)
	b.check("upgrade under load: a hook every 50 ms, none fails, none is denied", func() error { return b.upgrade(v2) })
	b.check("the enrolment is the same", b.sameDevice)
	b.check("a version that does not start gives way to the one before", func() error { return b.rollback(broken, v2) })
	b.check("kill -9: back within seconds, hooks are guarded again", b.kill)
	b.check("systemd watches the service and hears its life signs", b.watchdog)
	b.check("service install beside the package is refused", b.beside)
	b.check("a removal that is called off: the service runs again", b.calledOff)
	b.check("remove takes hooks and service away", b.remove)
	b.check("purge takes the state away", b.purge)
	b.check("rpm: install with a token file, upgrade, erase, by its own scripts", func() error { return b.rpm(rpms[0], rpms[1]) })
	b.check("service install, from any folder: the package's unit, ready, controlled, gone", func() error { return b.service(v2) })
	b.check("the same as a user's own service", b.userService)
	b.site.Close()
	if b.failed > 0 {
		fmt.Printf("%d checks failed\n", b.failed)
		os.Exit(1)
	}
}

func (b *bench) check(name string, f func() error) {
	start := time.Now()
	if err := f(); err != nil {
		b.failed++
		fmt.Printf("FAIL %s: %v\n", name, err)
		return
	}
	fmt.Printf("ok   %s (%.1f s)\n", name, time.Since(start).Seconds())
}

func (b *bench) sh(text string) (string, error) {
	command := exec.CommandContext(b.ctx, "/bin/sh", "-c", text)
	command.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "HOME=/root", "LANG=C.UTF-8"}
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", text, err, out)
	}
	return strings.TrimSpace(string(out)), err
}

var users = []string{"alice", "bob"}

func (b *bench) prepare(dir, programs string) (err error) {
	for _, name := range users {
		if _, err := b.sh("useradd --create-home --shell /bin/bash " + name); err != nil {
			return err
		}
	}
	if b.site, err = world.Open(b.ctx, dir, world.In(programs)); err != nil {
		return err
	}
	if _, err := b.site.Publish(b.ctx, policy); err != nil {
		return err
	}
	token, err := b.site.Token(b.ctx)
	b.token = token.Token
	return err
}

type status struct {
	Version  string `json:"version"`
	DeviceID string `json:"deviceId"`
	Service  struct {
		Running bool `json:"running"`
		Detail  struct {
			Unprivileged bool `json:"unprivileged"`
			Serving      bool `json:"serving"`
		} `json:"detail"`
	} `json:"service"`
	Config struct {
		Version int `json:"version"`
	} `json:"config"`
}

func (b *bench) status() (s status, err error) {
	out, err := exec.CommandContext(b.ctx, "/usr/bin/pinta-agent", "status", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	return s, err
}

func (b *bench) until(f func() error) error { return world.Until(b.ctx, 30*time.Second, f) }

func (b *bench) install(deb string) error {
	seed := exec.CommandContext(b.ctx, "debconf-set-selections")
	seed.Stdin = strings.NewReader("pinta-agent pinta-agent/enrollment-token password " + b.token + "\n")
	if out, err := seed.CombinedOutput(); err != nil {
		return fmt.Errorf("preseed: %w\n%s", err, out)
	}
	if _, err := b.sh("dpkg -i " + deb); err != nil {
		return err
	}
	return b.until(func() error {
		s, err := b.status()
		switch {
		case err != nil:
			return err
		case s.DeviceID == "" || s.Config.Version == 0:
			return fmt.Errorf("not enrolled yet: %+v", s)
		}
		b.device = s.DeviceID
		return nil
	})
}

// noTrace looks for the token in files, the journal and every process.
func (b *bench) noTrace() error {
	return b.until(func() error {
		if out, err := b.sh("grep -rlF '" + b.token + "' /etc /var/lib /var/cache /var/log /run/log /home 2>/dev/null || true"); err != nil || out != "" {
			return fmt.Errorf("found in %s, %w", out, err)
		}
		if out, err := b.sh("journalctl -q --no-pager | grep -cF '" + b.token + "' || true"); err != nil || out != "0" {
			return fmt.Errorf("the journal holds it: %s, %w", out, err)
		}
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			return err
		}
		for _, name := range lines {
			if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte(b.token)) {
				return fmt.Errorf("%s holds it", name)
			}
		}
		return nil
	})
}

type entry struct {
	Bash    string            `json:"bash"`
	Exec    string            `json:"exec"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Timeout int               `json:"timeoutSec"`
}

const machineFile = "/etc/github-copilot/policy.d/90-pinta.json"

func hookFile(name string) string { return "/home/" + name + "/.copilot/hooks/pinta-copilot.json" }

func preToolUse(file string) (entry, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return entry{}, err
	}
	var all struct {
		Hooks map[string][]entry `json:"hooks"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return entry{}, err
	}
	if len(all.Hooks["PreToolUse"]) != 1 {
		return entry{}, fmt.Errorf("%s holds no PreToolUse entry", file)
	}
	return all.Hooks["PreToolUse"][0], nil
}

func (b *bench) registered() error {
	return b.until(func() error {
		for _, name := range append(users, "root") {
			file, owner := machineFile, "root"
			if name != "root" {
				file, owner = hookFile(name), name
			}
			if err := owned(file, owner, 0o644); err != nil {
				return err
			}
			if _, err := preToolUse(file); err != nil {
				return err
			}
			if name != "root" {
				if err := owned(filepath.Dir(filepath.Dir(file))+"/pinta-copilot.env", owner, 0o600); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func owned(file, owner string, mode fs.FileMode) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	u, err := user.Lookup(owner)
	if err != nil {
		return err
	}
	if uid := strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Uid)); uid != u.Uid || info.Mode() != mode {
		return fmt.Errorf("%s: %s, owner %s; want %s, owner %s", file, info.Mode(), uid, mode, u.Uid)
	}
	return nil
}

// hook runs a registered command as its user, the way the host does.
func (b *bench) hook(name string, e entry, command string) (stdout string, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	payload, err := json.Marshal(map[string]any{"hook_event_name": "PreToolUse", "session_id": "00000000-0000-4000-8000-00000000000" + strconv.Itoa(uid%10),
		"timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "cwd": u.HomeDir, "tool_name": "Bash",
		"tool_input": map[string]string{"command": command, "description": "probe"}})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(b.ctx, 15*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/bash", "--norc", "--noprofile", "-c", e.Bash)
	if e.Exec != "" {
		c = exec.CommandContext(ctx, e.Exec, e.Args...)
	}
	c.Dir, c.Stdin = u.HomeDir, bytes.NewReader(payload)
	c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + u.HomeDir, "USER=" + name, "COPILOT_CLI=1"}
	for k, v := range e.Env {
		c.Env = append(c.Env, k+"="+v)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}} //nolint:gosec // small
	out, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return string(out), err
}

func (b *bench) guarded(machine bool) error {
	return b.until(func() error {
		for _, name := range users {
			files := []string{hookFile(name)}
			if machine {
				files = append(files, machineFile)
			}
			for _, file := range files {
				e, err := preToolUse(file)
				if err != nil {
					return err
				}
				if out, err := b.hook(name, e, "rm -rf build"); err != nil || !strings.Contains(out, denyText) {
					return fmt.Errorf("%s by %s: the delete was not denied: %q, %w", name, file, out, err)
				}
				if out, err := b.hook(name, e, "echo hello"); err != nil || strings.Contains(out, "deny") {
					return fmt.Errorf("%s by %s: echo was not let through: %q, %w", name, file, out, err)
				}
			}
		}
		return nil
	})
}

func (b *bench) sandbox() error {
	out, err := b.sh("systemd-analyze security --no-pager pinta-agent.service | tail -1; systemd-analyze verify pinta-agent.service")
	if err != nil {
		return err
	}
	fields := strings.Fields(out)
	for i, f := range fields {
		if f == "pinta-agent.service:" && i+1 < len(fields) {
			level, err := strconv.ParseFloat(fields[i+1], 64)
			if err != nil || level > 3.0 {
				return fmt.Errorf("exposure %s", out)
			}
			fmt.Printf("     exposure %.1f\n", level)
		}
	}
	s, err := b.status()
	if err != nil || !s.Service.Detail.Unprivileged {
		return fmt.Errorf("guard and relay are privileged: %+v, %w", s, err)
	}
	pid, err := b.sh("pgrep -u pinta-agent -f endpoint")
	if err != nil {
		return err
	}
	proc, err := os.ReadFile("/proc/" + strings.Fields(pid)[0] + "/status")
	if err != nil {
		return err
	}
	for _, want := range []string{"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "Groups:\t \n"} {
		if !strings.Contains(string(proc), want) {
			return fmt.Errorf("guard and relay: %q is not so:\n%s", want, proc)
		}
	}
	return nil
}

// atOnce bounds the hooks under way: a machine too slow for one every 50 ms
// is given fewer, not ever more at once.
const atOnce = 8

// load runs a harmless hook of alice's every 50 ms until stop is closed.
func (b *bench) load(stop <-chan struct{}) (runs int, faults []string) {
	type result struct {
		out string
		err error
	}
	results := make(chan result, 4096)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	started, running := 0, make(chan struct{}, atOnce)
	for {
		select {
		case <-tick.C:
			select {
			case running <- struct{}{}:
			default:
				continue
			}
			started++
			go func() {
				defer func() { <-running }()
				e, err := preToolUse(hookFile("alice"))
				out := ""
				if err == nil {
					out, err = b.hook("alice", e, "echo hello")
				}
				results <- result{out, err}
			}()
		case <-stop:
			for range started {
				r := <-results
				if r.err != nil || strings.Contains(r.out, "deny") {
					faults = append(faults, fmt.Sprintf("%q %v", r.out, r.err))
				}
			}
			return started, faults
		}
	}
}

func (b *bench) upgrade(deb string) error {
	stop, done := make(chan struct{}), make(chan struct{})
	var runs int
	var faults []string
	go func() { runs, faults = b.load(stop); close(done) }()
	time.Sleep(time.Second)
	_, err := b.sh("dpkg -i " + deb)
	time.Sleep(2 * time.Second)
	close(stop)
	<-done
	if err != nil {
		return err
	}
	fmt.Printf("     %d hooks ran\n", runs)
	if len(faults) > 0 {
		return fmt.Errorf("%d of %d hooks failed or were denied, the first: %s", len(faults), runs, faults[0])
	}
	want := strings.Split(filepath.Base(deb), "_")[1]
	if s, err := b.status(); err != nil || s.Version != want || !s.Service.Running {
		return fmt.Errorf("after the upgrade to %s: %+v, %w", want, s, err)
	}
	if err := b.guarded(true); err != nil {
		return err
	}
	return packagedHook()
}

// packagedHook: the version before did not leave its own hook in place.
func packagedHook() error {
	registered, err := os.ReadFile("/usr/lib/pinta-agent/pinta-hook")
	if err != nil {
		return err
	}
	packaged, err := os.ReadFile("/usr/lib/pinta-agent/packaged/pinta-hook")
	if err == nil && !bytes.Equal(registered, packaged) {
		err = errors.New("the registered hook is not that of the package")
	}
	return err
}

func (b *bench) sameDevice() error {
	s, err := b.status()
	if err == nil && s.DeviceID != b.device {
		err = fmt.Errorf("device %s, before %s", s.DeviceID, b.device)
	}
	return err
}

func (b *bench) rollback(broken, good string) error {
	before, err := b.status()
	if err != nil {
		return err
	}
	if out, err := b.sh("dpkg -i " + broken); err == nil {
		return fmt.Errorf("a version that does not start was accepted:\n%s", out)
	}
	if s, err := b.status(); err != nil || s.Version != before.Version || !s.Service.Running {
		return fmt.Errorf("the version before does not run: %+v, %w", s, err)
	}
	if err := b.guarded(true); err != nil {
		return err
	}
	if _, err := b.sh("dpkg -i " + good); err != nil {
		return err
	}
	return b.sameDevice()
}

func (b *bench) kill() error {
	if _, err := b.sh("kill -9 $(systemctl show -p MainPID --value pinta-agent.service)"); err != nil {
		return err
	}
	if err := b.until(func() error {
		out, err := b.sh("systemctl show -p NRestarts -p ActiveState pinta-agent.service | sort | xargs")
		if err == nil && !strings.HasPrefix(out, "ActiveState=active NRestarts=1") {
			err = errors.New(out)
		}
		return err
	}); err != nil {
		return err
	}
	return b.guarded(true)
}

// watchdog: the unit asks for life signs and gets them.
func (b *bench) watchdog() error {
	out, err := b.sh("systemctl show -p WatchdogUSec -p Type -p WatchdogTimestampMonotonic pinta-agent.service | sort | xargs")
	if err == nil && (!strings.Contains(out, "Type=notify WatchdogTimestampMonotonic=") || strings.Contains(out, "Monotonic=0") || strings.Contains(out, "WatchdogUSec=0")) {
		err = errors.New(out)
	}
	return err
}

// beside: a unit of `service install` would hide that of the package.
func (b *bench) beside() error {
	for _, verb := range []string{"install", "uninstall"} {
		if out, err := b.sh("pinta-agent service " + verb); err == nil || !strings.Contains(out, "package") {
			return fmt.Errorf("service %s went through: %s", verb, out)
		}
	}
	return b.unit("systemctl", "FragmentPath=/lib/systemd/system/pinta-agent.service")
}

// calledOff: what dpkg runs when another package was to take this one's place,
// and could not.
func (b *bench) calledOff() error {
	const script = "/var/lib/dpkg/info/pinta-agent."
	if _, err := b.sh(script + "prerm deconfigure in-favour other 1 && " + script + "postinst abort-deconfigure in-favour other 1"); err != nil {
		return err
	}
	return b.guarded(true)
}

func (b *bench) remove() error {
	e, err := preToolUse(hookFile("alice"))
	if err != nil {
		return err
	}
	// Another program of that name, found first, is not run.
	const planted = "/usr/local/bin/pinta-agent"
	if err := os.WriteFile(planted, []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
		return err
	}
	if _, err := b.sh("PATH=/usr/local/bin:$PATH dpkg -r pinta-agent"); err != nil {
		return err
	}
	if err := os.Remove(planted); err != nil {
		return err
	}
	for _, path := range []string{hookFile("alice"), hookFile("bob"), machineFile, "/usr/lib/pinta-agent/pinta-hook", "/usr/bin/pinta-agent"} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is still there: %w", path, err)
		}
	}
	if out, err := b.sh("systemctl is-active pinta-agent.service || true"); err != nil || out == "active" {
		return fmt.Errorf("the service is %s, %w", out, err)
	}
	// What a running session still holds permits and exits 0.
	if out, err := b.hook("alice", e, "echo hello"); err != nil || strings.Contains(out, "deny") {
		return fmt.Errorf("a session's old entry: %q, %w", out, err)
	}
	return nil
}

func (b *bench) purge() error {
	if _, err := b.sh("dpkg -P pinta-agent"); err != nil {
		return err
	}
	for _, path := range []string{"/var/lib/pinta-agent", "/etc/pinta-agent", "/etc/github-copilot", "/run/pinta-agent"} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is still there: %w", path, err)
		}
	}
	out, err := b.sh("getent passwd pinta-agent || true")
	if err == nil && out != "" {
		err = errors.New(out)
	}
	return err
}

// rpm drives the rpm's scripts under systemd. Debian knows none of the packages
// that it depends on.
func (b *bench) rpm(v1, v2 string) error {
	token, err := b.site.Token(b.ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll("/etc/pinta-agent", 0o755), os.WriteFile("/etc/pinta-agent/enrollment-token", []byte(token.Token+"\n"), 0o600)); err != nil {
		return err
	}
	if _, err := b.sh("rpm --force-debian --nodeps -i " + v1); err != nil {
		return err
	}
	device := ""
	if err := b.until(func() error {
		s, err := b.status()
		if device = s.DeviceID; err == nil && (device == "" || s.Config.Version == 0) {
			err = fmt.Errorf("not enrolled yet: %+v", s)
		}
		return err
	}); err != nil {
		return err
	}
	if _, err := os.Lstat("/etc/pinta-agent/enrollment-token"); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the used token is still there: %w", err)
	}
	if err := b.guarded(true); err != nil {
		return err
	}
	if _, err := b.sh("rpm --force-debian --nodeps -U " + v2); err != nil {
		return err
	}
	want := strings.Split(filepath.Base(v2), "-")[2]
	if s, err := b.status(); err != nil || s.DeviceID != device || s.Version != want || !s.Service.Running {
		return fmt.Errorf("after the upgrade to %s: %+v, %w", want, s, err)
	}
	if err := errors.Join(b.guarded(true), packagedHook()); err != nil {
		return err
	}
	if _, err := b.sh("rpm --force-debian --nodeps -e pinta-agent && rm -rf /var/lib/pinta-agent /etc/pinta-agent"); err != nil {
		return err
	}
	for _, path := range []string{hookFile("alice"), hookFile("bob"), machineFile, "/usr/lib/pinta-agent", "/usr/bin/pinta-agent"} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is still there: %w", path, err)
		}
	}
	return nil
}

// anywhere is where programs lie that no package brought.
const anywhere = "/opt/a folder/pinta-agent"

// service drives `pinta-agent service` on programs outside of the package.
func (b *bench) service(deb string) error {
	if _, err := b.sh("dpkg-deb -x " + deb + " /opt/unpacked && mkdir -p '" + filepath.Dir(anywhere) + "' && mv /opt/unpacked/usr/bin/pinta-agent /opt/unpacked/usr/lib/pinta-agent/pinta-hook '" + filepath.Dir(anywhere) + "'"); err != nil {
		return err
	}
	agent := "'" + anywhere + "' "
	if _, err := b.sh(agent + "service install && " + agent + "service start"); err != nil {
		return err
	}
	if err := b.unit("systemctl", "RestrictNamespaces=yes", "ProtectSystem=full"); err != nil {
		return err
	}
	out, err := b.sh("systemd-analyze security --no-pager --threshold=30 pinta-agent.service | tail -1")
	if err != nil {
		return err
	}
	fmt.Println("     " + out)
	return b.controlled(agent, "/etc/systemd/system/pinta-agent.service")
}

func (b *bench) userService() error {
	u, err := user.Lookup("alice")
	if err != nil {
		return err
	}
	if _, err := b.sh("loginctl enable-linger alice && systemctl start user@" + u.Uid + ".service"); err != nil {
		return err
	}
	as := "setpriv --reuid=alice --regid=alice --init-groups env HOME=/home/alice XDG_RUNTIME_DIR=/run/user/" + u.Uid + " "
	agent := as + "'" + anywhere + "' "
	if _, err := b.sh(agent + "service install && " + agent + "service start"); err != nil {
		return err
	}
	if err := b.unit(as+"systemctl --user", "RestrictNamespaces=yes"); err != nil {
		return err
	}
	return b.controlled(agent, "/home/alice/.config/systemd/user/pinta-agent.service")
}

// unit: systemd took our unit as it is, and it got ready.
func (b *bench) unit(systemctl string, wants ...string) error {
	out, err := b.sh(systemctl + " cat pinta-agent.service; " + systemctl + " show pinta-agent.service")
	for _, want := range append(wants, "Type=notify", "ActiveState=active", "SubState=running", "UnitFileState=enabled", "NoNewPrivileges=yes") {
		if err == nil && !strings.Contains(out, want+"\n") {
			err = fmt.Errorf("the unit lacks %s:\n%s", want, out)
		}
	}
	return err
}

// controlled: status, restart, stop and uninstall do as they say.
func (b *bench) controlled(agent, unit string) error {
	for _, step := range []struct{ verb, want string }{{"status", "is running"}, {"restart", ""}, {"status", "is running"}, {"stop", ""}, {"status", "is stopped"}, {"start", ""}} {
		if out, err := b.sh(agent + "service " + step.verb); err != nil || !strings.Contains(out, step.want) {
			return fmt.Errorf("service %s: %q, %w", step.verb, out, err)
		}
	}
	// Nothing is enrolled here, so status says so with its exit status.
	if out, err := b.sh(agent + "status || true"); err != nil || !strings.Contains(out, "the service runs") {
		return fmt.Errorf("status: %q, %w", out, err)
	}
	if _, err := b.sh(agent + "service uninstall"); err != nil {
		return err
	}
	if out, err := b.sh(agent + "service status"); err != nil || !strings.Contains(out, "not installed") {
		return fmt.Errorf("after uninstall: %q, %w", out, err)
	}
	if out, err := b.sh("pgrep -x pinta-agent || true"); err != nil || out != "" {
		return fmt.Errorf("still running: %s, %w", out, err)
	}
	if _, err := os.Lstat(unit); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is still there: %w", unit, err)
	}
	return nil
}
