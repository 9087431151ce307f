package shell

import (
	"strings"
)

// inner is what a command runs in turn.
type inner struct {
	words      []string
	env        []string
	script     string
	powershell bool
	stdin      bool // a script is read from standard input
}

// valueFlags are the options of a wrapper that take the next word; skip is how
// many operands come before the command.
var wrappers = map[string]struct {
	valueFlags string // single letters
	long       string // blank-separated long options that take the next word
	skip       int
}{
	"sudo": {"ugpCrtTUDRh", "user group prompt close-from role type host chdir chroot other-user", 0}, "doas": {"uC", "", 0},
	"nohup": {}, "setsid": {}, "nice": {"n", "adjustment", 0}, "ionice": {"cnpPu", "class classdata", 0}, "chrt": {"", "", 1},
	"timeout": {"sk", "signal kill-after", 1}, "gtimeout": {"sk", "signal kill-after", 1}, "time": {"fo", "format output", 0},
	"stdbuf": {"ioe", "input output error", 0}, "command": {}, "builtin": {}, "exec": {"a", "", 0}, "noglob": {}, "nocorrect": {},
	"xargs":  {"IinPLdaEs", "max-args max-procs max-lines delimiter arg-file replace max-chars", 0},
	"chroot": {"", "userspec groups", 1}, "unshare": {"", "", 0}, "nsenter": {"tS", "target", 0}, "watch": {"n", "interval", 0},
	"strace": {"oepsPEu", "", 0}, "ltrace": {"oepsu", "", 0}, "catchsegv": {}, "busybox": {}, "toybox": {}, "npx": {"p", "package", 0},
	"parallel": {"jN", "jobs", 0}, "caffeinate": {"tw", "", 0}, "proxychains": {"f", "", 0}, "proxychains4": {"f", "", 0}, "torsocks": {},
	"systemd-run": {"puE", "unit property setenv uid gid", 0}, "firejail": {}, "rtk": {}, "unbuffer": {}, "gosu": {"", "", 1}, "su-exec": {"", "", 1},
	"pkexec": {"", "user", 0}, "run0": {"u", "user", 0}, "fakeroot": {}, "taskset": {"", "", 1}, "setarch": {}, "winpty": {}, "start": {},
}

var shells = map[string]bool{"bash": true, "sh": true, "dash": true, "zsh": true, "ksh": true, "mksh": true, "ash": true, "fish": true, "rbash": true}

// runs says what the command runs: by the wrappers, shells and evaluators that
// take a command as their words, their option or their input.
func (c *Command) runs() (r inner) {
	name := strings.ToLower(c.Name)
	if shells[name] {
		return c.shellRuns()
	}
	switch name {
	case "eval":
		return inner{script: strings.Join(c.Argv, " ")}
	case "trap":
		if len(c.Args) > 0 {
			return inner{script: c.Args[0]}
		}
	case "env":
		return envRuns(c.Argv)
	case "su", "runuser", "script", "flock":
		return optionRuns(name, c.Argv)
	case "ssh":
		return afterOptions(c.Argv, "bcDEeFIiJLlmOopQRSWw", "", 1, true)
	case "find", "fd":
		return findRuns(c.Argv)
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
	case "wsl":
		return afterOptions(c.Argv, "du", "distribution user", 0, false)
	}
	if w, ok := wrappers[name]; ok {
		return afterOptions(c.Argv, w.valueFlags, w.long, w.skip, false)
	}
	return inner{}
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
			if strings.ContainsAny(w[1:], "oO") && !strings.Contains(w, "c") {
				i++
			}
			command = command || w[0] == '-' && strings.Contains(w, "c")
			if w == "-s" {
				return inner{stdin: true}
			}
		case command:
			return inner{script: w}
		default:
			return inner{} // a file, which is not read
		}
	}
	return inner{stdin: true}
}

// optionRuns: su USER -c SCRIPT, script -c SCRIPT, flock FILE -c SCRIPT | WORDS.
func optionRuns(name string, words []string) inner {
	for i, w := range words {
		if (w == "-c" || w == "--command" || w == "-qc" || w == "-lc") && i+1 < len(words) {
			return inner{script: words[i+1]}
		}
		if text, ok := strings.CutPrefix(w, "--command="); ok {
			return inner{script: text}
		}
	}
	switch name {
	case "flock":
		return afterOptions(words, "wE", "timeout", 1, false)
	case "runuser":
		return afterOptions(words, "ugG", "user group", 0, false)
	}
	return inner{}
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
