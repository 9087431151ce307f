package verdict

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/post"
)

func TestDecode(t *testing.T) {
	for body, want := range map[string]string{ // decision, fail-open reason, duration, mask
		`{"decision":"ALLOW"}`:                                                                        "ALLOW   false",
		`{"decision":"REVIEW","durationMs":1.5}`:                                                      "REVIEW  1.5 false",
		`{"decision":"DENY","durationMs":null}`:                                                       "DENY   false",
		`{"decision":"DENY","durationMs":"3"}`:                                                        "DENY   false",
		`{"decision":"DENY","durationMs":1e999}`:                                                      "DENY   false",
		`{"decision":"DENY","durationMs":-1}`:                                                         "DENY   false",
		`{"decision":"DENY","reason":[],"userMessage":7}`:                                             "DENY   false",
		`{"decision":"ALLOW","failOpenReason":"timeout"}`:                                             "ALLOW timeout  false",
		`{"decision":"ALLOW","failOpenReason":"whatever"}`:                                            "ALLOW   false",
		"\xef\xbb\xbf" + `{"decision":"DENY"}` + " \r\n\x00":                                          "DENY   false",
		`{"decision":"DENY"} trailing`:                                                                "DENY   false",
		`{"decision":"ALLOW","decision":"DENY"}`:                                                      "DENY   false",
		`{"decision":"\u0044ENY"}`:                                                                    "DENY   false",
		`{"decision":"DENY","outputAction":"mask"}`:                                                   "DENY   false",
		`{"decision":"DENY","outputAction":"mask","redactions":[]}`:                                   "DENY   false",
		`{"decision":"DENY","outputAction":"mask","redactions":{"a":1}}`:                              "DENY   false",
		`{"decision":"DENY","outputAction":"MASK","redactions":[` + entry:                             "DENY   false",
		`{"decision":"DENY","outputAction":"mask","redactions":[` + entry:                             "DENY   true",
		`{"decision":"DENY","outputAction":"mask","redactions":[7,` + entry:                           "DENY   false",
		`{"decision":"DENY","outputAction":"mask","redactions":[{"value":"","category":"k"},` + entry: "DENY   false",
		`{"decision":"DENY","outputAction":"mask","redactions":[{"value":"x"},` + entry:               "DENY   false",
		`{"decision":"DENY","outputAction":"mask","redactions":[{"value":7,"category":"k"},` + entry:  "DENY   false",
		`{"decision":"deny"}`:                                                                         "",
		`{"decision":"maybe"}`:                                                                        "",
		`{"Decision":"DENY"}`:                                                                         "",
		`{"decision":["DENY"]}`:                                                                       "",
		`{"decision":"DENY"`:                                                                          "",
		`{}`:                                                                                          "", `[]`: "", `null`: "", `"DENY"`: "", ``: "", `not json`: "",
		`{"a":{"decision":"DENY"}}`: "",
	} {
		got := ""
		if v := decode([]byte(body)); v != nil {
			mask := "false"
			if v.Mask {
				mask = "true"
			}
			got = strings.Join([]string{string(v.Decision), v.FailOpen, v.Duration, mask}, " ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

const entry = `{"value":"x","category":"k"}]}`

func TestDeniesEarly(t *testing.T) {
	for body, want := range map[string]bool{
		`{"decision":"DENY","redactions":[{"val`:     true,
		`{"a":[1,{}],"decision" : "DENY" , "b":"`:    true,
		"\xef\xbb\xbf {\"decision\":\"\\u0044ENY\",": true,
		`{"a":"\"decision\":\"DENY\"","b":"`:         false,
		`{"a":{"decision":"DENY"},"b":"`:             false,
		`{"decision":"ALLOW","b":"`:                  false,
		`{"decision":"DEN`:                           false,
		`[{"decision":"DENY"},`:                      false,
		`{"decision":"DENY`:                          false,
		`{decision:"DENY",`:                          false,
		``:                                           false,
	} {
		if got := deniesEarly([]byte(body)); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}

func TestJudge(t *testing.T) {
	deny := []byte(`{"decision":"DENY"}`)
	for name, c := range map[string]struct {
		a        post.Answer
		err      error
		decision Decision
		open     string
		noted    bool
	}{
		"deny":                 {post.Answer{Status: 200, Body: deny}, nil, Deny, "", false},
		"other status":         {post.Answer{Status: 201, Body: deny}, nil, Allow, Fault, true},
		"redirect":             {post.Answer{Status: 307, Body: deny}, nil, Allow, Fault, true},
		"gone":                 {post.Answer{Status: 410, Body: deny}, nil, Allow, Refused, true},
		"timeout":              {post.Answer{}, post.ErrTimeout, Allow, Timeout, true},
		"connection":           {post.Answer{}, errors.New("refused"), Allow, Fault, true},
		"whole, then timeout":  {post.Answer{Status: 200, Body: deny}, post.ErrTimeout, Deny, "", false},
		"half, then timeout":   {post.Answer{Status: 200, Body: deny[:10]}, post.ErrTimeout, Allow, Timeout, true},
		"cut after the denial": {post.Answer{Status: 200, Body: []byte(`{"decision":"DENY","x":"`), Cut: true}, nil, Deny, "", true},
		"cut before it":        {post.Answer{Status: 200, Body: []byte(`{"x":"`), Cut: true}, nil, Allow, Fault, true},
		"not a verdict":        {post.Answer{Status: 200, Body: []byte(`[]`)}, nil, Allow, Fault, true},
	} {
		v, err := judge(c.a, c.err)
		if v.Decision != c.decision || v.FailOpen != c.open || (err != nil) != c.noted {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

func TestAsk(t *testing.T) {
	var mu sync.Mutex // the connection orders the calls, but not for the race detector
	var sizes []int
	var headers []http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		mu.Lock()
		sizes, headers = append(sizes, b.Len()), append(headers, r.Header)
		mu.Unlock()
		if b.Len() > MaxRetry {
			w.WriteHeader(413)
			return
		}
		_, _ = w.Write([]byte(`{"decision":"DENY"}`))
	}))
	defer s.Close()
	q := Question{Endpoint: s.URL, Body: func(limit int) []byte { return bytes.Repeat([]byte("x"), limit) }, Budget: func(int) time.Duration { return 3500 * time.Microsecond * 1000 },
		Latest: time.Now().Add(time.Minute), Env: func(string) string { return "" }}
	v, err := Ask(q)
	mu.Lock()
	defer mu.Unlock()
	if err != nil || v.Decision != Deny || len(sizes) != 2 || sizes[0] != MaxQuestion || sizes[1] != MaxRetry {
		t.Errorf("%+v %v %v", v, err, sizes)
	}
	for _, h := range headers {
		if _, ok := h["X-Pinta-Relay-Token"]; !ok || h.Get("X-Pinta-Guard-Budget-Ms") != "3500" || h.Get("User-Agent") != UserAgent() {
			t.Errorf("headers %v", h)
		}
	}
}

func plainEvent(t *testing.T, payload, binding string) *event.Event {
	e, err := event.Parse([]byte(payload), binding)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestForms(t *testing.T) {
	for _, c := range []struct {
		payload, binding string
		surface          event.Surface
		want             Form
	}{
		{`{}`, "preToolUse", event.CLI, TopLevel},
		{`{}`, "PreToolUse", event.CLI, Nested},
		{`{}`, "PRETOOLUSE", event.Cloud, Nested},
		{`{"hookName":" preToolUse "}`, "", event.Ext, TopLevel},
		{`{}`, "PermissionRequest", event.CLI, Behavior},
		{`{}`, "permissionrequest", event.Ext, Behavior},
		{`{"tool_result":1}`, "PostToolUse", event.Ext, Modified},
		{`{"toolResult":1,"tool_response":2}`, "postToolUse", event.Ext, Modified},
		{`{"tool_response":2}`, "PostToolUse", event.Cloud, Modified},
		{`{"tool_response":2}`, "PostToolUse", event.CLI, Stopped},
		{`{"tool_response":null}`, "PostToolUse", event.CLI, Stopped},
		{`{}`, "PostToolUse", event.Ext, Stopped},
		{`{}`, "PostToolUse", event.CLI, Modified},
	} {
		if got := FormOf(plainEvent(t, c.payload, c.binding), c.surface); got != c.want {
			t.Errorf("%s %s %s: %d, want %d", c.payload, c.binding, c.surface, got, c.want)
		}
	}
}

func TestDenialTexts(t *testing.T) {
	same := func(s string) string { return s }
	for name, c := range map[string]struct {
		v            Verdict
		text, notice string
	}{
		"message":          {Verdict{UserMessage: "m", Reason: "r"}, "m", "m"},
		"reason":           {Verdict{Reason: "r"}, "r", defaultNotice},
		"nothing":          {Verdict{}, "guard_deny", defaultNotice},
		"blank":            {Verdict{UserMessage: " \n", Reason: "\t"}, "guard_deny", defaultNotice},
		"blank once clean": {Verdict{UserMessage: "\x1b\x00", Reason: "r"}, "r", defaultNotice},
		"evaluation":       {Verdict{UserMessage: "m", EvaluationID: " ev-1 "}, "m (evaluation ev-1)", "m (evaluation ev-1)"},
		"long":             {Verdict{UserMessage: strings.Repeat("é", 5000), EvaluationID: "e"}, strings.Repeat("é", 4096) + " (evaluation e)", strings.Repeat("é", 4096) + " (evaluation e)"},
		"controls":         {Verdict{UserMessage: "a\x1b[31m\u202eb\nc\u2028d\x00"}, "a[31mb\nc\nd", "a[31mb\nc\nd"},
	} {
		d := Word(Nested, &c.v, same)
		if d.text != c.text || d.notice != c.notice {
			t.Errorf("%s: %.80q, %.80q", name, d.text, d.notice)
		}
	}
	hide := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, "hunter2", "[X]"), "a\rb", "[Y]")
	}
	for said, want := range map[string]string{"hunt\u200ber2": "[X]", "\x07hunter\x1b2": "[X]", "a\rb": "[Y]", "\ufeffa\rb hun\u202eter2": "[Y] [X]", strings.Repeat("x", maxText-3) + "hunter2": strings.Repeat("x", maxText-3) + "[X]"} {
		if got := Tidy(hide, said); got != want {
			t.Errorf("%.40q shows as %.40q", said, got)
		}
	}
	d := Word(Behavior, &Verdict{UserMessage: "see hunter2", EvaluationID: "hunter2"}, func(s string) string { return strings.ReplaceAll(s, "hunter2", "[X]") })
	if got := string(d.Withhold()); got != `{"behavior":"deny","message":"see [X] (evaluation [X])"}`+"\n" {
		t.Error(got)
	}
}

func TestLines(t *testing.T) {
	for f := TopLevel; f <= Stopped; f++ {
		for _, line := range [][]byte{Plain(f), Word(f, &Verdict{UserMessage: "a\nb\"\\\u2028<&>"}, func(s string) string { return s }).Withhold()} {
			if !json.Valid(line) || bytes.Count(line, []byte("\n")) != 1 || !bytes.HasSuffix(line, []byte("}\n")) || !utf8.Valid(line) {
				t.Errorf("%q", line)
			}
		}
	}
	d := Word(Modified, &Verdict{UserMessage: "n"}, func(s string) string { return s })
	if got := string(d.Mask("out\nput")); got != `{"modifiedResult":{"resultType":"success","textResultForLlm":"n\n\n`+afterMask+`\n\nout\nput"}}`+"\n" {
		t.Error(got)
	}
	if got := d.Mask(strings.Repeat("x", maxLine)); !bytes.Equal(got, d.Withhold()) {
		t.Errorf("a line of %d bytes", len(got))
	}
	if got := d.Mask(strings.Repeat("\x01", maxLine/6)); len(got) > maxLine {
		t.Errorf("a line of %d bytes", len(got))
	}
	if Word(Stopped, &Verdict{}, func(s string) string { return s }).Masks() {
		t.Error("VS Code Local has no channel for a result")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"decision":"DENY","outputAction":"mask","redactions":[{"value":"x","category":"k"}],"evaluationId":"e"}`))
	f.Add([]byte(strings.Repeat("[", 100)))
	f.Fuzz(func(t *testing.T, body []byte) {
		early := deniesEarly(body)
		v := decode(body)
		if v == nil {
			return
		}
		if v.Decision == Allow && early && bytes.Count(body, []byte("decision")) == 1 {
			t.Error("two readings of one answer")
		}
		for form := TopLevel; form <= Stopped; form++ {
			line := Word(form, v, func(s string) string { return s }).Mask("o")
			if !json.Valid(line) || bytes.Count(line, []byte("\n")) != 1 {
				t.Errorf("%q", line)
			}
		}
	})
}
