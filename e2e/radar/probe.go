package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/provider"
)

// The verbs by which the CLI starts this program.
const (
	recordVerb = "record"
	answerVerb = "answer"
	mcpVerb    = "mcp"
)

// behaviour is how a hook ends in one case.
type behaviour struct {
	out    string
	exit   int
	signal string        // die of it instead of exiting
	sleep  time.Duration // before the output
	linger time.Duration // after it
}

// limit is the time limit that the probed hooks are registered with; late is
// beyond it.
const (
	limit = 5 * time.Second
	late  = 9 * time.Second
)

func denial(reason string) map[string]any {
	return map[string]any{"permissionDecision": "deny", "permissionDecisionReason": reason}
}

func nested(event string, fields map[string]any) map[string]any {
	all := map[string]any{"hookEventName": event}
	for k, v := range fields {
		all[k] = v
	}
	return map[string]any{"hookSpecificOutput": all}
}

// endings are tried on every event.
func endings(deny string) map[string]behaviour {
	return map[string]behaviour{
		"exit-0": {}, "exit-1": {exit: 1}, "exit-2": {exit: 2}, "exit-127": {exit: 127}, "killed": {signal: "KILL"}, "segfault": {signal: "SEGV"},
		"time-limit": {sleep: late}, "answer-then-time-limit": {out: deny, linger: late}, "answer-then-exit-2": {out: deny, exit: 2},
		"no-json": {out: "no JSON"}, "line-then-answer": {out: "a line\n" + deny}, "answer": {out: deny},
	}
}

// probes are the cases by event: the key under which the hook is registered.
var probes = func() map[string]map[string]behaviour {
	all := map[string]map[string]behaviour{}
	for _, event := range []string{"preToolUse", "PreToolUse"} {
		c := endings(jsonText(denial("REASON")))
		add := func(name string, v any) { c[name] = behaviour{out: jsonText(v)} }
		add("nested-answer", nested("PreToolUse", denial("REASON")))
		add("ask", map[string]any{"permissionDecision": "ask", "permissionDecisionReason": "REASON"})
		add("modified-arguments", map[string]any{"modifiedArgs": map[string]string{"command": "echo CHANGED", "description": "changed"}})
		add("context", map[string]any{"additionalContext": "CONTEXT"})
		add("continue-false", map[string]any{"continue": false, "stopReason": "REASON"})
		add("decision-block", map[string]any{"decision": "block", "reason": "REASON"})
		all[event] = c
	}
	c := endings(jsonText(map[string]any{"behavior": "deny", "message": "MESSAGE"}))
	c["ask"] = behaviour{out: `{"behavior":"ask"}`}
	c["nested-answer"] = behaviour{out: jsonText(nested("PermissionRequest", map[string]any{"decision": map[string]string{"behavior": "deny", "message": "MESSAGE"}}))}
	all["permissionRequest"] = c
	modified := map[string]any{"modifiedResult": map[string]string{"resultType": "success", "textResultForLlm": "MODIFIED"}}
	c = endings(jsonText(modified))
	c["context"] = behaviour{out: `{"additionalContext":"CONTEXT"}`}
	c["decision-block"] = behaviour{out: `{"decision":"block","reason":"REASON"}`}
	c["continue-false"] = behaviour{out: `{"continue":false,"stopReason":"REASON"}`}
	c["nested-answer"] = behaviour{out: jsonText(nested("PostToolUse", modified))}
	all["postToolUse"] = c
	return all
}()

var caseName = regexp.MustCompile(`CASE:([A-Za-z]+)/([a-z0-9-]+)`)

// answer is the hook of the probes: it behaves as the case says that the
// command names, if that is one of this registration's event.
func answer(args []string, in io.Reader, out, errOut io.Writer) int {
	data, err := io.ReadAll(in)
	if err != nil || len(args) != 1 {
		fmt.Fprintln(errOut, "radar answer EVENT:", err)
		return 0
	}
	m := caseName.FindSubmatch(data)
	if m == nil || string(m[1]) != args[0] {
		return 0
	}
	b := probes[args[0]][string(m[2])]
	time.Sleep(b.sleep)
	if b.out != "" {
		fmt.Fprintln(out, b.out)
	}
	time.Sleep(b.linger)
	if b.signal != "" {
		die(b.signal)
	}
	return b.exit
}

// probe plays all cases in one session: each call of the shell names its case.
func (s stage) probe(ctx context.Context) (map[string]string, error) {
	hooks := map[string]any{}
	for event := range probes {
		// bash looks at the event itself, so that a case costs the start of one
		// program and not of one for each event.
		text := fmt.Sprintf("IFS= read -r -d '' i; case $i in *CASE:%s/*) exec %s %s %s <<< \"$i\";; esac", event, quote(s.self), answerVerb, event)
		hooks[event] = []any{map[string]any{"type": "command", "bash": text, "timeoutSec": int(limit.Seconds())}}
	}
	session, err := s.session("probe", hooks)
	if err != nil {
		return nil, err
	}
	for _, event := range sorted(probes) {
		for _, name := range sorted(probes[event]) {
			session.Turns = append(session.Turns, provider.Turn{ToolCalls: []provider.ToolCall{provider.Call(event+"_"+name, "bash", map[string]any{
				"command": fmt.Sprintf("touch 'trace-%s-%s'; echo TOOL-OUTPUT; : CASE:%s/%s", event, name, event, name), "description": "probe"})}})
		}
	}
	session.Turns = append(session.Turns, provider.Turn{Text: "done"})
	result, err := play(ctx, session)
	if err != nil {
		return nil, fmt.Errorf("probe exit codes and outputs: %w\n%s", err, result.Stderr)
	}
	facts, n := map[string]string{}, newNormaliser(session)
	for event, cases := range probes {
		for name := range cases {
			told, asked := result.Model.ToolResult(event + "_" + name)
			if !asked {
				facts[event+"/"+name] = "never called"
				continue
			}
			_, err := os.Stat(filepath.Join(session.Repo, "trace-"+event+"-"+name))
			facts[event+"/"+name] = outcome(n.normalise(told), err == nil)
		}
	}
	return facts, nil
}

var shellNote = regexp.MustCompile(`(?m)^<(shellId|exited|command)[^>]*>\s*$`)

// outcome says in one line what became of a call.
func outcome(told string, ran bool) string {
	told = strings.TrimSpace(shellNote.ReplaceAllString(told, ""))
	told = strings.Join(strings.Fields(told), " ")
	switch {
	case ran && told == "TOOL-OUTPUT":
		return "runs"
	case ran:
		return "runs; the model gets: " + told
	case strings.HasPrefix(told, "CHANGED"):
		return "runs with the changed arguments"
	}
	return "denied; the model gets: " + told
}
