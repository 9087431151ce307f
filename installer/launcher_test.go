package installer

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shells are the POSIX shells that this machine has. CI installs all of them:
// apt-get install bash dash busybox zsh mksh.
func shells(t *testing.T) [][]string {
	t.Helper()
	var out [][]string
	for _, s := range [][]string{{"bash", "--norc", "--noprofile"}, {"bash", "--posix"}, {"dash"}, {"busybox", "sh"}, {"zsh", "-f"}, {"zsh", "--emulate", "sh", "-f"}, {"mksh"}, {"sh"}} {
		if path, err := exec.LookPath(s[0]); err == nil {
			out = append(out, append([]string{path}, s[1:]...))
		} else if os.Getenv("CI") != "" {
			t.Errorf("%s isn't installed", s[0])
		}
	}
	return out
}

type ran struct {
	status      int
	out, stderr string
}

func runText(t *testing.T, shell []string, text, stdin string, env ...string) ran {
	t.Helper()
	cmd := exec.Command(shell[0], append(append([]string{}, shell[1:]...), "-c", text)...)
	cmd.Env = append([]string{"PATH=/nonexistent", "LC_ALL=C"}, env...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Dir = t.TempDir()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ran{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

const deny = `{"permissionDecision":"deny"}`

// faults are what may stand at the registered path, and what the launcher says
// then (installer.md 1; field report R67).
var launcherFaults = []struct {
	name   string
	put    func(t *testing.T, path string)
	stdout string
	says   string // part of the one stderr line; empty: silent
}{
	{"present", script("#!/bin/sh\nread l\nprintf '%s' '" + deny + "'\n"), deny, ""},
	{"present with a message", script("#!/bin/sh\necho 'pinta-copilot: guard: timeout' >&2\n"), "", "guard: timeout"},
	{"missing", func(*testing.T, string) {}, "", "is missing; "},
	{"folder missing", func(t *testing.T, p string) { must(t, os.RemoveAll(filepath.Dir(p))) }, "", "is missing, and its folder too"},
	{"a directory", func(t *testing.T, p string) { must(t, os.Mkdir(p, 0o755)) }, "", "is not a file"},
	{"not executable", func(t *testing.T, p string) { write(t, p, fakeHook, 0o644) }, "", "is not executable"},
	{"empty", func(t *testing.T, p string) { write(t, p, "", 0o755) }, "", "is empty"},
	{"corrupt image", func(t *testing.T, p string) { write(t, p, "\x7fELF\x02\x01 garbage\n", 0o755) }, "", "not checked"}, // mksh: status 1
	{"text instead of an image", func(t *testing.T, p string) { write(t, p, "this is no program\n", 0o755) }, "", "could not start"},
	{"interpreter missing", script("#!/nonexistent/interpreter\n"), "", "could not start"},
	{"truncated image", func(t *testing.T, p string) {
		b, err := os.ReadFile("/proc/self/exe")
		must(t, err)
		write(t, p, string(b[:5000]), 0o755)
	}, "", "pinta-copilot: "},
	{"exit 1", script("#!/bin/sh\nexit 1\n"), "", "failed with status 1"},
	{"exit 2", script("#!/bin/sh\nexit 2\n"), "", "failed with status 2"},
	{"panic", script("#!/bin/sh\necho 'panic: oops' >&2\necho 'goroutine 1 [running]:' >&2\nexit 2\n"), "", "failed with status 2"},
	{"SIGSEGV", script("#!/bin/sh\nkill -SEGV $$\n"), "", "died of signal 11"},
	{"SIGKILL", script("#!/bin/sh\nkill -KILL $$\n"), "", "died of signal 9"},
	{"denial, then a crash", script("#!/bin/sh\nprintf '%s' '" + deny + "'\nkill -SEGV $$\n"), deny, "died of signal 11"},
}

func script(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) { write(t, path, text, 0o755) }
}

func TestLauncherFaults(t *testing.T) {
	for _, sh := range shells(t) {
		for _, f := range launcherFaults {
			t.Run(filepath.Base(sh[0])+" "+strings.Join(sh[1:], " ")+"/"+f.name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "plugin root", "pinta-hook")
				must(t, os.Mkdir(filepath.Dir(path), 0o755))
				f.put(t, path)
				checkRun(t, runText(t, sh, POSIX(path), "{}\n"), f.stdout, f.says)
			})
		}
	}
}

func checkRun(t *testing.T, r ran, stdout, says string) {
	t.Helper()
	if r.status != 0 {
		t.Errorf("exit status %d", r.status)
	}
	if r.out != stdout {
		t.Errorf("stdout %q, want %q", r.out, stdout)
	}
	if says == "" && r.stderr != "" {
		t.Errorf("stderr %q, want none", r.stderr)
	}
	if says != "" && (!strings.Contains(r.stderr, says) || !strings.HasPrefix(r.stderr, "pinta-copilot: ") || strings.Count(r.stderr, "\n") != 1) {
		t.Errorf("stderr %q, want one line of pinta-copilot with %q", r.stderr, says)
	}
}

// TestLauncherWarningNamesTheRemedy: plugin, cause and remedy (security.md S12).
func TestLauncherWarningNamesTheRemedy(t *testing.T) {
	r := runText(t, []string{"/bin/sh"}, POSIX("/nonexistent/pinta/pinta-hook"), "{}")
	for _, want := range []string{"pinta-copilot", "/nonexistent/pinta/pinta-hook is missing", "pinta-agent repair"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q doesn't name %q", r.stderr, want)
		}
	}
}

// hostileNames are folder names that break bad quoting (field reports R71, R72).
var hostileNames = []string{
	"o'demo", "''", "de mo", ` lead`, `trail `, "A&B 100%", "Demo (test)", "$env", "$USER", "$(touch pwned)", "`touch pwned`", "-demo", `de"mo`, `back\slash`,
	"데모", "été", "a;b", "a|b", "a>b", "*", "[ab]", "{a,b}", "~", "#x", "!x", "new\nline", "tab\there", "\u2018quoted\u2019", "%PATH%", "^caret",
}

func TestLauncherHostilePaths(t *testing.T) {
	for _, sh := range shells(t) {
		for _, name := range hostileNames {
			t.Run(filepath.Base(sh[0])+" "+strings.Join(sh[1:], " ")+"/"+name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), name, "pinta-hook")
				write(t, path, "#!/bin/sh\nprintf ok\n", 0o755)
				checkRun(t, runText(t, sh, POSIX(path), "{}"), "ok", "")
				must(t, os.Remove(path))
				if r := runText(t, sh, POSIX(path), "{}"); r.status != 0 || r.out != "" || !strings.Contains(r.stderr, "is missing") {
					t.Errorf("without the binary: %+v", r)
				}
			})
		}
	}
}

// TestLauncherHostileEnvironment: what a terminal exports can't make the
// launcher fail; for the machine's /bin/sh it can't keep the hook from running
// either (security.md S17).
func TestLauncherHostileEnvironment(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pinta-hook")
	write(t, path, "#!/bin/sh\nprintf '%s' '"+deny+"'\n", 0o755)
	noise := filepath.Join(dir, "noise")
	write(t, noise, "echo noise\nexit 3\n", 0o644)
	for _, env := range []string{
		"ENV=" + noise, "BASH_ENV=" + noise, "PATH=", "IFS=/", "CDPATH=/", "PS4=x", "POSIXLY_CORRECT=1", "p=/nonexistent", "e=x", "r=9", "w=oops",
		"BASH_FUNC_echo%%=() { command printf noise; }", "SHELLOPTS=errexit:nounset", "LD_BIND_NOW=1",
	} {
		t.Run(env, func(t *testing.T) { checkRun(t, runText(t, []string{"/bin/sh"}, POSIX(path), "{}", env), deny, "") })
	}
	for _, sh := range shells(t) { // errexit must not turn a crash into a denial
		write(t, path, "#!/bin/sh\nexit 2\n", 0o755)
		checkRun(t, runText(t, sh, "set -eu; "+POSIX(path), "{}"), "", "failed with status 2")
	}
}

// TestEntryDisarmsShell: with the entry's env nothing that a terminal exports
// keeps any shell from running the hook, or gets into its answer.
func TestEntryDisarmsShell(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pinta-hook")
	write(t, path, "#!/bin/sh\nprintf '%s' '"+deny+"'\n", 0o755)
	noise := filepath.Join(dir, "noise")
	write(t, noise, "echo noise\n", 0o644)
	var entry []string
	for k, v := range shellEnv {
		entry = append(entry, k+"="+v)
	}
	for _, sh := range shells(t) {
		for _, hostile := range []string{"BASH_ENV=" + noise, "SHELLOPTS=noexec", "SHELLOPTS=xtrace", "BASH_FUNC_[%%=() { return 1; }",
			"BASH_FUNC_exit%%=() { return 2; }", "BASH_FUNC_echo%%=() { printf noise; }", "IFS=/", "PS4=noise"} {
			t.Run(filepath.Base(sh[0])+" "+strings.Join(sh[1:], " ")+"/"+hostile, func(t *testing.T) {
				checkRun(t, runText(t, sh, POSIX(path), "{}", append([]string{hostile, "BASH_XTRACEFD=1"}, entry...)...), deny, "")
			})
		}
	}
}

// TestEntryDisarmsRuntime: no variable of the Go runtime keeps the hook, a Go
// program as this one, from starting.
func TestEntryDisarmsRuntime(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var entry []string
	for k, v := range runtimeEnv {
		entry = append(entry, k+"="+v)
	}
	for _, hostile := range []string{"GOMEMLIMIT=x", "GODEBUG=fips140=x"} {
		start := func(env ...string) error {
			command := exec.Command(self, "-test.run=^$")
			command.Env = append(os.Environ(), env...)
			return command.Run()
		}
		if start(hostile) == nil {
			t.Errorf("%s: harmless, so nothing is proved", hostile)
		}
		if err := start(append([]string{hostile}, entry...)...); err != nil {
			t.Errorf("%s: %v", hostile, err)
		}
	}
}

// TestLauncherPassesLargeInput: the event goes through untouched.
func TestLauncherPassesLargeInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pinta-hook")
	write(t, path, "#!/bin/sh\nexec /usr/bin/wc -c\n", 0o755)
	for _, sh := range shells(t) {
		if r := runText(t, sh, POSIX(path), strings.Repeat("x", 2<<20)); strings.TrimSpace(r.out) != "2097152" || r.status != 0 {
			t.Errorf("%s: %+v", sh, r)
		}
	}
}

// TestLauncherUnread: a launcher that can't start the hook leaves a large event
// unread, and the writer gets no fault that would count.
func TestLauncherUnread(t *testing.T) {
	for _, sh := range shells(t) {
		checkRun(t, runText(t, sh, POSIX("/nonexistent/x/pinta-hook"), strings.Repeat("x", 2<<20)), "", "is missing")
	}
}
