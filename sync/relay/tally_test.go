package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/sync/spool"
)

// spanOf is one hook run in the short form of these tests:
// "kind tool input verdict source[#call-id] second", with - for nothing.
func spanOf(n int, script string) string {
	f := strings.Fields(script)
	kind, tool, input, verdict, source, second := f[0], f[1], f[2], f[3], f[4], f[5]
	attrs := kv("copilot.session_id", "s1")
	if tool != "-" {
		attrs += kv("copilot.tool_name", tool)
	}
	if input != "-" {
		attrs += kv("copilot.tool_input", input)
	}
	decision, extra, _ := strings.Cut(verdict, ",")
	switch {
	case decision == "-":
	case strings.HasPrefix(decision, "open:"):
		attrs += kv("pinta.guard.decision", "allow") + kv("pinta.guard.fail_open_reason", decision[5:])
	default:
		attrs += kv("pinta.guard.decision", decision)
	}
	if extra != "" { // what the span of an output carries
		shape, eval, _ := strings.Cut(extra, "/")
		attrs += kv(shape, "out") + kv("pinta.guard.evaluation_id", eval)
	}
	if source, id, ok := strings.Cut(source, "#"); ok { // a call id
		attrs += kv("copilot.tool_use_id", id)
		f[4] = source
	}
	source = f[4]
	resource := ""
	if source != "-" {
		resource = kv("pinta.hook.source", source)
	}
	b := hookSpan(n, resource, attrs)
	b = strings.Replace(b, `"PreToolUse"`, fmt.Sprintf("%q", kind), 1)
	return strings.ReplaceAll(b, `"1800000000000000000"`, fmt.Sprintf(`"18000000%s000000000"`, second))
}

func TestCounters(t *testing.T) {
	for _, c := range []struct {
		name string
		runs []string // in order of arrival
		want Counters
	}{
		{"a run", []string{"PreToolUse Bash ls allow - 01"}, Counters{Hooks: 1}},
		{"prevented", []string{"PreToolUse Bash rm deny - 01"}, Counters{Hooks: 1, Prevented: 1}},
		{"prevented at the permission", []string{"permissionRequest bash rm deny - 01"}, Counters{Hooks: 1, Prevented: 1}},
		{"fail open", []string{"PreToolUse Bash ls open:timeout - 01", "PreToolUse Bash ls open:odd - 01"}, Counters{Hooks: 2, FailOpen: 2}},

		{"output withheld", []string{"PostToolUse Bash cat deny,copilot.tool_result/e1 - 01"}, Counters{Hooks: 1, Withheld: 1}},
		{"output masked", []string{"PostToolUse Bash cat deny,copilot.tool_result/mask - 01"}, Counters{Hooks: 1, Masked: 1}},
		{"turn stopped", []string{"PostToolUse Bash cat deny,copilot.tool_response/mask - 01"}, Counters{Hooks: 1, Stopped: 1}},

		{"user and machine", []string{"PreToolUse Bash rm deny machine 01", "PreToolUse Bash rm deny user 01"}, Counters{Hooks: 1, Prevented: 1}},
		{"two calls of one source", []string{"PreToolUse Bash rm deny user 01", "PreToolUse Bash rm deny user 02"}, Counters{Hooks: 2, Prevented: 2}},
		{"two calls of both", []string{"PreToolUse Bash rm deny machine 01", "PreToolUse Bash rm deny machine 02", "PreToolUse Bash rm deny user 01", "PreToolUse Bash rm deny user 02"}, Counters{Hooks: 2, Prevented: 2}},
		{"start of a session by both", []string{"SessionStart - - - machine 01", "SessionStart - - - user 01"}, Counters{Hooks: 1}},
		{"one fails open, the other denies", []string{"PreToolUse Bash rm open:timeout user 01", "PreToolUse Bash rm deny machine 01"}, Counters{Hooks: 1, Prevented: 1, FailOpen: 1}},
		{"two prompts by both", []string{"UserPromptSubmit - - - machine 01", "UserPromptSubmit - - - user 01", "UserPromptSubmit - - - machine 02", "UserPromptSubmit - - - user 02"}, Counters{Hooks: 2}},

		{"denied and ran", []string{"PreToolUse Bash rm deny - 01", "PostToolUse Bash rm allow - 02"}, Counters{Hooks: 2, Prevented: 1, NotEnforced: 1}},
		{"denied and failed", []string{"PreToolUse Bash rm deny - 01", "PostToolUseFailure Bash rm - - 02"}, Counters{Hooks: 2, Prevented: 1, NotEnforced: 1}},
		{"the denial comes late", []string{"PostToolUse Bash rm allow - 02", "PreToolUse Bash rm deny - 01"}, Counters{Hooks: 2, Prevented: 1, NotEnforced: 1}},
		{"denied, another ran", []string{"PreToolUse Bash rm deny - 01", "PostToolUse Bash ls allow - 02"}, Counters{Hooks: 2, Prevented: 1}},
		{"denied, then allowed and ran", []string{"PreToolUse Bash rm deny - 01", "PreToolUse Bash rm allow - 02", "PostToolUse Bash rm allow - 03"}, Counters{Hooks: 3, Prevented: 1}},
		{"denied after it ran", []string{"PreToolUse Bash rm allow - 01", "PostToolUse Bash rm allow - 02", "PreToolUse Bash rm deny - 03"}, Counters{Hooks: 3, Prevented: 1}},
		{"denied at the permission and ran", []string{"PreToolUse Bash rm allow - 01", "permissionRequest bash rm deny - 02", "PostToolUse Bash rm allow - 03"}, Counters{Hooks: 3, Prevented: 1, NotEnforced: 1}},
		{"denied, then a permission and ran", []string{"PreToolUse Bash rm deny - 01", "permissionRequest bash rm allow - 02", "PostToolUse Bash rm allow - 03"}, Counters{Hooks: 3, Prevented: 1, NotEnforced: 1}},
		{"both denied, it ran", []string{"PreToolUse Bash rm deny machine 01", "PreToolUse Bash rm deny user 01", "PostToolUse Bash rm allow machine 02", "PostToolUse Bash rm allow user 02"}, Counters{Hooks: 2, Prevented: 1, NotEnforced: 1}},
		{"one denied, one failed open, it ran", []string{"PreToolUse Bash rm deny machine 01", "PreToolUse Bash rm open:error user 01", "PostToolUse Bash rm allow machine 02"}, Counters{Hooks: 2, Prevented: 1, FailOpen: 1, NotEnforced: 1}},
		{"by the command alone at the permission", []string{`permissionRequest bash {"command":"rm"} deny - 01`, `PostToolUse Bash {"command":"rm","description":"x"} allow - 02`}, Counters{Hooks: 2, Prevented: 1, NotEnforced: 1}},
		{"MCP by either name", []string{`permissionRequest srv/del {"x":1} deny - 01`, `PostToolUse srv-del {"x":1} allow - 02`}, Counters{Hooks: 2, Prevented: 1, NotEnforced: 1}},
		{"denied, an equal call at the same time ran", []string{"PreToolUse Bash rm allow -#a 01", "PreToolUse Bash rm deny -#b 02", "PostToolUse Bash rm allow -#a 03"}, Counters{Hooks: 3, Prevented: 1}},
		{"denied and ran, an equal call was allowed", []string{"PreToolUse Bash rm deny -#a 01", "PreToolUse Bash rm allow -#b 02", "PostToolUse Bash rm allow -#b 03", "PostToolUse Bash rm allow -#a 04"}, Counters{Hooks: 4, Prevented: 1, NotEnforced: 1}},
		{"equal calls, the denial comes last", []string{"PreToolUse Bash rm allow -#b 02", "PostToolUse Bash rm allow -#b 03", "PostToolUse Bash rm allow -#a 04", "PreToolUse Bash rm deny -#a 01"}, Counters{Hooks: 4, Prevented: 1, NotEnforced: 1}},
		{"a permission without the call's id", []string{"PreToolUse Bash rm allow -#a 01", "permissionRequest bash rm deny - 02", "PostToolUse Bash rm allow -#a 03"}, Counters{Hooks: 3, Prevented: 1, NotEnforced: 1}},
		{"every repetition", []string{"PreToolUse Bash rm deny - 01", "PostToolUse Bash rm allow - 02", "PreToolUse Bash rm deny - 03", "PostToolUse Bash rm allow - 04"}, Counters{Hooks: 4, Prevented: 2, NotEnforced: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, spool.Options{})
			f.Relay = New(Options{Spool: f.spool, Identity: identityOf, Clock: func() time.Time { return time.Unix(1_900_000_000, 0) }, OutputAction: func(id string) string {
				if id == "mask" {
					return "mask"
				}
				return ""
			}})
			for i, s := range c.runs {
				f.send(t, spanOf(i, s))
			}
			if got := f.Stats().Counters; got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestUsersAndClients(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	f := newFixture(t, spool.Options{Clock: func() time.Time { return now }})
	f.send(t, hookSpan(1, "", ""))
	f.peer.UID = 1001
	f.send(t, hookSpan(2, "", kv("copilot.session_id", CanarySession+"-1")))
	st := f.Stats()
	if len(st.Users) != 1 || st.Users[0].Name != "ann" || st.Users[0].LastEvent.Unix() != 1_800_000_000 {
		t.Errorf("users %+v: doctor's own event is none of the user's", st.Users)
	}
	if len(st.Clients) != 1 || st.Clients[0].Kind != "copilot-cli" || st.Clients[0].Version != "1.0.102" {
		t.Errorf("clients %+v", st.Clients)
	}
	f.send(t, strings.ReplaceAll(hookSpan(3, "", ""), `"ingest.type"`, `"other"`))
	f.send(t, strings.ReplaceAll(hookSpan(4, "", ""), "1800000000000000000", "1999999999000000000"))
	for _, u := range f.Stats().Users {
		if u.Name == "bob" && (!u.LastEvent.Equal(now) || u.Hooks != 1) {
			t.Errorf("%+v: an event is no later than its arrival, and only a hook's counts", u)
		}
	}
}

func TestTallyIsBounded(t *testing.T) {
	f := newFixture(t, spool.Options{})
	for i := range 3 * maxClients {
		f.send(t, strings.ReplaceAll(hookSpan(i, "", kv("copilot.session_id", fmt.Sprint(i))), "1.0.102", fmt.Sprint("1.0.", i)))
	}
	for i := range maxCalls + 100 {
		f.tally.call("u", event{session: fmt.Sprint("other ", i)}, time.Now())
	}
	for i := range 3 * maxUsers {
		f.tally.touchUser(fmt.Sprint(i), "", time.Now())
	}
	if n, m, k := len(f.Stats().Clients), len(f.tally.calls), len(f.Stats().Users); n != maxClients || m != maxCalls || k != maxUsers {
		t.Errorf("%d clients, %d calls, %d users", n, m, k)
	}
	if st := f.Stats(); st.Clients[maxClients-1].Version != fmt.Sprint("1.0.", 3*maxClients-1) {
		t.Errorf("the newest client is missing")
	}
}

// Nothing that a caller says is kept at its length: calls live for minutes.
func TestTallyKeepsNoTexts(t *testing.T) {
	f := newFixture(t, spool.Options{})
	long := strings.Repeat("x", 1<<10)
	resource := kv("pinta.hook.source", long)
	f.send(t, hookSpan(1, resource, kv("copilot.session_id", long)+kv("copilot.tool_name", long)+kv("copilot.tool_input", long)+kv("pinta.guard.decision", "deny")))
	for _, el := range f.tally.calls {
		for _, v := range el.Value.(*call).events {
			if v.source != "" {
				t.Errorf("%d bytes of a source are kept", len(v.source))
			}
		}
	}
}

func TestTelemetryOff(t *testing.T) {
	f := newFixture(t, spool.Options{})
	f.Relay = New(Options{Spool: f.spool, Identity: identityOf, Collect: func() bool { return false }})
	f.send(t, hookSpan(1, "", ""))
	if st := f.Stats(); st.Discarded != 1 || st.Counters.Hooks != 1 || st.Spool.Records != 0 {
		t.Errorf("%+v", st)
	}
}
