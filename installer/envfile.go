package installer

import (
	"bytes"
	"strings"
)

// Managed keys of the env file (installer.md 3). Everything else in the file
// belongs to the user and is kept byte for byte.
const (
	KeyEndpoint     = "COPILOT_PLUGIN_OPTION_ENDPOINT"
	KeyHeaders      = "COPILOT_PLUGIN_OPTION_HEADERS"
	KeyGuard        = "PINTA_GUARD_ENDPOINT"
	KeyGuardTimeout = "PINTA_GUARD_TIMEOUT_MS"
	KeyRelayToken   = "PINTA_RELAY_TOKEN"
)

// EnvKeys lists the managed keys in the order in which they are written.
var EnvKeys = []string{KeyEndpoint, KeyHeaders, KeyGuard, KeyGuardTimeout, KeyRelayToken}

var bom = []byte("\xef\xbb\xbf")

// EditEnv returns content with the managed keys set to the values in want, or
// unset where want lacks them. A key that stands in the file is replaced in
// place and its duplicates are removed. A missing key becomes a line at the
// top, so that taking it out again restores the file byte for byte, whether or
// not its last line was ended. Values with line breaks are refused by Desired.
func EditEnv(content []byte, want map[string]string) []byte {
	rest, hadBOM := bytes.CutPrefix(content, bom)
	last := map[string]int{} // of duplicates the last one counts, so that one stays
	lines := splitLines(rest)
	for i, l := range lines {
		if k := l.key(); isManaged(k) {
			last[k] = i
		}
	}
	var head, body []byte
	for _, k := range EnvKeys {
		if _, there := last[k]; !there && want[k] != "" {
			head = append(head, k+"="+want[k]+"\n"...)
		}
	}
	for i, l := range lines {
		k := l.key()
		switch {
		case !isManaged(k):
			body = append(body, l.text+l.end...)
		case want[k] == "" || i != last[k]:
		case l.value() == want[k]:
			body = append(body, l.text+l.end...)
		default:
			body = append(body, k+"="+want[k]+l.end...)
		}
	}
	out := append(head, body...)
	if hadBOM {
		out = append(bytes.Clone(bom), out...)
	}
	return out
}

// envValues returns the managed keys that content sets.
func envValues(content []byte) map[string]string {
	out := map[string]string{}
	rest, _ := bytes.CutPrefix(content, bom)
	for _, l := range splitLines(rest) {
		if k := l.key(); isManaged(k) {
			out[k] = l.value()
		}
	}
	return out
}

func isManaged(key string) bool {
	for _, k := range EnvKeys {
		if k == key {
			return true
		}
	}
	return false
}

// line is one line of an env file and what ends it: LF, CRLF, CR or nothing.
type line struct{ text, end string }

func splitLines(b []byte) []line {
	var out []line
	for s := string(b); s != ""; {
		i := strings.IndexAny(s, "\r\n")
		if i < 0 {
			return append(out, line{s, ""})
		}
		n := i + 1
		if strings.HasPrefix(s[i:], "\r\n") {
			n++
		}
		out = append(out, line{s[:i], s[i:n]})
		s = s[n:]
	}
	return out
}

// split reads the line as the hook does (hook.md 9).
func (l line) split() (key, value string) {
	t := strings.Trim(l.text, " \t")
	if t == "" || t[0] == '#' {
		return "", ""
	}
	if r, ok := strings.CutPrefix(t, "export"); ok && r != strings.TrimLeft(r, " \t") {
		t = strings.TrimLeft(r, " \t")
	}
	k, v, ok := strings.Cut(t, "=")
	if !ok {
		return "", ""
	}
	v = strings.Trim(v, " \t")
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		v = v[1 : len(v)-1]
	}
	return strings.Trim(k, " \t"), v
}

func (l line) key() string   { k, _ := l.split(); return k }
func (l line) value() string { _, v := l.split(); return v }
