package installer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// CanarySession is the session id of doctor's own event, by which the agent
// keeps it out of telemetry and counters.
const CanarySession = "pinta-canary"

// canaryEvent is a harmless call that goes the whole way: hook, endpoint,
// guard.
const canaryEvent = `{"hook_event_name":"PreToolUse","session_id":"` + CanarySession + `","cwd":"/","tool_name":"Bash","tool_input":{"command":"true"}}`

// Limits for a canary run.
const (
	canarySlow  = time.Second
	canaryLimit = hostTimeout * time.Second
)

// canary runs the command that the hook file registers the way a host does.
func (x *examiner) canary(ctx context.Context) {
	path := filepath.Join(x.r.Home, "hooks", hookFileName)
	data, err := x.sys.ReadFile(path, maxRegistration)
	if err != nil {
		return // the plan tells
	}
	var f struct {
		Hooks map[string][]Entry `json:"hooks"`
	}
	if json.Unmarshal(data, &f) != nil || len(f.Hooks["PreToolUse"]) == 0 {
		return
	}
	e := f.Hooks["PreToolUse"][0]
	for _, run := range hostShells(e) {
		env := append(bareEnv(), homeEnv(x.r.User.Home)...)
		for k, v := range e.Env {
			env = append(env, k+"="+v)
		}
		if x.r.Home != filepath.Join(x.r.User.Home, ".copilot") {
			env = append(env, "COPILOT_HOME="+x.r.Home)
		}
		run.Env, run.Stdin, run.Limit = env, []byte(canaryEvent), canaryLimit
		o, err := x.sys.Exec(ctx, run)
		x.facts.CanaryMs = max(x.facts.CanaryMs, float64(o.Took.Microseconds())/1000)
		for _, f := range judge(o, err) {
			x.add(f.ID, f.Severity, path, "canary by "+run.Path+": "+f.Detail, f.Remedy)
		}
	}
}

// judge tells what is wrong with a canary run.
func judge(o Output, err error) []Finding {
	var out []Finding
	add := func(id string, sev Severity, detail, remedy string) {
		out = append(out, Finding{ID: id, Severity: sev, Detail: detail, Remedy: remedy})
	}
	if err != nil {
		add("canary.run", Error, err.Error(), "see that the shell exists and that programs may be run for this user")
		return out
	}
	if o.Status != 0 {
		add("canary.exit", Error, fmt.Sprintf("exit status %d instead of 0: Copilot would deny every tool", o.Status), "pinta-agent repair")
	}
	if len(bytes.TrimSpace(o.Stdout)) > 0 {
		if json.Valid(o.Stdout) {
			add("canary.denied", Warning, "a harmless command was answered: "+string(o.Stdout), "look at the policy: true is denied")
		} else {
			add("canary.stdout", Error, "output that no host can read", "see what prints besides the hook (BASH_ENV, a wrapper)")
		}
	}
	if line, _, _ := strings.Cut(string(bytes.TrimSpace(o.Stderr)), "\n"); line != "" {
		add("canary.warning", Warning, line, "act on the message")
	}
	if o.Took > canarySlow {
		add("canary.slow", Warning, fmt.Sprintf("took %d ms", o.Took.Milliseconds()), "see what slows programs down: a scanner, a network home, an unreachable endpoint")
	}
	return out
}
