package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/endpoint"
	"github.com/pinta-ai/pinta-agent/installer"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/sync/relay"
)

const statsEvery = 2 * time.Second

// watchStats keeps the totals and asks for a report when somebody's
// enforcement was seen for the first time.
func (d *Daemon) watchStats(ctx context.Context) {
	seen := map[string]bool{}
	saved := time.Now()
	var denied map[string]uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(statsEvery):
		}
		stats, ok := d.parent.Stats()
		if !ok {
			continue
		}
		d.mu.Lock()
		d.totals.add(stats)
		d.mu.Unlock()
		d.noteDenied(denied, stats.Guard.Denied)
		denied = stats.Guard.Denied
		for _, u := range stats.Relay.Users {
			if !seen[u.Name] {
				seen[u.Name] = true
				d.device.Changed()
			}
		}
		if time.Since(saved) > time.Minute {
			saved = time.Now()
			d.saveTotals()
		}
	}
}

func (d *Daemon) saveTotals() {
	d.mu.Lock()
	now := *d.totals
	now.LastEvent = maps.Clone(now.LastEvent)
	d.mu.Unlock()
	var kept totals
	if err := d.state.Update(countersName, &kept, func() error { kept = now; return nil }); err != nil {
		d.o.Log.Debug("keep the counters", "error", err)
	}
}

// Bounds of a report; the Manager refuses one with more.
const (
	maxUsers    = 1000
	maxHosts    = 1000
	maxFindings = 200
)

// report tells the Manager how this machine stands (manager.md 4).
func (d *Daemon) report() api.Report {
	stats, _ := d.parent.Stats()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.totals.add(stats)
	r := api.Report{
		Users:    reportUsers(d.changes.Users, d.totals.LastEvent, d.facts),
		Hosts:    reportHosts(stats.Relay.Clients, d.facts),
		Counters: d.totals.Sum,
		Findings: reportFindings(d.findings, stats, d.auditErr),
	}
	for _, f := range d.facts {
		r.SessionsUnguarded += f.Unguarded
	}
	for _, repair := range d.repairs {
		r.Repairs = append(r.Repairs, api.ReportRepair{At: repair.At, User: repair.User, Cause: string(repair.Reason),
			What: fmt.Sprintf("%s %s", repair.Object, repair.Path)})
	}
	return r
}

// reportUsers: "enforced" is told by lastEvent, a real event that was seen. A
// user's running clients are told once, with the first of the user's homes.
func reportUsers(states []installer.UserState, seen map[string]time.Time, facts map[string]installer.Facts) []api.ReportUser {
	var out []api.ReportUser
	for _, s := range states[:min(len(states), maxUsers)] {
		u := api.ReportUser{Name: s.Name, CopilotHome: s.CopilotHome, Hook: api.ReportUserHook(s.Hook), Detail: s.Detail, LastEvent: seen[s.Name]}
		if f := facts[s.Name]; !slices.ContainsFunc(out, func(o api.ReportUser) bool { return o.Name == s.Name }) {
			u.SessionsUnguarded = f.Unguarded
		}
		if facts[s.Name].Disabled && u.Hook == api.ReportUserHookOk {
			u.Hook = api.ReportUserHookDisabled
		}
		out = append(out, u)
	}
	return out
}

// reportHosts are the clients whose events were seen, and those whose sessions
// lie in the users' homes.
func reportHosts(clients []relay.Client, facts map[string]installer.Facts) []api.ReportHost {
	var out []api.ReportHost
	for _, user := range slices.Sorted(maps.Keys(facts)) {
		for _, c := range facts[user].Clients {
			clients = append(clients, relay.Client{Kind: c.Kind, Version: c.Version})
		}
	}
	for _, c := range clients {
		if kind := api.ReportHostKind(c.Kind); kind == api.ReportHostKindCopilotCli || kind == api.ReportHostKindVscode {
			if h := (api.ReportHost{Kind: kind, Version: c.Version}); !slices.Contains(out, h) && len(out) < maxHosts {
				out = append(out, h)
			}
		}
	}
	return out
}

func reportFindings(found []installer.Finding, s endpoint.Stats, auditErr error) []string {
	var out []string
	for _, f := range found {
		out = append(out, strings.TrimSpace(f.ID+" "+f.User+" "+f.Detail))
	}
	if s.Export.State == relay.ExportHeld {
		out = append(out, "relay held: "+s.Export.Detail)
	}
	if s.Refused != "" {
		out = append(out, "config.refused "+s.Refused[:min(len(s.Refused), 500)])
	}
	if s.Loopback != "" {
		out = append(out, "loopback.down "+s.Loopback)
	}
	if auditErr != nil && !errors.Is(auditErr, errNotWanted) {
		out = append(out, "installer: "+auditErr.Error())
	}
	if more := len(out) - maxFindings; more > 0 {
		out = append(out[:maxFindings-1], fmt.Sprintf("%d more: see pinta-agent doctor", more+1))
	}
	return out
}

// act does the signed actions that concern this machine.
func (d *Daemon) act(ctx context.Context, a api.Action) (string, error) {
	switch a.Kind {
	case api.ActionKindRepair:
		desired, err := d.desired(ctx)
		if err != nil {
			return "", err
		}
		changes, err := installer.Apply(ctx, installer.Real(desired.Layout), desired)
		if err == nil && !changes.OK() {
			err = errors.New("not everything could be repaired; doctor lists what")
		}
		return fmt.Sprintf("%d steps", len(changes.Steps)), err
	case api.ActionKindLogLevel:
		var level slog.Level
		if err := level.UnmarshalText([]byte(a.LogLevel)); err != nil {
			return "", err
		}
		d.o.Level.Set(level)
		return "log level " + level.String(), nil
	case api.ActionKindDiagnostics:
		path := filepath.Join(d.layout.StateDir, "diagnostics-"+time.Now().UTC().Format("20060102-150405")+".zip")
		if err := d.o.Diagnostics(ctx, path); err != nil {
			return "", err
		}
		return "kept on the device: " + path, nil
	case api.ActionKindUnenroll:
		return "", d.removeHooks(ctx)
	}
	return "", fmt.Errorf("action %q is none that this agent knows", a.Kind)
}

// Status is what the service tells `pinta-agent status`.
type Status struct {
	PID          int                 `json:"pid"`
	Started      time.Time           `json:"started"`
	Unprivileged bool                `json:"unprivileged"` // guard and relay run as an account of their own
	Serving      bool                `json:"serving"`
	Sync         any                 `json:"sync"`
	Endpoint     endpoint.Stats      `json:"endpoint"`
	Counters     api.Counters        `json:"counters"`
	Repaired     int                 `json:"repaired"`
	Users        []api.ReportUser    `json:"users"`
	Findings     []installer.Finding `json:"findings,omitempty"`
}

// Status returns the service's state.
func (d *Daemon) Status() Status {
	stats, serving := d.parent.Stats()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.totals.add(stats)
	return Status{PID: os.Getpid(), Started: d.started, Unprivileged: endpoint.Unprivileged(d.layout.Account), Serving: serving,
		Sync: d.device.Status(), Endpoint: stats, Counters: d.totals.Sum, Repaired: d.repaired,
		Users: reportUsers(d.changes.Users, d.totals.LastEvent, d.facts), Findings: d.findings}
}
