package shell

import (
	"slices"
	"strings"
)

// inner is what a command runs in turn.
type inner struct {
	words      []string
	env        []string
	script     string
	powershell bool
	stdin      bool     // a script is read from standard input
	file       string   // or from here
	args       []string // $0, $1 … of the script
}

// wrapper says where among a program's words the command stands that it runs.
type wrapper struct {
	short  string // single letters of the options that take the next word
	long   string // blank-separated long options that take the next word
	skip   int    // operands before the command
	script bool   // a shell reads the words, joined
}

var wrappers = map[string]wrapper{
	"sudo":  {short: "ugpCrtTUDRh", long: "user group prompt close-from role type host chdir chroot other-user"},
	"doas":  {short: "uC"},
	"nohup": {}, "setsid": {}, "command": {}, "builtin": {}, "noglob": {}, "nocorrect": {}, "catchsegv": {}, "busybox": {}, "toybox": {},
	"torsocks": {}, "firejail": {}, "rtk": {}, "unbuffer": {}, "fakeroot": {}, "setarch": {}, "winpty": {}, "-": {}, "repeat": {skip: 1}, "start": {}, "chronic": {}, "linux32": {}, "linux64": {},
	"prlimit": {}, "choom": {short: "n", long: "adjust"}, "setpriv": {long: "reuid regid groups inh-caps ambient-caps bounding-set securebits pdeathsig selinux-label apparmor-profile"},
	"nice": {short: "n", long: "adjustment"}, "ionice": {short: "cnpPu", long: "class classdata"}, "chrt": {skip: 1}, "taskset": {skip: 1},
	"timeout": {short: "sk", long: "signal kill-after", skip: 1}, "gtimeout": {short: "sk", long: "signal kill-after", skip: 1},
	"time": {short: "fo", long: "format output"}, "stdbuf": {short: "ioe", long: "input output error"}, "exec": {short: "a"},
	"xargs":  {short: "IinPLdaEs", long: "max-args max-procs max-lines delimiter arg-file replace max-chars"},
	"chroot": {long: "userspec groups", skip: 1}, "unshare": {}, "nsenter": {short: "tS", long: "target"},
	"watch": {short: "n", long: "interval", script: true}, "entr": {}, "faketime": {short: "f", skip: 1}, "cpulimit": {short: "lpe", long: "limit pid exe"},
	"strace": {short: "oepsPEu"}, "ltrace": {short: "oepsu"}, "valgrind": {},
	"npx": {short: "p", long: "package"}, "parallel": {short: "jN", long: "jobs"}, "caffeinate": {short: "tw"},
	"proxychains": {short: "f"}, "proxychains4": {short: "f"}, "systemd-run": {short: "puE", long: "unit property setenv uid gid"},
	"gosu": {skip: 1}, "su-exec": {skip: 1}, "pkexec": {long: "user"}, "run0": {short: "u", long: "user"},
	"ld.so": {long: "library-path preload argv0"}, "screen": {short: "Sscpt"}, "hyperfine": {short: "wrmMpcPLSn", script: true,
		long: "warmup runs min-runs max-runs prepare conclusion setup cleanup parameter-scan parameter-list shell command-name"},
	"ssh": {short: "bcDEeFIiJLlmOopQRSWw", skip: 1, script: true}, "mosh": {skip: 1, script: true}, "wsl": {short: "du", long: "distribution user"},
}

// runners are programs of which some subcommands run a command.
var runners = map[string]map[string]wrapper{
	"docker": container, "podman": container, "nerdctl": container, "docker-compose": container,
	"kubectl": {"exec": {short: "cnf", long: "container namespace filename context", skip: 1}, "run": {long: "image namespace", skip: 1}},
	"oc":      {"exec": {short: "cnf", long: "container namespace filename context", skip: 1}, "rsh": {short: "cn", long: "container namespace", skip: 1}},
	"lxc":     {"exec": {long: "env cwd user group", skip: 1}}, "incus": {"exec": {long: "env cwd user group", skip: 1}},
	"uv": {"run": {short: "p", long: "python with project directory env-file extra group package"}}, "poetry": {"run": {}}, "pipenv": {"run": {}},
	"pdm": {"run": {}}, "hatch": {"run": {}}, "rye": {"run": {}}, "bundle": {"exec": {}},
	"npm": {"exec": {long: "package"}, "x": {long: "package"}}, "pnpm": {"exec": {}, "dlx": {long: "package"}}, "yarn": {"exec": {}, "dlx": {short: "p", long: "package"}}, "bun": {"x": {}},
	"conda": environment, "mamba": environment, "micromamba": environment,
	"direnv": {"exec": {skip: 1}}, "mise": {"exec": {}, "x": {}}, "devbox": {"run": {}}, "aws-vault": {"exec": {skip: 1}}, "op": {"run": {long: "env-file"}}, "doppler": {"run": {short: "pc"}},
	"perf": {"stat": {short: "eoprIC"}, "record": {short: "eopcFC"}}, "guix": {"shell": {}},
	"tmux": {"new": pane, "new-session": pane, "new-window": pane, "neww": pane, "split-window": pane, "splitw": pane, "respawn-pane": pane,
		"send-keys": {short: "t", script: true}, "send": {short: "t", script: true}},
}

var (
	container = map[string]wrapper{
		"exec": {short: "euw", long: "env user workdir detach-keys env-file index", skip: 1},
		"run": {short: "epvuwhmlac", skip: 1, long: "name env env-file publish volume user workdir network net hostname memory label entrypoint mount restart platform cpus gpus " +
			"add-host cap-add cap-drop device dns ip link log-driver pid ipc security-opt shm-size tmpfs ulimit pull runtime cidfile expose userns"},
	}
	environment = map[string]wrapper{"run": {short: "np", long: "name prefix cwd"}}
	pane        = wrapper{short: "ctnsFxyel", script: true}
)

var shells = []string{"bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash"}

// program is what a name means in the tables above: one look-up for each of a
// script's commands, few of which are in any.
type program struct {
	shell       bool
	wrapper     *wrapper
	subcommands map[string]wrapper
}

var programs = func() map[string]program {
	all := map[string]program{}
	for _, name := range shells {
		all[name] = program{shell: true}
	}
	for name, w := range wrappers {
		all[name] = program{wrapper: &w}
	}
	for name, sub := range runners {
		all[name] = program{subcommands: sub}
	}
	return all
}()

// runs says what the command runs: by the wrappers, shells and evaluators that
// take a command as their words, their option or their input.
func (c *Command) runs() (r inner) {
	name := strings.ToLower(c.Name)
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") {
		name = "ld.so"
	}
	known := programs[name]
	if known.shell {
		return c.shellRuns()
	}
	switch name {
	case "eval":
		return inner{script: strings.Join(c.Argv, " ")}
	case "source", ".":
		if len(c.Argv) > 0 {
			return scriptFile(c.Argv)
		}
	case "trap":
		if len(c.Args) > 0 {
			return inner{script: c.Args[0]}
		}
	case "alias":
		return inner{script: aliased(c.Args)}
	case "at", "batch", "crontab":
		return inner{stdin: true}
	case "env":
		return envRuns(c.Argv)
	case "su", "runuser", "script", "flock", "sg", "npx", "nix-shell", "vagrant":
		if run, ok := optionRuns(name, c.Argv); ok {
			return run
		}
	case "find", "fd":
		return findRuns(c.Argv)
	case "gdb":
		if i := slices.Index(c.Argv, "--args"); i >= 0 {
			return inner{words: c.Argv[i+1:]}
		}
	case "pwsh", "powershell":
		return powershellRuns(c.Argv)
	case "cmd":
		for i, w := range c.Argv {
			if strings.EqualFold(w, "/c") || strings.EqualFold(w, "/k") {
				return inner{script: strings.Join(c.Argv[i+1:], " "), powershell: true}
			}
		}
	case "command", "builtin":
		if len(c.Argv) > 0 && (c.Argv[0] == "-v" || c.Argv[0] == "-V") {
			return inner{} // asks, runs nothing
		}
	}
	switch {
	case known.wrapper != nil:
		return known.wrapper.runs(c.Argv)
	case known.subcommands != nil:
		return subcommandRuns(c.Argv, known.subcommands)
	}
	return inner{}
}

// scriptFile is a script by its file, with its arguments.
func scriptFile(words []string) inner {
	if f := words[0]; f == "/dev/stdin" || f == "/dev/fd/0" || f == "/proc/self/fd/0" || f == "-" {
		return inner{stdin: true}
	}
	return inner{file: words[0], args: words}
}

// aliased are the commands that names stand for from now on.
func aliased(definitions []string) string {
	var lines []string
	for _, d := range definitions {
		if _, command, ok := strings.Cut(d, "="); ok {
			lines = append(lines, command)
		}
	}
	return strings.Join(lines, "\n")
}

// subcommandRuns looks for a subcommand behind options and their values.
func subcommandRuns(words []string, known map[string]wrapper) inner {
	for i, w := range words {
		if sub, ok := known[w]; ok {
			return sub.runs(words[i+1:])
		}
		if w != "compose" && !strings.HasPrefix(w, "-") && (i == 0 || !strings.HasPrefix(words[i-1], "-")) {
			break
		}
	}
	return inner{}
}

// runs skips options, NAME=value words and operands; the rest is the command.
func (wr wrapper) runs(words []string) inner {
	return afterOptions(words, wr.short, wr.long, wr.skip, wr.script)
}

// afterOptions skips options, NAME=value words and skip operands; the rest is
// the command, joined to a script if a remote shell reads it.
func afterOptions(words []string, short, long string, skip int, script bool) inner {
	var env []string
	for len(words) > 0 {
		w := words[0]
		switch {
		case w == "--":
			words = words[1:]
			for ; skip > 0 && len(words) > 0; skip-- {
				words = words[1:]
			}
			return afterWords(words, env, script)
		case strings.HasPrefix(w, "--"):
			words = words[1:]
			if takesNext(w[2:], long) && len(words) > 0 {
				words = words[1:]
			}
		case len(w) > 1 && w[0] == '-':
			words = words[1:]
			if len(w) == 2 && strings.Contains(short, w[1:]) && len(words) > 0 {
				words = words[1:]
			}
		case isAssignment(w) && skip == 0:
			env = append(env, w)
			words = words[1:]
		case skip > 0:
			skip--
			words = words[1:]
		default:
			return afterWords(words, env, script)
		}
	}
	return inner{}
}

func afterWords(words, env []string, script bool) inner {
	if len(words) == 0 {
		return inner{}
	}
	if script {
		return inner{script: strings.Join(words, " ")}
	}
	return inner{words: words, env: env}
}

func takesNext(option, long string) bool {
	for _, l := range strings.Fields(long) {
		if l == option {
			return true
		}
	}
	return false
}

func isAssignment(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	if !ok || name == "" || '0' <= name[0] && name[0] <= '9' {
		return false
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func envRuns(words []string) inner {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "-S" || w == "--split-string":
			if i+1 < len(words) {
				return inner{script: strings.Join(words[i+1:], " ")}
			}
		case strings.HasPrefix(w, "--split-string="):
			return inner{script: w[len("--split-string="):] + " " + strings.Join(words[i+1:], " ")}
		case strings.HasPrefix(w, "-S"):
			return inner{script: w[2:] + " " + strings.Join(words[i+1:], " ")}
		}
		if !strings.HasPrefix(w, "-") && !isAssignment(w) {
			break
		}
	}
	return afterOptions(words, "uC", "unset chdir", 0, false)
}

// shellRuns: bash [-lc] SCRIPT, bash FILE, or a script on standard input.
func (c *Command) shellRuns() inner {
	command := false
	for i := 0; i < len(c.Argv); i++ {
		w := c.Argv[i]
		switch {
		case w == "--" || len(w) > 2 && strings.HasPrefix(w, "--"):
			if w == "--rcfile" || w == "--init-file" {
				i++
			}
		case len(w) > 1 && (w[0] == '-' || w[0] == '+'):
			if strings.ContainsAny(w[1:], "oO") { // -o NAME, -euo NAME, -ceo NAME
				i++
			}
			command = command || w[0] == '-' && strings.Contains(w, "c")
			if w == "-s" {
				return inner{stdin: true}
			}
		case command:
			return inner{script: w, args: c.Argv[i+1:]}
		default: // a file is not read, unless the text itself writes it
			return scriptFile(c.Argv[i:])
		}
	}
	return inner{stdin: true}
}

// optionRuns: su USER -c SCRIPT, script -c SCRIPT, flock FILE -c SCRIPT | WORDS, and so on.
func optionRuns(name string, words []string) (run inner, ok bool) {
	for i, w := range words {
		switch w {
		case "-c", "--command", "-qc", "-lc", "--call", "--run":
			if i+1 < len(words) {
				return inner{script: words[i+1]}, true
			}
		}
		if _, text, ok := strings.Cut(w, "="); ok && (strings.HasPrefix(w, "--command=") || strings.HasPrefix(w, "--call=") || strings.HasPrefix(w, "--run=")) {
			return inner{script: text}, true
		}
	}
	switch name {
	case "flock":
		return afterOptions(words, "wE", "timeout", 1, false), true
	case "runuser":
		return afterOptions(words, "ugG", "user group", 0, false), true
	case "sg":
		return afterOptions(words, "", "", 1, true), true
	}
	return inner{}, false
}

// findRuns: find … -exec WORDS ; joined by && when there are several.
func findRuns(words []string) inner {
	var lines []string
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch":
			end := i + 1
			for end < len(words) && words[end] != ";" && words[end] != "+" {
				end++
			}
			lines = append(lines, quoteAll(words[i+1:min(end, len(words))]))
			i = end
		}
	}
	return inner{script: strings.Join(lines, "\n")}
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
