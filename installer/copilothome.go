package installer

import (
	"bufio"
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
)

// assignment is NAME=value in a shell's start-up file, environment.d or fish.
var assignment = regexp.MustCompile(`^\s*(?:export\s+|set\s+(?:-\w+\s+)*|setenv\s+)?(\w+)(?:\s*=\s*|\s+)("[^"]*"|'[^']*'|[^\s;#&|]+)`)

// startFiles are where users set variables for good, read in this order.
var startFiles = []string{".profile", ".bash_profile", ".bashrc", ".zshenv", ".zprofile", ".zshrc", ".config/fish/config.fish", ".pam_environment"}

const maxStartFile = 256 << 10

// setting is where a variable is set, and to what.
type setting struct{ Path, Value string }

// userSettings finds what the user's start-up files set the named variables
// to. Only literal values count, with ~ and $HOME for the home; what a script
// computes can't be known without running it.
func userSettings(sys System, home string, names ...string) map[string]setting {
	out := map[string]setting{}
	files := append([]string(nil), startFiles...)
	if names, err := sys.Names(filepath.Join(home, ".config", "environment.d")); err == nil {
		for _, n := range names {
			if strings.HasSuffix(n, ".conf") {
				files = append(files, filepath.Join(".config", "environment.d", n))
			}
		}
	}
	for _, f := range files {
		path := filepath.Join(home, filepath.FromSlash(f))
		data, err := sys.ReadFile(path, maxStartFile)
		if err != nil {
			continue
		}
		sc := bufio.NewScanner(bytes.NewReader(data))
		for sc.Scan() {
			m := assignment.FindStringSubmatch(sc.Text())
			if m == nil {
				continue
			}
			for _, n := range names {
				if m[1] == n {
					out[n] = setting{path, expandHome(strings.Trim(m[2], `"'`), home)}
				}
			}
		}
	}
	return out
}

func expandHome(v, home string) string {
	for _, p := range []string{"$HOME", "${HOME}", "~", "%h", "@{HOME}"} {
		if rest, ok := strings.CutPrefix(v, p); ok && (rest == "" || rest[0] == '/') {
			return home + rest
		}
	}
	return v
}

// knownCopilotHome is where the user's settings lead COPILOT_HOME, or "".
func knownCopilotHome(sys System, home string) string {
	v := userSettings(sys, home, "COPILOT_HOME")["COPILOT_HOME"].Value
	if !filepath.IsAbs(v) || strings.ContainsAny(v, "$`\x00\r\n") {
		return ""
	}
	return filepath.Clean(v)
}
