package event

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// drip is a source that gives its pieces one by one; time passes by pauses.
type drip struct {
	pieces [][]byte
	pause  time.Duration
	now    time.Time
	hold   bool
	reads  int
}

func (d *drip) clock() time.Time { return d.now }

func (d *drip) Read(p []byte, wait time.Duration) (int, error) {
	d.reads++
	if len(d.pieces) == 0 {
		if d.hold {
			d.now = d.now.Add(wait)
			return 0, ErrWait
		}
		return 0, io.EOF
	}
	if d.pause > wait {
		d.now = d.now.Add(wait)
		return 0, ErrWait
	}
	d.now = d.now.Add(d.pause)
	n := copy(p, d.pieces[0])
	if d.pieces[0] = d.pieces[0][n:]; len(d.pieces[0]) == 0 {
		d.pieces = d.pieces[1:]
	}
	return n, nil
}

func pieces(s string, n int) (out [][]byte) {
	for len(s) > n {
		out, s = append(out, []byte(s[:n])), s[n:]
	}
	return append(out, []byte(s))
}

func utf16Of(s string, big bool) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune("\ufeff" + s)) {
		lo, hi := byte(u), byte(u>>8)
		if big {
			lo, hi = hi, lo
		}
		b.WriteByte(lo)
		b.WriteByte(hi)
	}
	return b.String()
}

func TestObject(t *testing.T) {
	const obj = `{"a":"}{\"[","b":[{}]}`
	for name, c := range map[string]struct {
		in    string
		piece int
		pause time.Duration
		hold  bool
		want  string
		err   error
		took  time.Duration // of the source's clock, at most
	}{
		"whole":                  {in: obj, want: obj},
		"held open":              {in: obj, hold: true, want: obj},
		"bytewise":               {in: obj, piece: 1, pause: 10 * time.Millisecond, want: obj, took: time.Second},
		"slow but moving":        {in: obj, piece: 4, pause: time.Second, want: obj, took: 8 * time.Second},
		"too slow in all":        {in: obj, piece: 1, pause: time.Second, err: ErrStalled, took: 8 * time.Second},
		"half and hold":          {in: obj[:9], hold: true, err: ErrStalled, took: 5 * time.Second},
		"half":                   {in: obj[:9], err: ErrNotJSON},
		"empty":                  {in: "", err: ErrEmpty},
		"blank":                  {in: " \r\n\t", err: ErrEmpty},
		"only a mark":            {in: "\xef\xbb\xbf", err: ErrEmpty},
		"half a mark":            {in: "\xef\xbb", err: ErrNotJSON},
		"nothing, held":          {in: "", hold: true, err: ErrStalled, took: 5 * time.Second},
		"trailing":               {in: obj + "\n\x00\x00 garbage", want: obj},
		"two objects":            {in: obj + obj, want: obj},
		"leading blanks":         {in: " \n\t" + obj, want: " \n\t" + obj},
		"UTF-8 mark":             {in: "\xef\xbb\xbf" + obj, want: obj},
		"UTF-8 mark bytewise":    {in: "\xef\xbb\xbf" + obj, piece: 1, want: obj},
		"UTF-16LE":               {in: utf16Of(obj, false), want: obj},
		"UTF-16BE held":          {in: utf16Of(`{"k":"☃😀"}`, true), hold: true, want: `{"k":"☃😀"}`},
		"UTF-16LE bytewise":      {in: utf16Of(`{"k":"☃"}`, false), piece: 1, hold: true, want: `{"k":"☃"}`},
		"bad UTF-8":              {in: "{\"a\":\"\xff\xfe\"}", want: "{\"a\":\"\uFFFD\uFFFD\"}"},
		"not JSON":               {in: "NOT JSON {{{", hold: true, err: ErrNotJSON},
		"syntax error, held":     {in: `{"a":}`, hold: true, err: ErrNotJSON},
		"raw control characters": {in: "{\"a\":\"x\ny\"}", want: "{\"a\":\"x\ny\"}"},
		"deep":                   {in: strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), want: strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)},
		"too large":              {in: `{"a":"` + strings.Repeat("x", MaxInput), hold: true, err: ErrTooLarge},
		"as large as may be":     {in: `{"a":"` + strings.Repeat("x", MaxInput-8) + `"}`, hold: true, want: `{"a":"` + strings.Repeat("x", MaxInput-8) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			d := &drip{pieces: pieces(c.in, max(c.piece, 1<<20*min(1, 1-min(c.piece, 1)))), pause: c.pause, hold: c.hold}
			if c.in == "" {
				d.pieces = nil
			}
			in := NewInput(d, d.clock)
			got, err := in.Object()
			if err != c.err || string(got) != c.want {
				t.Errorf("%d bytes %.60q, %v; want %.60q, %v", len(got), got, err, c.want, c.err)
			}
			if took := d.now.Sub(time.Time{}); took > c.took+time.Millisecond {
				t.Errorf("waited %v", took)
			}
			in.Drain()
		})
	}
}

// TestDrain: what still comes is taken, at the host's own pace and no longer.
func TestDrain(t *testing.T) {
	for name, c := range map[string]struct {
		in         string
		piece      int
		pause      time.Duration
		hold       bool
		all        bool
		least, max time.Duration
	}{
		"end at once":      {in: "{}", all: true},
		"held":             {in: "{}", hold: true, all: true, least: minGrace, max: 2 * minGrace},
		"trailing, slow":   {in: "{} \n \n \n ", piece: 2, pause: 50 * time.Millisecond, all: true, max: time.Second},
		"without an end":   {in: "{}" + strings.Repeat(" ", 1<<20), piece: 1, pause: time.Millisecond, max: maxDrain + time.Second},
		"long and at once": {in: "{}" + strings.Repeat("x", 4<<20), all: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &drip{pieces: pieces(c.in, max(c.piece, 1)), pause: c.pause, hold: c.hold}
			if c.piece == 0 {
				d.pieces = [][]byte{[]byte(c.in)}
			}
			in := NewInput(d, d.clock)
			if _, err := in.Object(); err != nil {
				t.Fatal(err)
			}
			before := d.now
			in.Drain()
			took := d.now.Sub(before)
			if (len(d.pieces) == 0) != c.all || took < c.least || c.max > 0 && took > c.max {
				t.Errorf("%d pieces left, %v", len(d.pieces), took)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	for in, want := range map[string]string{
		"{}":                                   "{}",
		"\xef\xbb\xbf{} \r\n\x00":              "{}",
		"a\xc3b":                               "a\uFFFDb",
		"\xed\xa0\x80":                         "\uFFFD\uFFFD\uFFFD",
		utf16Of("{\"a\":\"é\"}", true):         "{\"a\":\"é\"}",
		"\xff\xfe\x00\xd8a\x00":                "\uFFFDa",
		"\xff\xfe\x3d\xd8\x00\xde":             "😀",
		"\xff\xfe\x3d":                         "",
		"\xfe\xff\xd8\x3d\xde\x00\x00{":        "😀{",
		"\xff\xfe{\x00\x00\x00\x00\x00":        "{",
		string([]byte{0xff, 0xfe, 0x3d, 0xd8}): "\uFFFD",
	} {
		if got := string(Decode([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestNamesAndKinds(t *testing.T) {
	for _, c := range []struct {
		payload, binding, name string
		kind                   Kind
	}{
		{`{"hook_event_name":"PreToolUse"}`, "", "PreToolUse", PreToolUse},
		{`{"hook_event_name":" preToolUse\n"}`, "Stop", "preToolUse", PreToolUse},
		{`{"hook_event_name":"","hookEventName":"Stop"}`, "", "Stop", Stop},
		{`{"hook_event_name":7,"hookName":"agentStop"}`, "", "agentStop", Stop},
		{`{"hookName":"permissionRequest"}`, "PermissionRequest", "permissionRequest", PermissionRequest},
		{`{}`, "userPromptSubmitted", "userPromptSubmitted", UserPromptSubmit},
		{`{}`, " ", "", Unknown},
		{`{}`, "", "", Unknown},
		{`{"hook_event_name":"Harmless"}`, "PreToolUse", "PreToolUse", PreToolUse},
		{`{"hook_event_name":"Harmless"}`, "postToolUse", "postToolUse", PostToolUse},
		{`{"hook_event_name":"Harmless"}`, "Stop", "Harmless", Unknown},
		{`{"hook_event_name":"Stop"}`, "PreToolUse", "Stop", Stop},
		{`{"Hook_Event_Name":"Stop"}`, "PreToolUse", "PreToolUse", PreToolUse},
		{`{"hook_event_name":"Stop","hook_event_name":"PreToolUse"}`, "", "PreToolUse", PreToolUse},
		{`{"hook_event_name":"PRETOOLUSE"}`, "", "PRETOOLUSE", PreToolUse},
		{`{"hook_event_name":"PreToolUses"}`, "", "PreToolUses", Unknown},
		{`{"tool_input":{"hook_event_name":"Stop"},"hookName":"preToolUse"}`, "", "preToolUse", PreToolUse},
	} {
		e, err := Parse([]byte(c.payload), c.binding)
		if err != nil || e.Name != c.name || e.Kind != c.kind {
			t.Errorf("%s, %q: %q %d %v", c.payload, c.binding, e.Name, e.Kind, err)
		}
	}
}

func TestInternal(t *testing.T) {
	for payload, want := range map[string]bool{
		`{"tool_name":"ask_user"}`:                              true,
		`{"toolName":"report_intent"}`:                          true,
		`{"tool_name":"AskUserQuestion","toolName":"ask_user"}`: true,
		`{"tool_name":"ask_user","toolName":"bash"}`:            false,
		`{"tool_name":"ask_user","toolName":null}`:              false,
		`{"tool_name":["ask_user"]}`:                            false,
		`{"tool_name":"Ask_User"}`:                              false,
		`{"tool_name":"ask_user "}`:                             false,
		`{"tool_name":"mcp__x__ask_user"}`:                      false,
		`{}`:                                                    false,
		`{"tool_name":"ask_user","tool_name":"bash"}`:           false,
	} {
		e, err := Parse([]byte(payload), "PreToolUse")
		if err != nil || e.Internal() != want || e.Guarded() == want {
			t.Errorf("%s: internal %v, guarded %v, %v", payload, e.Internal(), e.Guarded(), err)
		}
	}
}

func TestSurface(t *testing.T) {
	for set, want := range map[string]Surface{
		"": CLI, "TERM_PROGRAM": CLI, "COPILOT_CLI": CLI, "VSCODE_PID": Ext, "VSCODE_IPC_HOOK": Ext, "ELECTRON_RUN_AS_NODE": Ext, "VSCODE_PID COPILOT_AGENT_PROMPT": Cloud,
		"COPILOT_AGENT_JOB_ID": Cloud, "COPILOT_AGENT_SESSION_ID": Cloud,
	} {
		got := SurfaceOf(func(k string) string {
			for _, s := range strings.Fields(set) {
				if s == k {
					return "x"
				}
			}
			return ""
		})
		if got != want {
			t.Errorf("%q: %s", set, got)
		}
	}
}

func TestOutput(t *testing.T) {
	for payload, want := range map[string]string{
		`{"tool_result":{"text_result_for_llm":"a"}}`:                           "a",
		`{"toolResult":{"textResultForLlm":"a"}}`:                               "a",
		`{"tool_result":{"text_result_for_llm":{"k": [1, 2]}}}`:                 `{"k":[1,2]}`,
		`{"tool_result":"plain"}`:                                               "plain",
		`{"tool_result":{"other":1}}`:                                           `{"other":1}`,
		`{"tool_response":"r"}`:                                                 "r",
		`{"tool_response":[1, "x"]}`:                                            `[1,"x"]`,
		`{"tool_result":{"text_result_for_llm":"n"},"tool_response":"r"}`:       "n",
		`{"tool_result":{"text_result_for_llm":"a","text_result_for_llm":"b"}}`: "b",
	} {
		e, err := Parse([]byte(payload), "PostToolUse")
		if got, ok := e.Output(); err != nil || !ok || got != want {
			t.Errorf("%s: %q %v %v", payload, got, ok, err)
		}
	}
}

func TestLastWins(t *testing.T) {
	var wide strings.Builder
	wide.WriteString(`{"k0":0`)
	for i := range 2000 {
		wide.WriteString(`,"k` + string(rune('a'+i%26)) + `":` + strings.Repeat("1", i%5+1))
	}
	wide.WriteString(`,"k0":9}`)
	for payload, want := range map[string]int{`{"a":1,"b":2,"a":3}`: 2, wide.String(): 27} {
		e, err := Parse([]byte(payload), "")
		if err != nil || len(e.Members) != want {
			t.Fatalf("%d members, %v", len(e.Members), err)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(payload), &m); err != nil {
			t.Fatal(err)
		}
		for k, v := range m {
			if string(e.Raw(k)) != string(v) {
				t.Errorf("%s: %s, want %s", k, e.Raw(k), v)
			}
		}
	}
}

func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"a":"b"}`), 1)
	f.Add([]byte(utf16Of(`{"a":"b"}`, true)), 3)
	f.Add([]byte("\xef\xbb\xbf{}\x00\x00"), 2)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		whole, werr := NewInput(&drip{pieces: [][]byte{bytes.Clone(data)}}, time.Now).Object()
		cut, cerr := NewInput(&drip{pieces: pieces(string(data), max(size, 1))}, time.Now).Object()
		if len(data) > 0 && (werr != cerr || !bytes.Equal(whole, cut)) {
			t.Errorf("whole %q %v, in pieces %q %v", whole, werr, cut, cerr)
		}
		if !utf8.Valid(whole) {
			t.Errorf("%q", whole)
		}
		if werr == nil {
			if e, err := Parse(whole, ""); err == nil {
				e.Guarded()
				e.Output()
			}
		}
	})
}
