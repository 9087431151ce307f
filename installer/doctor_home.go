package installer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Check is what a worker needs to know to examine a home.
type Check struct {
	Hook    string    `json:"hook"`    // registered path
	Hosts   []Process `json:"hosts"`   // this user's running clients
	Machine bool      `json:"machine"` // policy hooks are in force as well
	Off     bool      `json:"off"`     // user hooks aren't wanted, or switched off for the machine
	Policy  time.Time `json:"policy"`  // when the policy hooks were written
	Canary  bool      `json:"canary"`  // run the registered command
	Now     time.Time `json:"now"`
}

// examiner collects findings about one Copilot home.
type examiner struct {
	sys      System
	r        HomeRequest
	findings []Finding
	facts    Facts
}

// examineHome looks for what keeps the hooks of one Copilot home from working
// though our own files are right.
func examineHome(ctx context.Context, sys System, r HomeRequest) ([]Finding, *Facts) {
	x := &examiner{sys: sys, r: r}
	x.settings()
	x.registrations()
	x.plugins()
	x.environment()
	x.editor()
	x.sessions()
	if x.facts.Unguarded = x.facts.OlderSessions; (x.facts.Disabled || x.r.Check.Off) && !x.r.Check.Machine {
		x.facts.Unguarded = len(x.r.Check.Hosts)
	}
	x.folders()
	if r.Check.Canary {
		x.canary(ctx)
	}
	return x.findings[:min(len(x.findings), maxFindings)], &x.facts
}

func (x *examiner) add(id string, sev Severity, path, detail, remedy string) {
	object, _, _ := strings.Cut(id, ".")
	x.findings = append(x.findings, Finding{ID: id, Severity: sev, Object: object, User: x.r.User.Name, Path: path, Detail: detail, Remedy: remedy})
}

const maxSettings = 4 << 20

// object reads a JSON or JSONC object.
func (x *examiner) object(path string) map[string]json.RawMessage {
	data, err := x.sys.ReadFile(path, maxSettings)
	if err != nil {
		return nil
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(plainJSON(data), &m) != nil {
		return nil
	}
	return m
}

func isTrue(raw json.RawMessage) bool  { return string(raw) == "true" }
func isFalse(raw json.RawMessage) bool { return string(raw) == "false" }

// maxTrusted is how many trusted repositories are looked into.
const maxTrusted = 200

// settings looks at switches that keep user hooks from running.
func (x *examiner) settings() {
	off := func(id, path, key string) {
		sev := Warning // policy hooks go on
		if !x.r.Check.Machine {
			sev = Error
		}
		x.facts.Disabled = true
		x.add(id, sev, path, key+" switches user hooks off", "take "+key+" out of this file")
	}
	for _, name := range []string{"settings.json", "config.json"} {
		path := filepath.Join(x.r.Home, name)
		m := x.object(path)
		if isTrue(m["disableAllHooks"]) {
			// Measured: it stops the inline hooks of that file only, but VS Code
			// and other versions may read it otherwise.
			x.add("shadowed.disable-all-hooks", Warning, path, "disableAllHooks is set here", "take disableAllHooks out of this file")
		}
		if isTrue(m["allowManagedHooksOnly"]) {
			off("shadowed.managed-hooks-only", path, "allowManagedHooksOnly")
		}
	}
	var trusted []string
	for _, key := range []string{"trustedFolders", "trusted_folders"} {
		var list []string
		if json.Unmarshal(x.object(filepath.Join(x.r.Home, "config.json"))[key], &list) == nil {
			trusted = append(trusted, list...)
		}
	}
	for _, repo := range trusted[:min(len(trusted), maxTrusted)] {
		for _, name := range []string{".github/copilot/settings.json", ".github/copilot/settings.local.json", ".claude/settings.json", ".claude/settings.local.json"} {
			if path := filepath.Join(repo, filepath.FromSlash(name)); filepath.IsAbs(path) && isTrue(x.object(path)["disableAllHooks"]) {
				off("shadowed.disable-all-hooks", path, "disableAllHooks")
			}
		}
	}
}

// ourJob matches commands that do the job of our hook.
var ourJob = regexp.MustCompile(`(?i)pinta-hook|pinta-agent|pinta-copilot|\.pinta[/\\]`)

const maxHookFiles = 500

// registrations looks for other registrations of our job: each one judges and
// counts every call once more.
func (x *examiner) registrations() {
	ours := filepath.Join(x.r.Home, "hooks", hookFileName)
	report := func(path string) {
		data, err := x.sys.ReadFile(path, maxSettings)
		if err != nil || path == ours {
			return
		}
		for _, c := range commandsIn(plainJSON(data)) {
			if oldNode.MatchString(c.Text) && ourJob.MatchString(c.Text) {
				x.add("duplicated.old-adapter", Warning, path, "registers the Node adapter for "+c.Event+" besides "+ours, "remove this registration")
				return
			}
			if ourJob.MatchString(c.Text) {
				x.add("duplicated.registration", Warning, path, "registers the same job for "+c.Event+" as "+ours, "remove this registration")
				return
			}
		}
	}
	left := maxHookFiles
	var walk func(dir string, depth int)
	walk = func(dir string, depth int) { // hosts read the folder recursively
		names, err := x.sys.Names(dir)
		if err != nil || depth > 8 {
			return
		}
		slices.Sort(names)
		for _, n := range names {
			path := filepath.Join(dir, n)
			if left--; left < 0 {
				return
			}
			if i, err := x.sys.Lstat(path); err == nil && i.Type == fs.ModeDir {
				walk(path, depth+1)
			} else if err == nil && strings.HasSuffix(n, ".json") {
				report(path)
			}
		}
	}
	walk(filepath.Join(x.r.Home, "hooks"), 0)
	report(filepath.Join(x.r.Home, "settings.json"))
	report(filepath.Join(x.r.Home, "config.json"))
}

// plugins names installed plugins whose folder is gone: a session that has one
// can't start a shell there and denies every tool.
func (x *examiner) plugins() {
	for _, name := range []string{"config.json", "settings.json"} {
		path := filepath.Join(x.r.Home, name)
		m := x.object(path)
		for _, key := range []string{"installedPlugins", "installed_plugins"} {
			var list []struct {
				Name   string `json:"name"`
				Cache  string `json:"cache_path"`
				Cache2 string `json:"cachePath"`
			}
			if json.Unmarshal(m[key], &list) != nil {
				continue
			}
			for _, p := range list {
				dir := p.Cache
				if dir == "" {
					dir = p.Cache2
				}
				if !filepath.IsAbs(dir) {
					continue
				}
				if _, err := x.sys.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
					x.add("plugin.root-gone", Warning, path, fmt.Sprintf("plugin %q is installed in %s, which is gone: sessions that use it deny every tool", p.Name, dir),
						"copilot plugin uninstall "+quoted(p.Name)+", then restart Copilot")
				}
			}
		}
	}
}

// switches are variables that change what hooks do when a user exports them.
var switches = []string{"COPILOT_HOME", "BASH_ENV", "PINTA_GUARD_DISABLED", "PINTA_GUARD_ENDPOINT", "COPILOT_PLUGIN_OPTION_ENDPOINT"}

// environment looks at what the user's start-up files export.
func (x *examiner) environment() {
	set := userSettings(x.sys, x.r.User.Home, switches...)
	for _, name := range switches {
		s, ok := set[name]
		if !ok {
			continue
		}
		switch name {
		case "COPILOT_HOME":
			known := x.r.User.CopilotHome
			if s.Value == "" || s.Value == known || s.Value == filepath.Join(x.r.User.Home, ".copilot") || s.Value == knownCopilotHome(x.sys, x.r.User.Home) {
				continue
			}
			x.add("shadowed.copilot-home", Error, s.Path, "COPILOT_HOME is set to "+s.Value+", which isn't a literal path: Copilot reads its hooks there and not in ~/.copilot",
				"set COPILOT_HOME to a literal absolute path, so that hooks can be registered there")
		case "BASH_ENV":
			x.add("environment.bash-env", Notice, s.Path, "BASH_ENV is set: what that file prints spoils the answers of other hooks; our entries don't read it",
				"unset BASH_ENV, or see that the file prints nothing")
		default:
			x.add("environment.override", Notice, s.Path, name+" is exported; managed entries override it", "take it out of the file")
		}
	}
	if m := x.object(filepath.Join(x.r.Home, "settings.json")); m["bashEnv"] != nil && string(m["bashEnv"]) != "false" && string(m["bashEnv"]) != `"off"` {
		x.add("environment.bash-env", Notice, filepath.Join(x.r.Home, "settings.json"), "the bashEnv setting makes shells read BASH_ENV", "set it to false unless it is needed")
	}
	data, _ := x.sys.ReadFile(filepath.Join(x.r.Home, envFileName), maxRegistration)
	rest, _ := bytes.CutPrefix(data, bom)
	for _, l := range splitLines(rest) {
		switch k, v := l.split(); {
		case k == "PINTA_GUARD_DISABLED" && v == "1":
			x.add("environment.override", Notice, filepath.Join(x.r.Home, envFileName), "PINTA_GUARD_DISABLED=1 in the env file; managed entries override it", "take the line out")
		case isManaged(k) && placeholder.MatchString(v):
			x.add("env-file.placeholder", Warning, filepath.Join(x.r.Home, envFileName), k+" holds a placeholder", "put the real value there")
		}
	}
}

// placeholder is a value that was copied from a manual and never filled in.
var placeholder = regexp.MustCompile(`(?i)\byour[-_ ]|\bexample\.com\b|<[a-z -]+>|paste .* here|changeme`)

// editorSettings are the user settings of VS Code and its variants, below the
// home.
var editorSettings = []string{
	".config/%s/User/settings.json", "Library/Application Support/%s/User/settings.json", "AppData/Roaming/%s/User/settings.json",
}

// editor looks at VS Code's own switches.
func (x *examiner) editor() {
	for _, pattern := range editorSettings {
		for _, product := range []string{"Code", "Code - Insiders", "VSCodium"} {
			path := filepath.Join(x.r.User.Home, filepath.FromSlash(fmt.Sprintf(pattern, product)))
			m := x.object(path)
			for _, key := range []string{"chat.useHooks", "chat.useChatHooks"} {
				if isFalse(m[key]) {
					x.add("shadowed.editor-setting", Warning, path, key+" is false: the editor runs no hooks", "take the setting out")
				}
			}
			var places map[string]bool
			if json.Unmarshal(m["chat.hookFilesLocations"], &places) == nil {
				if on, ok := places["~/.copilot/hooks"]; ok && !on {
					x.add("shadowed.editor-setting", Warning, path, "chat.hookFilesLocations switches ~/.copilot/hooks off", "set it to true there")
				}
			}
		}
	}
}

const (
	maxSessions    = 2000
	maxSessionHead = 64 << 10
)

// sessions reads the versions of the clients that were used, from the first
// record of the newest sessions, and counts those that began before the hook
// file was written.
func (x *examiner) sessions() {
	written, registered := x.r.Check.Policy, x.r.Check.Machine
	if i, err := x.sys.Lstat(filepath.Join(x.r.Home, "hooks", hookFileName)); err == nil {
		written, registered = i.ModTime, true
	}
	for _, p := range x.r.Check.Hosts {
		if !registered || p.Started.Before(written) {
			x.facts.OlderSessions++
		}
	}
	if n := x.facts.OlderSessions; n > 0 && registered { // else the plan says that it is missing
		x.add("session.older", Notice, "", fmt.Sprintf("%d running clients began before the hook file was written (%s)", n, written.UTC().Format(time.RFC3339)),
			"restart Copilot CLI, reload the VS Code window")
	}
	dir := filepath.Join(x.r.Home, "session-state")
	names, err := x.sys.Names(dir)
	if err != nil {
		return
	}
	type seen struct {
		path string
		at   time.Time
	}
	var all []seen
	for _, n := range names[:min(len(names), maxSessions)] {
		path := filepath.Join(dir, n, "events.jsonl")
		if i, err := x.sys.Lstat(path); err == nil && i.Type == 0 {
			all = append(all, seen{path, i.ModTime})
		}
	}
	slices.SortFunc(all, func(a, b seen) int { return b.at.Compare(a.at) })
	known := map[string]bool{}
	for _, s := range all[:min(len(all), 20)] {
		v := x.sessionVersion(s.path)
		if v == "" || known[v] || len(x.facts.Clients) >= maxClients {
			continue
		}
		known[v] = true
		x.facts.Clients = append(x.facts.Clients, Client{Kind: "copilot-cli", Version: v, Seen: s.at.UTC()})
		for _, gap := range clientGaps {
			if older(v, gap.before) {
				x.add("client."+gap.id, gap.severity, "", "Copilot CLI "+v+" "+gap.detail, "update Copilot CLI to "+gap.before+" or later")
			}
		}
	}
}

// sessionVersion is copilotVersion of the session's first record.
func (x *examiner) sessionVersion(path string) string {
	head, err := x.sys.ReadHead(path, maxSessionHead)
	if err != nil {
		return ""
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	var rec struct {
		Type string `json:"type"`
		Data struct {
			Version string `json:"copilotVersion"`
		} `json:"data"`
	}
	if json.Unmarshal(first, &rec) != nil || rec.Type != "session.start" || len(rec.Data.Version) > 64 {
		return ""
	}
	return rec.Data.Version
}

// clientGaps are what older clients ignore of what we rely on (host.md).
var clientGaps = []struct {
	id, before, detail string
	severity           Severity
}{
	{"no-output-guard", "1.0.57", "ignores modifiedResult: tool output can't be masked or withheld", Error},
	{"drops-file", "1.0.71", "drops a whole hook file for one bad entry", Warning},
	{"no-policy", "1.0.57", "reads no machine policy hooks: only the user entry counts", Notice},
}

// older compares dotted versions; what isn't a number counts as 0.
func older(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		if m, n := number(x, i), number(y, i); m != n {
			return m < n
		}
	}
	return false
}

func number(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	digits, _, _ := strings.Cut(parts[i], "-")
	n, _ := strconv.Atoi(digits)
	return n
}

// folders looks at who else may change what the host reads.
func (x *examiner) folders() {
	for _, dir := range []string{x.r.Home, filepath.Join(x.r.Home, "hooks")} {
		if i, err := x.sys.Lstat(dir); err == nil && i.Type == fs.ModeDir && i.UID >= 0 && i.Perm&0o002 != 0 {
			x.add("folder.writable", Warning, dir, "everybody may change what is in this folder (mode "+octal(i.Perm)+")", "chmod o-w "+quoted(dir))
		}
	}
	if noexec(x.r.Check.Hook) {
		x.add("hook-binary.noexec", Error, x.r.Check.Hook, "the hook binary lies on a file system mounted noexec", "set hookDir to a folder where programs may run")
	}
}
