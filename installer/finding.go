package installer

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/installer/users"
)

// Severity ranks findings.
type Severity string

// The severities. doctor exits 1 if there is an error.
const (
	Error   Severity = "error"   // hooks don't work for somebody
	Warning Severity = "warning" // they may not, or not everywhere
	Notice  Severity = "notice"  // worth knowing
)

// Finding is one thing that doctor found.
type Finding struct {
	ID       string   `json:"id"` // object.kind; stable, documented in docs/drift.md
	Severity Severity `json:"severity"`
	Object   string   `json:"object"`
	User     string   `json:"user,omitempty"`
	Path     string   `json:"path,omitempty"`
	Detail   string   `json:"detail"`
	Remedy   string   `json:"remedy"`
	Fixable  bool     `json:"fixable"` // by pinta-agent repair
}

func (f *Finding) clean() {
	f.ID, f.Object, f.User, f.Path = users.Clean(f.ID), users.Clean(f.Object), users.Clean(f.User), users.Clean(f.Path)
	f.Detail, f.Remedy = users.Clean(f.Detail), users.Clean(f.Remedy)
	if !slices.Contains([]Severity{Error, Warning, Notice}, f.Severity) {
		f.Severity = Warning
	}
	f.Fixable = false // what a worker finds besides drift is never ours to change
}

// Facts is what a look into a home tells besides findings.
type Facts struct {
	// Clients are the Copilot versions whose sessions were seen.
	Clients []Client `json:"clients,omitempty"`
	// Canary is how long the registered command took, in milliseconds.
	CanaryMs float64 `json:"canaryMs,omitempty"`
	// OlderSessions counts running clients that began before the hook file.
	OlderSessions int `json:"olderSessions,omitempty"`
	// Unguarded counts running clients that run none of our hooks: those that
	// began before the hook file, or all where hooks are off.
	Unguarded int `json:"unguarded,omitempty"`
	// Disabled says that user hooks are switched off for this user.
	Disabled bool `json:"disabled,omitempty"`
}

// Client is a host that was seen, as the report to the Manager lists it.
type Client struct {
	Kind    string    `json:"kind"` // copilot-cli
	Version string    `json:"version"`
	Path    string    `json:"path,omitempty"`
	Seen    time.Time `json:"seen,omitzero"`
}

const (
	maxClients = 32
	maxHosts   = 1000 // running clients of a user that are looked at
)

func (f *Facts) clean() {
	f.Clients = f.Clients[:min(len(f.Clients), maxClients)]
	for i := range f.Clients {
		c := &f.Clients[i]
		c.Kind, c.Version, c.Path = users.Clean(c.Kind), users.Clean(c.Version), users.Clean(c.Path)
	}
	f.OlderSessions = min(max(f.OlderSessions, 0), maxHosts)
	f.Unguarded = min(max(f.Unguarded, 0), maxHosts)
}

// finding turns a step that a plan would take into a finding.
func (s Step) finding() Finding {
	f := Finding{
		ID: string(s.Object) + "." + string(s.Kind), Severity: Error, Object: string(s.Object), User: s.User, Path: s.Path,
		Detail: join(strings.ReplaceAll(string(s.Object), "-", " ")+" is "+strings.ReplaceAll(string(s.Kind), "-", " "), s.Detail),
		Remedy: "pinta-agent repair", Fixable: true,
	}
	switch {
	case s.Object == Folder && s.Error != "": // the state folder, without which nothing is repaired
	case s.Object == Journal || s.Object == HookImage || s.Object == Folder:
		f.Severity = Notice
	case s.Kind == WrongMode && s.Object != PolicyFile || s.Kind == Unwanted: // a policy file that others may write is ignored
		f.Severity = Warning
	}
	if s.Error != "" {
		f.Detail, f.Fixable = join(f.Detail, s.Error), false
		f.Remedy = cmp.Or(s.Remedy, "remove the cause named in the detail") + ", then pinta-agent repair"
		if f.Severity == Notice { // hooks work, but it may be missed when they are to be restored
			f.Severity = Warning
		}
	}
	return f
}

// Verify compares the machine with d and changes nothing: the plan, as
// findings.
func Verify(ctx context.Context, h Host, d Desired) ([]Finding, error) {
	c, err := Plan(ctx, h, d)
	return c.Findings(), err
}

// Findings are the plan's steps and skips as doctor shows them.
func (c Changes) Findings() []Finding {
	var out []Finding
	for _, s := range c.Steps {
		out = append(out, s.finding())
	}
	for _, s := range c.Skipped {
		out = append(out, Finding{ID: "home.skipped", Severity: Warning, Object: "home", User: s.User, Path: s.Home, Detail: s.Reason,
			Remedy: "make the home reachable and writable for its user; it is tried again each minute"})
	}
	if c.d.Hooks.User && c.d.Uninstall == nil && !slices.ContainsFunc(c.Users, func(u UserState) bool { return u.Hook != "absent" }) {
		out = append(out, Finding{ID: "users.none", Severity: Error, Object: "users", Detail: "hooks are registered for nobody",
			Remedy: "check that the machine has an interactive account whose home can be written, then pinta-agent repair"})
	}
	return out
}
