package installer

import (
	"context"
	"encoding/json"
	"os/user"
	"slices"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/installer/users"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// Diagnosis is what doctor found out.
type Diagnosis struct {
	Findings []Finding        `json:"findings"`
	Users    []UserState      `json:"users,omitempty"`
	Facts    map[string]Facts `json:"facts,omitempty"` // by user
}

// Broken says that there is an error among the findings.
func (d Diagnosis) Broken() bool {
	return slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Severity == Error })
}

// Doctor is Verify and more: it looks in each home, as its user, for what
// keeps right files from working, and runs the registered command with a
// canary event.
func Doctor(ctx context.Context, h Host, d Desired) (Diagnosis, error) {
	return diagnose(ctx, h, d, true)
}

func diagnose(ctx context.Context, h Host, d Desired, canary bool) (Diagnosis, error) {
	plan, err := Plan(ctx, h, d)
	if err != nil {
		return Diagnosis{}, err
	}
	out := Diagnosis{Findings: plan.Findings(), Users: plan.Users, Facts: map[string]Facts{}}
	out.Findings = append(out.Findings, machineFindings(h, d)...)
	out.examine(ctx, h, d, plan, canary)
	slices.SortStableFunc(out.Findings, func(a, b Finding) int { return rank(a.Severity) - rank(b.Severity) })
	return out, ctx.Err()
}

func rank(s Severity) int { return slices.Index([]Severity{Error, Warning, Notice}, s) }

// examine asks each home, several at a time.
func (out *Diagnosis) examine(ctx context.Context, h Host, d Desired, plan Changes, canary bool) {
	var hosts []Process
	if h.Hosts != nil {
		hosts = h.Hosts()
	}
	found := make([]HomeAnswer, len(plan.Users))
	var wg sync.WaitGroup
	turn := make(chan struct{}, parallelHomes)
	var policy time.Time
	if file := d.Layout.PolicyFile(); d.Hooks.Machine && file != "" {
		if i, err := h.System.Lstat(file); err == nil {
			policy = i.ModTime
		}
	}
	userHooks := d.Hooks.User && !slices.ContainsFunc(out.Findings, func(f Finding) bool { return f.ID == "shadowed.managed-hooks-only" && f.Severity == Error })
	for i, u := range plan.Users {
		n := slices.IndexFunc(d.Users, func(a users.Account) bool { return a.Name == u.Name })
		if n < 0 {
			continue
		}
		a := d.Users[n]
		check := &Check{Hook: d.Layout.HookBinary, Machine: d.Hooks.Machine && d.Layout.PolicyFile() != "", Canary: canary && d.Hooks.User, Now: h.System.Now(), Off: !userHooks, Policy: policy}
		for _, p := range hosts {
			if p.UID == a.UID && p.SID == a.SID && len(check.Hosts) < maxHosts {
				check.Hosts = append(check.Hosts, p)
			}
		}
		found[i].Facts = &Facts{Unguarded: len(check.Hosts)} // what can't be looked into isn't known to be guarded
		if slices.ContainsFunc(plan.Skipped, func(s Skip) bool { return s.User == u.Name && s.Home == u.CopilotHome }) {
			continue
		}
		wg.Add(1)
		turn <- struct{}{}
		go func() {
			defer func() { <-turn; wg.Done() }()
			ans, err := h.Homes.Do(ctx, a, HomeRequest{Verb: DoctorHome, Home: u.CopilotHome, Check: check})
			if ans.Facts != nil { // whatever the worker said
				ans.Facts.Unguarded = min(ans.Facts.Unguarded, len(check.Hosts))
			}
			if err != nil {
				ans.Facts = found[i].Facts
				ans.Findings = append(ans.Findings, Finding{ID: "home.skipped", Severity: Warning, Object: "home", User: a.Name, Path: u.CopilotHome,
					Detail: err.Error(), Remedy: "make the home reachable for its user"})
			}
			found[i] = ans
		}()
	}
	wg.Wait()
	for i, ans := range found {
		for _, f := range ans.Findings {
			f.User = plan.Users[i].Name // whatever the worker said
			out.Findings = append(out.Findings, f)
		}
		if ans.Facts != nil {
			out.Facts[plan.Users[i].Name] = merge(out.Facts[plan.Users[i].Name], *ans.Facts)
			if ans.Facts.Disabled && out.Users[i].Hook == "ok" {
				out.Users[i].Hook = "disabled"
			}
		}
	}
}

// merge joins the facts of a user's two homes.
func merge(a, b Facts) Facts {
	a.Clients = append(a.Clients, b.Clients...)
	a.CanaryMs = max(a.CanaryMs, b.CanaryMs)
	a.OlderSessions = max(a.OlderSessions, b.OlderSessions)
	a.Unguarded = max(a.Unguarded, b.Unguarded) // which of the homes a client reads isn't known
	a.Disabled = a.Disabled || b.Disabled
	return a
}

// machineFindings looks at the machine's own switches.
func machineFindings(h Host, d Desired) []Finding {
	var out []Finding
	add := func(id string, sev Severity, path, detail, remedy string) {
		out = append(out, Finding{ID: id, Severity: sev, Object: "machine", Path: path, Detail: detail, Remedy: remedy})
	}
	l := d.Layout
	if d.Hooks.Machine && l.PolicyDir != "" {
		if why := untrusted(l); why != "" {
			add("policy-folder.untrusted", Error, l.PolicyDir, why, "make it and the folders above folders of the administrator's own, writable by nobody else")
		}
	}
	for _, path := range managedSettings(l) {
		data, err := safefile.ReadFile(path, maxSettings)
		if err != nil {
			continue
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(plainJSON(data), &m) != nil {
			continue
		}
		if isTrue(m["allowManagedHooksOnly"]) {
			sev, remedy := Notice, "nothing to do: the machine's policy hooks are in force"
			if !d.Hooks.Machine || l.PolicyDir == "" {
				sev, remedy = Error, "register machine hooks (machineHooks), or take allowManagedHooksOnly out"
			}
			add("shadowed.managed-hooks-only", sev, path, "allowManagedHooksOnly switches user hooks off", remedy)
		}
		if isTrue(m["disableAllHooks"]) {
			add("shadowed.disable-all-hooks", Error, path, "disableAllHooks is set for the machine", "take it out")
		}
	}
	for _, p := range editorPolicies(l) {
		add("shadowed.editor-policy", Warning, p.Path, p.Value+": VS Code Local runs no user hooks", "allow user hooks in the editor's policy, or accept that only Copilot CLI is guarded")
	}
	if noexec(l.HookBinary) {
		add("hook-binary.noexec", Error, l.HookBinary, "the hook binary lies on a file system mounted noexec", "set hookDir to a folder where programs may run")
	}
	if l.Account != "" && l.Root == "" {
		if _, err := user.Lookup(l.Account); err != nil {
			add("account.missing", Warning, "", "the account "+l.Account+" doesn't exist: guard and relay run with the agent's own rights", "reinstall the package, which makes the account")
		}
	}
	return append(out, platformFindings()...)
}
