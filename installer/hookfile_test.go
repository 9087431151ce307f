package installer

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/pinta-ai/pinta-agent/installer/users"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, got, 0o644))
	}
	if want := read(t, path); string(got) != want {
		t.Errorf("%s differs; run with -update and look at the change\n%s", name, got)
	}
}

func managed() registration {
	d := Desired{Version: "1.2.3", Managed: true, GuardTimeoutMs: 400}
	d.Layout.HookBinary = "/usr/lib/pinta-agent/pinta-hook"
	d.Endpoints = Endpoints{"http+unix://%2Frun%2Fpinta-agent%2Fagent.sock/guard/evaluate", "http+unix://%2Frun%2Fpinta-agent%2Fagent.sock/v1/traces"}
	return d.registration("user")
}

func TestGoldenFiles(t *testing.T) {
	user, err := managed().userFile()
	must(t, err)
	golden(t, "pinta-copilot.json", user)
	m := managed()
	m.Source = "machine"
	policy, err := m.policyFile(false)
	must(t, err)
	golden(t, "90-pinta.json", policy)
	m.Hook = `C:\Program Files\Pinta\Agent\pinta-hook.exe`
	policy, err = m.policyFile(true)
	must(t, err)
	golden(t, "90-pinta.windows.json", policy)
	d := Desired{Endpoints: Endpoints{m.Env[KeyGuard], m.Env[KeyEndpoint]}, GuardTimeoutMs: 400}
	golden(t, "pinta-copilot.env", EditEnv([]byte("# proxy of the office\nHTTPS_PROXY=http://proxy:3128\n"), d.env(users.Account{})))
}

// TestHookFileRules: what no host may ever find in the file (installer.md 1).
func TestHookFileRules(t *testing.T) {
	for _, hook := range append([]string{"/usr/lib/pinta-agent/pinta-hook"}, hostileNames...) {
		m := managed()
		m.Hook = hook
		data, err := m.userFile()
		must(t, err)
		if again, _ := m.userFile(); !bytes.Equal(data, again) {
			t.Errorf("%q: not deterministic", hook)
		}
		if i := bytes.IndexFunc(data, func(r rune) bool { return r >= utf8.RuneSelf || r == '\r' }); i >= 0 {
			t.Errorf("%q: byte %d isn't plain ASCII", hook, i)
		}
		var f struct {
			Version json.Number
			Mark    mark `json:"x-pinta"`
			Hooks   map[string][]map[string]any
		}
		must(t, json.Unmarshal(data, &f))
		if f.Version != "1" || f.Mark != (mark{owner, "1.2.3", 1}) || len(f.Hooks) != 13 {
			t.Errorf("%q: %+v", hook, f)
		}
		for event, entries := range f.Hooks {
			if len(entries) != 1 {
				t.Fatalf("%s has %d entries", event, len(entries))
			}
			e := entries[0]
			for _, never := range []string{"command", "exec", "cwd", "matcher", "args", "timeout", "linux", "osx", "windows"} {
				if _, ok := e[never]; ok {
					t.Errorf("%s has the key %s", event, never)
				}
			}
			if e["type"] != "command" || e["timeoutSec"] != 15.0 || e["bash"] != POSIX(hook) || e["powershell"] != PowerShell(hook) {
				t.Errorf("%s: %v", event, e)
			}
			env := e["env"].(map[string]any)
			if env["PINTA_COPILOT_EVENT"] != event || env["PINTA_COPILOT_SOURCE"] != "user" || env["PINTA_GUARD_DISABLED"] != "0" {
				t.Errorf("%s: env %v", event, env)
			}
			if _, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(e["bash"].(string)), ""); err != nil {
				t.Errorf("%s: launcher doesn't parse: %v", event, err)
			}
		}
	}
	m := managed()
	m.Hook = "/home/\xff/pinta-hook"
	if _, err := m.userFile(); err == nil {
		t.Error("a path that no hook file can name is accepted")
	}
}

// TestPolicyFileRules: the CLI skips a policy file with any top-level key but
// these, and with it the guard of the whole machine.
func TestPolicyFileRules(t *testing.T) {
	for _, windows := range []bool{false, true} {
		data, err := managed().policyFile(windows)
		must(t, err)
		var f map[string]json.RawMessage
		must(t, json.Unmarshal(data, &f))
		for key := range f {
			if key != "version" && key != "hooks" {
				t.Errorf("windows %v: top-level key %q", windows, key)
			}
		}
		newer := strings.ReplaceAll(string(data), `"schema": 1`, `"schema": 2`)
		for content, want := range map[string]Origin{string(data): Ours, newer: OursNewer, strings.ReplaceAll(string(data), owner, "rival"): Foreign} {
			if got := originOf([]byte(content), nil); got != want {
				t.Errorf("windows %v: origin %s, want %s of\n%s", windows, got, want, content[:400])
			}
		}
	}
}

// TestUnmanagedEntryHoldsNoSettings: without a Manager the user's own env file
// decides.
func TestUnmanagedEntryHoldsNoSettings(t *testing.T) {
	d := Desired{Endpoints: Endpoints{"http://127.0.0.1:1/g", "http://127.0.0.1:1/t"}}
	if env := d.registration("user").Env; len(env) != 0 {
		t.Errorf("entry holds %v", env)
	}
}

func TestOriginOf(t *testing.T) {
	want, err := managed().userFile()
	must(t, err)
	older := managed()
	older.Version, older.Hook = "1.0.0", "/opt/old/pinta-hook"
	stale, err := older.userFile()
	must(t, err)
	for _, c := range []struct {
		name, content string
		origin        Origin
	}{
		{"ours", string(want), Ours},
		{"empty file left by a full disk", "", Ours},
		{"ours cut off", string(want[:100]), Ours},
		{"ours of another version", string(stale), Ours},
		{"ours with a newer schema", strings.Replace(string(want), `"schema": 1`, `"schema": 2`, 1), OursNewer},
		{"Node adapter", read(t, "testdata/reports/R57.json"), OldNode},
		{"array of hooks", read(t, "testdata/reports/R51.json"), Foreign},
		{"bad entries", read(t, "testdata/reports/R52.json"), Foreign},
		{"BOM", read(t, "testdata/reports/R54.json"), Foreign},
		{"UTF-16", read(t, "testdata/reports/R54.utf16.json"), Foreign},
		{"another tool's truncated file", read(t, "testdata/reports/R112.json"), Foreign},
		{"not JSON", "hello", Foreign},
		{"somebody else's mark", `{"x-pinta":{"owner":"rival","schema":1}}`, Foreign},
	} {
		if got := originOf([]byte(c.content), want); got != c.origin {
			t.Errorf("%s: %s, want %s", c.name, got, c.origin)
		}
	}
	if !namesOtherHook(stale, managed().Hook) || namesOtherHook(want, managed().Hook) {
		t.Error("a stale path isn't told from ours")
	}
}

func TestCommandsIn(t *testing.T) {
	got := commandsIn([]byte(`{"hooks":{"A":[{"bash":"x"},null,7,{"command":{"no":1}},{"exec":"/bin/y","args":["-c","z"]}],"B":null,"C":{}}}`))
	texts := []string{}
	for _, c := range got {
		texts = append(texts, c.Text)
	}
	if !slices.Equal(texts, []string{"x", "/bin/y", "-c z"}) {
		t.Errorf("%q", texts)
	}
}

// TestPowerShellText holds the text to the rules of installer.md 1, since no
// PowerShell can be run here: it is read as PowerShell reads it, and everything
// outside of single-quoted strings must come from a short list.
func TestPowerShellText(t *testing.T) {
	for _, path := range append([]string{`C:\Program Files\Pinta\Agent\pinta-hook.exe`, `C:\Users\A&B 100%\x.exe`, "C:\\Users\\\u201ao\u2019demo\u201b\\x.exe"}, hostileNames...) {
		text := PowerShell(path)
		for _, never := range []string{`"`, "$input", "&&", "||", ".ps1", "[Console]", "::", "New-Object", "Add-Type", "\n\n"} {
			if never != `"` && strings.Contains(text, never) && !strings.Contains(path, never) || never == `"` && strings.Contains(text, `"`) && !strings.Contains(path, `"`) {
				t.Errorf("%q: text holds %s", path, never)
			}
		}
		strs, code := psSplit(t, text)
		if len(strs) == 0 || strs[0] != path {
			t.Errorf("PowerShell would read the path as %q, want %q", strs[0], path)
		}
		if !strings.HasSuffix(code, "exit 0") {
			t.Errorf("text doesn't end in exit 0: %s", code)
		}
		for _, word := range strings.FieldsFunc(code, func(r rune) bool { return strings.ContainsRune(" (){};,=+", r) }) {
			if !slices.Contains([]string{"$p", "$w", "$LASTEXITCODE", "try", "catch", "if", "elseif", "else", "Test-Path", "-LiteralPath", "-PathType", "Leaf", "&",
				"-eq", "-and", "-ne", "0", "Split-Path", "Write-Error", "-ErrorAction", "Continue", "-Message", "exit", "STR"}, word) {
				t.Errorf("%q: unexpected word %q", path, word)
			}
		}
		if n := strings.Count(code, "{") - strings.Count(code, "}"); n != 0 {
			t.Errorf("%q: braces don't match (%d)", path, n)
		}
	}
}

// psSplit separates single-quoted strings, decoded, from the rest, in which
// each stands as STR. PowerShell takes four further characters for a quote.
func psSplit(t *testing.T, text string) (strs []string, code string) {
	t.Helper()
	quote := func(r rune) bool { return strings.ContainsRune("'\u2018\u2019\u201a\u201b", r) }
	rs := []rune(text)
	var b strings.Builder
	for i := 0; i < len(rs); i++ {
		if !quote(rs[i]) {
			b.WriteRune(rs[i])
			continue
		}
		var s []rune
		for i++; ; i++ {
			if i >= len(rs) {
				t.Fatalf("string isn't closed in %q", text)
			}
			if quote(rs[i]) {
				if i+1 < len(rs) && quote(rs[i+1]) {
					s = append(s, rs[i])
					i++
					continue
				}
				break
			}
			s = append(s, rs[i])
		}
		strs = append(strs, string(s))
		b.WriteString("STR")
	}
	return strs, b.String()
}

func FuzzOriginOf(f *testing.F) {
	for _, n := range []string{"R49", "R51", "R52", "R57", "R64"} {
		b, err := os.ReadFile("testdata/reports/" + n + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	want, _ := managed().userFile()
	f.Fuzz(func(t *testing.T, b []byte) {
		originOf(b, want)
		namesOtherHook(b, "/usr/lib/pinta-agent/pinta-hook")
		plainJSON(b)
	})
}
