package relay

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// call is what was seen of one tool call of a user's session: the same tool
// with the same input. Each of its events arrives on its own, perhaps late and
// out of order, since a denial waits in the user's queue.
type call struct {
	key    callKey
	seen   time.Time
	runs   map[callKey]*[2]int // how often each source said the same
	events []verdict
}

// verdict is a judgement of the input, or a run of it.
type verdict struct {
	at           time.Time
	ran, denied  bool
	source       string
	id           callKey // of the host's call id; zero where it gives none
	isPermission bool
	counted      bool
}

const maxVerdicts = 32

// call finds or makes the record of an event's call; nil if it belongs to none.
func (t *tally) call(user string, e event, now time.Time) *call {
	if e.session == "" && e.callID == "" {
		return nil
	}
	key := hashKey(user, e.session, callName(e.tool), callInput(e.input))
	if e.tool == "" { // no tool event: only runs are paired
		key = hashKey(user, e.session, e.kind)
	}
	if el, ok := t.calls[key]; ok {
		c := el.Value.(*call)
		c.seen = now
		t.order.MoveToBack(el)
		return c
	}
	for el := t.order.Front(); el != nil && (t.order.Len() >= maxCalls || now.Sub(el.Value.(*call).seen) > callLife); el = t.order.Front() {
		delete(t.calls, el.Value.(*call).key)
		t.order.Remove(el)
	}
	c := &call{key: key, seen: now, runs: map[callKey]*[2]int{}}
	t.calls[key] = t.order.PushBack(c)
	return c
}

// isNew tells whether a run adds to the count of what. One user-run and one
// machine-run are one call, two of the same source are two; so a count is the
// larger number of the two sources.
func (c *call) isNew(e event, what string) bool {
	var mine int
	switch {
	case c == nil:
		return true
	case e.source == "user":
	case e.source == "machine":
		mine = 1
	default:
		return true
	}
	k := hashKey(e.kind, e.output, what)
	n := c.runs[k]
	if n == nil {
		if len(c.runs) >= maxVerdicts {
			return true
		}
		n = new([2]int)
		c.runs[k] = n
	}
	n[mine]++
	return n[mine] > n[1-mine]
}

// ran reports whether this event shows that a denied call ran. A run belongs to
// the last judgement before it.
func (c *call) ran(e event) (notEnforced bool) {
	v := verdict{at: e.at, denied: e.decision == "deny", source: e.source}
	if id, _, _ := strings.Cut(e.callID, "__vscode-"); id != "" { // VS Code adds a number
		v.id = hashKey(id)
	}
	switch e.kind {
	case "posttooluse", "posttoolusefailure":
		v.ran, v.denied = true, false
	case "permissionrequest":
		v.isPermission = true
	case "pretooluse":
	default:
		return false
	}
	at, _ := slices.BinarySearchFunc(c.events, v, func(a, b verdict) int {
		if n := a.at.Compare(b.at); n != 0 {
			return n
		}
		return -1 // the later arrival goes last
	})
	c.events = slices.Insert(c.events, at, v)
	if len(c.events) > maxVerdicts {
		c.events = slices.Delete(c.events, 0, 1)
	}
	var denied *verdict
	for i := range c.events {
		switch x := &c.events[i]; {
		case otherCall(x.id, v.id): // the same arguments at the same time
		case x.ran:
			if denied != nil && !x.counted {
				x.counted, notEnforced = true, true
			}
			denied = nil
		case x.denied:
			denied = x
		case x.isPermission, denied != nil && otherSource(x.source, denied.source):
		default:
			denied = nil // asked again, and allowed
		}
	}
	return notEnforced
}

// otherCall: hosts that give a call an id tell equal calls apart by it.
func otherCall(a, b callKey) bool { return a != b && a != (callKey{}) && b != (callKey{}) }

// otherSource: the two registrations' runs of one call; one that fails open
// takes nothing from the other's denial.
func otherSource(a, b string) bool { return a != b && a != "" && b != "" }

// callName maps the names that one tool has in different events to one:
// PascalCase, runtime and permission names (host.md).
func callName(tool string) string {
	n := strings.ToLower(tool)
	if server, name, ok := strings.Cut(n, "/"); ok {
		return server + "-" + name // MCP: server/tool in permissions, server-tool elsewhere
	}
	switch n {
	case "shell", "powershell":
		return "bash"
	}
	return n
}

// callInput is what decides whether two events are about the same call: of a
// command the command (permissions carry nothing else), else the whole input.
// toolArgs may be JSON text in a string.
func callInput(input string) string {
	var s string
	if json.Unmarshal([]byte(input), &s) == nil {
		input = s
	}
	var m struct {
		Command *string `json:"command"`
	}
	if len(input) <= 1<<20 && checkDepth([]byte(input)) == nil && json.Unmarshal([]byte(input), &m) == nil && m.Command != nil {
		return *m.Command
	}
	return input
}
