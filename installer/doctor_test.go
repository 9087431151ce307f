package installer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/installer/users"
)

// doctorCases: what is wrong, and the finding that says so.
var doctorCases = []struct {
	id       string
	severity Severity
	fixable  bool
	do       func(t *testing.T, b *bench)
}{
	{"hook-file.absent", Error, true, func(t *testing.T, b *bench) { must(t, os.Remove(b.hookFile("u"))) }},
	{"hook-binary.not-executable", Error, true, func(t *testing.T, b *bench) { must(t, os.Chmod(b.d.Layout.HookBinary, 0o644)) }},
	{"policy-file.foreign", Error, true, func(t *testing.T, b *bench) { write(t, b.d.Layout.PolicyFile(), "{}", 0o644) }},
	{"env-file.wrong-mode", Warning, true, func(t *testing.T, b *bench) { must(t, os.Chmod(b.envFile("u"), 0o644)) }},
	{"shadowed.disable-all-hooks", Warning, false, func(t *testing.T, b *bench) {
		write(t, b.home("u", ".copilot", "settings.json"), read(t, "testdata/reports/R61.json"), 0o644)
	}},
	{"shadowed.disable-all-hooks", Warning, false, func(t *testing.T, b *bench) { // a trusted repository switches user hooks off
		repo := b.home("u", "src", "repo")
		write(t, filepath.Join(repo, ".github", "copilot", "settings.local.json"), "{\n// off\n\"disableAllHooks\": true,\n}", 0o644)
		write(t, b.home("u", ".copilot", "config.json"), fmt.Sprintf(`{"trustedFolders":[%q]}`, repo), 0o644)
	}},
	{"shadowed.disable-all-hooks", Error, false, func(t *testing.T, b *bench) { // and no policy hooks go on
		repo := b.home("u", "repo")
		write(t, filepath.Join(repo, ".claude", "settings.json"), `{"disableAllHooks":true}`, 0o644)
		write(t, b.home("u", ".copilot", "config.json"), fmt.Sprintf(`{"trusted_folders":[%q]}`, repo), 0o644)
		b.d.Hooks.Machine = false
		b.apply()
	}},
	{"shadowed.managed-hooks-only", Notice, false, func(t *testing.T, b *bench) {
		write(t, filepath.Join(b.root, "etc", "github-copilot", "managed-settings.json"), `{"allowManagedHooksOnly":true}`, 0o644)
	}},
	{"shadowed.managed-hooks-only", Error, false, func(t *testing.T, b *bench) {
		write(t, filepath.Join(b.root, "etc", "github-copilot", "managed-settings.json"), `{"allowManagedHooksOnly":true}`, 0o644)
		b.d.Hooks.Machine = false
		b.apply()
	}},
	{"shadowed.copilot-home", Error, false, func(t *testing.T, b *bench) {
		write(t, b.home("u", ".zshrc"), "export COPILOT_HOME=$(mktemp -d)\n", 0o644)
	}},
	{"shadowed.editor-policy", Warning, false, func(t *testing.T, b *bench) {
		write(t, filepath.Join(b.root, "etc", "vscode", "policy.json"), `{"ChatHooks": false}`, 0o644)
	}},
	{"shadowed.editor-setting", Warning, false, func(t *testing.T, b *bench) {
		write(t, b.home("u", ".config", "Code", "User", "settings.json"), "{ /* mine */ \"chat.useHooks\": false, }", 0o644)
	}},
	{"duplicated.registration", Warning, false, func(t *testing.T, b *bench) {
		write(t, b.home("u", ".copilot", "hooks", "sub", "other.json"), read(t, "testdata/reports/R56.a.json"), 0o644)
	}},
	{"duplicated.registration", Warning, false, func(t *testing.T, b *bench) { // a leftover where hooks don't belong
		write(t, b.home("u", ".copilot", "config.json"), read(t, "testdata/reports/R59.json"), 0o644)
	}},
	{"duplicated.old-adapter", Warning, false, func(t *testing.T, b *bench) {
		write(t, b.home("u", ".copilot", "hooks", "old.json"), read(t, "testdata/reports/R57.json"), 0o644)
	}},
	{"plugin.root-gone", Warning, false, func(t *testing.T, b *bench) {
		write(t, b.home("u", ".copilot", "config.json"), fmt.Sprintf(`{"installedPlugins":[{"name":"p","cache_path":%q}]}`, b.home("u", ".copilot", "installed-plugins", "p")), 0o644)
	}},
	{"environment.bash-env", Notice, false, func(t *testing.T, b *bench) {
		write(t, b.home("u", ".config", "environment.d", "x.conf"), "BASH_ENV=/home/u/x\n", 0o644)
	}},
	{"environment.override", Notice, false, func(t *testing.T, b *bench) {
		write(t, b.home("u", ".config", "fish", "config.fish"), "set -gx PINTA_GUARD_DISABLED 1\n", 0o644)
	}},
	{"session.older", Notice, false, func(t *testing.T, b *bench) {
		uid := b.d.Users[0].UID
		b.host.Hosts = func() []Process { return []Process{{PID: 7, UID: uid, Started: time.Now().Add(-time.Hour)}} }
	}},
	{"client.no-output-guard", Error, false, session("1.0.49")},
	{"client.drops-file", Warning, false, session("1.0.57")},
	{"client.no-policy", Notice, false, session("1.0.49")},
	{"folder.writable", Warning, false, func(t *testing.T, b *bench) { must(t, os.Chmod(b.home("u", ".copilot", "hooks"), 0o777)) }},
	{"canary.run", Error, false, func(_ *testing.T, b *bench) {
		b.host.Homes = memoryHomes{noPrograms{Home(b.home("u"), b.d.Users[0].UID)}}
	}},
	{"canary.exit", Error, false, launcher("exit 3")},
	{"canary.stdout", Error, false, launcher("echo noise; exit 0")},
	{"canary.denied", Warning, false, image(`#!/bin/sh
read l; [ -n "$l" ] && printf '{"hookSpecificOutput":{"permissionDecision":"deny"}}'; exit 0
`)},
	{"canary.warning", Warning, false, image("#!/bin/sh\nread l; [ -n \"$l\" ] && echo 'pinta-copilot: guard: refused' >&2; exit 0\n")},
	{"canary.slow", Warning, false, image("#!/bin/sh\nread l; [ -n \"$l\" ] && sleep 1.1; exit 0\n")},
	{"home.skipped", Warning, false, func(t *testing.T, b *bench) { must(t, os.Rename(b.home("u"), filepath.Join(b.root, "away"))) }},
	{"account.missing", Warning, false, func(_ *testing.T, b *bench) {
		b.d.Layout.Root, b.d.Layout.Account = "", "no-such-account" // the account database is the machine's
	}},
	{"users.none", Error, false, func(t *testing.T, b *bench) { b.d.Users = nil }},
	{"env-file.placeholder", Warning, false, func(t *testing.T, b *bench) {
		b.d.Endpoints.Traces = "https://your-collector.example.com/v1/traces"
		b.apply()
	}},
	{"policy-file.wrong-mode", Error, true, func(t *testing.T, b *bench) { must(t, os.Chmod(b.d.Layout.PolicyFile(), 0o666)) }},
	{"policy-folder.untrusted", Error, false, func(t *testing.T, b *bench) { must(t, os.Chmod(b.d.Layout.PolicyDir, 0o777)) }},
}

// noPrograms is a home in which nothing may be started.
type noPrograms struct{ System }

func (noPrograms) Exec(_ context.Context, c Command) (Output, error) {
	return Output{}, fail("exec", c.Path, fs.ErrPermission)
}

func session(version string) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) {
		write(t, b.home("u", ".copilot", "session-state", "x", "events.jsonl"),
			`{"type":"session.start","data":{"copilotVersion":"`+version+`"}}`+"\n"+strings.Repeat("x", 1<<20), 0o644)
	}
}

// launcher replaces the registered command text.
func launcher(text string) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) {
		var f map[string]any
		must(t, json.Unmarshal([]byte(read(t, b.hookFile("u"))), &f))
		f["hooks"].(map[string]any)["PreToolUse"].([]any)[0].(map[string]any)["bash"] = text
		out, err := json.Marshal(f)
		must(t, err)
		write(t, b.hookFile("u"), string(out), 0o644)
	}
}

func image(text string) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) {
		write(t, b.d.Image.Beside, text, 0o755)
		b.apply()
	}
}

func TestDoctorFindings(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range doctorCases {
		seen[c.id] = true
		t.Run(c.id, func(t *testing.T) {
			b := newBench(t, "u")
			b.apply()
			c.do(t, b)
			before := tree(t, b.root)
			d, err := Doctor(context.Background(), b.host, b.d)
			must(t, err)
			i := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.ID == c.id && f.Severity == c.severity })
			if i < 0 {
				t.Fatalf("not found; there is %+v", d.Findings)
			}
			f := d.Findings[i]
			if f.Fixable != c.fixable || f.Detail == "" || f.Remedy == "" || f.Object == "" {
				t.Errorf("%+v", f)
			}
			if d.Broken() != slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Severity == Error }) {
				t.Error("Broken is wrong")
			}
			sameTree(t, tree(t, b.root), before) // it changes nothing
			if f.Fixable {
				b.apply()
				d, err = Doctor(context.Background(), b.host, b.d)
				must(t, err)
				if slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.ID == c.id }) {
					t.Error("repair didn't fix it")
				}
			}
		})
	}
	// These have tests of their own: TestNoexecIsFound, TestPowerShell.
	seen["hook-binary.noexec"], seen["powershell.restricted"] = true, true
	doc := read(t, "../docs/drift.md")
	for id := range seen {
		object, kind, _ := strings.Cut(id, ".")
		if !strings.Contains(doc, "`"+id+"`") && !slices.Contains(Kinds, Kind(kind)) {
			t.Errorf("%s (of %s) isn't in docs/drift.md", id, object)
		}
	}
	_, further, _ := strings.Cut(doc, "Further findings of `doctor`:")
	further, _, _ = strings.Cut(further, "Of the service")
	for _, quoted := range strings.Split(further, "`") {
		if strings.Contains(quoted, ".") && !strings.ContainsAny(quoted, " \n") && !seen[quoted] {
			t.Errorf("%s is in docs/drift.md and has no case", quoted)
		}
	}
}

// TestAccountThere: the account that packages make is no finding.
func TestAccountThere(t *testing.T) {
	b := newBench(t, "u")
	me, err := user.Current()
	must(t, err)
	b.d.Layout.Root, b.d.Layout.Account = "", me.Username
	if f := machineFindings(b.host, b.d); slices.ContainsFunc(f, func(f Finding) bool { return f.ID == "account.missing" }) {
		t.Errorf("%+v", f)
	}
}

// TestPowerShell is about facts that only Windows has.
func TestPowerShell(t *testing.T) {
	for _, c := range []struct {
		found    bool
		lockdown string
		want     []Severity
	}{
		{true, "", nil}, {true, "0", nil}, {true, "4", []Severity{Notice}},
		{false, "", []Severity{Error}}, {false, "8", []Severity{Error, Notice}},
	} {
		var got []Severity
		for _, f := range powerShell(`C:\ps.exe`, c.found, c.lockdown) {
			if got = append(got, f.Severity); f.ID != "powershell.restricted" || f.Detail == "" || f.Remedy == "" || f.Path == "" || f.Fixable {
				t.Errorf("%+v", f)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("found %v, lockdown %q: %v, want %v", c.found, c.lockdown, got, c.want)
		}
	}
}

func TestDoctorIsCleanAfterInstall(t *testing.T) {
	b := newBench(t, "u")
	b.apply()
	d, err := Doctor(context.Background(), b.host, b.d)
	must(t, err)
	if len(d.Findings) > 0 || d.Broken() {
		t.Errorf("%+v", d.Findings)
	}
	if f := d.Facts["u"]; f.CanaryMs <= 0 {
		t.Errorf("no canary ran: %+v", f)
	}
}

// TestWatchReportsShadowing: what is reported rather than repaired is found
// while watching, without a canary.
func TestWatchReportsShadowing(t *testing.T) {
	b := newBench(t, "u", "v")
	b.apply()
	found := make(chan []Finding, 100)
	b.watching(WatchOptions{AuditEvery: time.Hour, Found: func(f []Finding, _ map[string]Facts) { found <- f }})
	expect := func(want ...string) {
		t.Helper()
		end := time.After(2 * time.Second)
		var last []string
		for {
			select {
			case f := <-found:
				last = nil
				for _, x := range f {
					last = append(last, x.User+" "+x.ID)
				}
				slices.Sort(last)
				if slices.Equal(last, want) {
					return
				}
			case <-end:
				t.Fatalf("last findings %q, want %q", last, want)
			}
		}
	}
	write(t, b.home("u", ".copilot", "settings.json"), `{"disableAllHooks":true}`, 0o644)
	expect("u shadowed.disable-all-hooks")
	write(t, b.home("v", ".copilot", "hooks", "x.json"), read(t, "testdata/reports/R56.b.json"), 0o644)
	expect("u shadowed.disable-all-hooks", "v duplicated.registration")
	must(t, os.Remove(b.home("u", ".copilot", "settings.json")))
	expect("v duplicated.registration")
}

// TestHostileWorkerAnswers: what a user's own worker may say (security.md S16).
func TestHostileWorkerAnswers(t *testing.T) {
	ask := HomeRequest{Verb: PlanHome, Items: []Item{{Object: HookFile, Path: "/home/u/.copilot/hooks/" + hookFileName}}}
	step := `{"object":"hook-file","path":"/home/u/.copilot/hooks/pinta-copilot.json","kind":"absent","foundUid":1`
	for _, c := range []struct{ name, line, says string }{
		{"fine", `{"steps":[` + step + `}],"before":{"/home/u/.copilot":"absent"}}`, ""},
		{"not JSON", `hello`, "can't be read"},
		{"unknown field", `{"exec":"/bin/sh"}`, "can't be read"},
		{"two values", `{}{}`, "can't be read"},
		{"another path", `{"steps":[{"object":"hook-file","path":"/etc/passwd","kind":"absent","foundUid":0}]}`, "wasn't asked"},
		{"another object", `{"steps":[{"object":"policy-file","path":"/home/u/.copilot/hooks/pinta-copilot.json","kind":"absent","foundUid":0}]}`, "wasn't asked"},
		{"unknown kind", `{"steps":[{"object":"hook-file","path":"/home/u/.copilot/hooks/pinta-copilot.json","kind":"fine","foundUid":0}]}`, "wasn't asked"},
		{"before of another path", `{"before":{"/etc/passwd":"absent"}}`, "wasn't asked"},
		{"before of another kind", `{"before":{"/home/u/.copilot":"../../x"}}`, "wasn't asked"},
		{"too many steps", `{"steps":[` + strings.TrimSuffix(strings.Repeat(step+`},`, maxSteps+1), ",") + `]}`, "out of bounds"},
	} {
		_, err := decodeAnswer([]byte(c.line), ask)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	a, err := decodeAnswer([]byte(`{"steps":[`+step+`,"detail":"a\nb\u001b[2J","error":"x"}],"findings":[{"id":"x\n","severity":"panic","object":"","detail":"","remedy":"","fixable":true}],
		"copilotHome":"relative","facts":{"olderSessions":-5,"clients":[{"kind":"a\u0000","version":"1"}]}}`), ask)
	must(t, err)
	if s := a.Steps[0]; s.Detail != "a b [2J" || s.FoundUID != 1 {
		t.Errorf("%+v", s)
	}
	if f := a.Findings[0]; f.ID != "x " || f.Severity != Warning || f.Fixable {
		t.Errorf("%+v", f)
	}
	if a.CopilotHome != "" || a.Facts.OlderSessions != 0 || a.Facts.Clients[0].Kind != "a " {
		t.Errorf("%+v %+v", a, a.Facts)
	}
	_ = users.Max
}

func FuzzWorkerAnswer(f *testing.F) {
	f.Add([]byte(`{"steps":[{"object":"hook-file","path":"/h/.copilot/hooks/pinta-copilot.json","kind":"absent","ops":[{"verb":"write","path":"x"}],"foundUid":1}],"facts":{"clients":[{}]}}`))
	ask := HomeRequest{Items: []Item{{Object: HookFile, Path: "/h/.copilot/hooks/" + hookFileName}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAnswer(b, ask)
		if err != nil {
			return
		}
		for _, s := range a.Steps {
			if s.Path != ask.Items[0].Path || strings.ContainsAny(s.Detail+s.Error, "\n\x1b") {
				t.Errorf("%+v", s)
			}
		}
	})
}

func TestOlderVersions(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"1.0.49", "1.0.57", true}, {"1.0.57", "1.0.57", false}, {"1.0.102", "1.0.57", false}, {"1.0.72-1", "1.0.71", false}, {"1.1", "1.0.102", false}, {"0.0.409", "1.0.57", true}, {"", "1", true}, {"x.y", "1", true}} {
		if got := older(c.a, c.b); got != c.want {
			t.Errorf("%s before %s: %v", c.a, c.b, got)
		}
	}
}

func TestIsHost(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want bool
	}{
		{[]string{"copilot", "-p", "x"}, true}, {[]string{"node", "/usr/lib/node_modules/@github/copilot/index.js"}, true}, {[]string{"/usr/share/code/code", "--type=renderer"}, true},
		{[]string{`C:\Users\x\AppData\Local\Programs\Microsoft VS Code\Code.exe`}, true}, {[]string{"vim", "copilot"}, true}, // kept rather too long
		{[]string{"bash", "-c", "x", "copilot"}, false}, {[]string{"node", "server.js"}, false}, {[]string{""}, false}, {nil, false},
	} {
		if got := isHost(c.argv); got != c.want {
			t.Errorf("%q: %v", c.argv, got)
		}
	}
}

func TestPlainJSON(t *testing.T) {
	for in, want := range map[string]string{
		"{\"a\":1, // x\n}":         "{\"a\":1  \n}",
		`{"a":"// no","b":[1,2,],}`: `{"a":"// no","b":[1,2 ] }`,
		"\xef\xbb\xbf{}":            "{}",
		`{"a":/* , */1}`:            `{"a": 1}`,
		`{"a":"\"//"}`:              `{"a":"\"//"}`,
		`/**/{}`:                    ` {}`,
		`"unclosed`:                 `"unclosed`,
		`/* unclosed`:               ` `,
		`{"a":1,/* x */}`:           `{"a":1  }`,
		`["\\",]`:                   `["\\" ]`,
	} {
		if got := string(plainJSON([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestUnguarded: a running client counts if it began before its hooks were
// written, or where they are off; by user (manager.md 4).
func TestUnguarded(t *testing.T) {
	soon, early := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		started []time.Time
		damage  func(t *testing.T, b *bench)
		want    int
	}{
		"none runs":             {nil, nil, 0},
		"all younger":           {[]time.Time{soon, soon}, nil, 0},
		"one older":             {[]time.Time{early, soon}, nil, 1},
		"no hook file":          {[]time.Time{early, soon}, func(t *testing.T, b *bench) { must(t, os.Remove(b.hookFile("u"))) }, 2},
		"switched off by user":  {[]time.Time{early, soon}, off("u"), 2},
		"switched off by other": {[]time.Time{early, soon}, off("v"), 1},
		"switched off, but policy hooks are in force": {[]time.Time{early, soon}, func(t *testing.T, b *bench) {
			b.d.Hooks.Machine = true
			b.apply()
			off("u")(t, b)
		}, 1},
		"by policy hooks alone": {[]time.Time{early, soon}, func(t *testing.T, b *bench) {
			b.d.Hooks = Hooks{Machine: true}
			b.apply()
		}, 1},
		"hooks not wanted":   {[]time.Time{early, soon}, func(_ *testing.T, b *bench) { b.d.Hooks = Hooks{} }, 2},
		"home can't be read": {[]time.Time{early, soon}, func(_ *testing.T, b *bench) { b.host.Homes = awayHomes{} }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "u", "v")
			b.d.Hooks = Hooks{User: true}
			b.apply()
			for i := range b.d.Users { // below one folder both would be the tester's
				b.d.Users[i].SID = b.d.Users[i].Name
			}
			b.host.Hosts = func() (out []Process) {
				for _, at := range c.started {
					out = append(out, Process{UID: b.d.Users[0].UID, SID: "u", Started: at})
				}
				return out
			}
			if c.damage != nil {
				c.damage(t, b)
			}
			d, err := diagnose(t.Context(), b.host, b.d, false)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Facts["u"].Unguarded; got != c.want || d.Facts["v"].Unguarded != 0 {
				t.Errorf("%d unguarded, want %d; %d of the other", got, c.want, d.Facts["v"].Unguarded)
			}
		})
	}
}

// off has a user's repository switch hooks off.
func off(user string) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) {
		write(t, b.home(user, ".copilot", "config.json"), `{"allowManagedHooksOnly":true}`, 0o644)
	}
}

type awayHomes struct{}

func (awayHomes) Do(context.Context, users.Account, HomeRequest) (HomeAnswer, error) {
	return HomeAnswer{}, errors.New("away")
}

func (awayHomes) Watch(context.Context, users.Account, HomeRequest, func()) error { return nil }

// TestRemediesAreOneCommand: a name that a user chose is one word of the
// command that an administrator may copy.
func TestRemediesAreOneCommand(t *testing.T) {
	for in, want := range map[string]string{
		"/home/u/.copilot/hooks": "/home/u/.copilot/hooks", "/Library/Application Support/x": "'/Library/Application Support/x'",
		"데모": "데모", "": "''", "x; reboot": "'x; reboot'", "$(reboot)": "'$(reboot)'", "it's": `'it'\''s'`, "~u": "'~u'",
	} {
		if got := quoted(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	b := newBench(t, "u")
	b.apply()
	write(t, b.home("u", ".copilot", "config.json"), fmt.Sprintf(`{"installedPlugins":[{"name":"x; reboot","cachePath":%q}]}`, b.home("u", "gone")), 0o600)
	d, err := Doctor(context.Background(), b.host, b.d)
	must(t, err)
	if !slices.ContainsFunc(d.Findings, func(f Finding) bool {
		return f.ID == "plugin.root-gone" && strings.Contains(f.Remedy, "'x; reboot'")
	}) {
		t.Errorf("%+v", d.Findings)
	}
}
