package guard

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/span"
)

// TestJudgedAsTheHookDoes: what goes to the remote tier is, byte for byte, what
// the hook itself would send over TCP for the same event.
func TestJudgedAsTheHookDoes(t *testing.T) {
	token := "ghp_" + strings.Repeat("aB3dE6", 6)
	payloads := map[string]string{
		"identifiers": `{"hook_event_name":"PreToolUse","session_id":"` + token + `","cwd":"/home/` + token + `","transcript_path":"/x/` + token + `","tool_name":"Bash","tool_input":{"command":"echo ` + token + ` ; export A_KEY=abc$(x)"}}`,
		"numbers":     `{"hook_event_name":"PreToolUse","n":12,"d":1.5e3,"b":true,"z":null,"list":["` + token + `",{"k":1}],"timestamp":1700000000000,"tool_name":"Bash","tool_input":{}}`,
		"keys":        `{"hook_event_name":"PreToolUse","` + token + `":1,"tool_name":"Bash","tool_input":{"` + token + `":"` + token + `"}}`,
		"collision":   `{"hook_event_name":"PreToolUse","hook":"` + token + `","surface":"x","tool_name":"Bash","tool_input":{"command":"mysql -phunter2"},"note":"mysql -phunter2"}`,
		"output":      `{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"x"},"tool_result":{"result_type":"success","text_result_for_llm":"{\"a\":\"` + token + `\"}"}}`,
	}
	for _, file := range fixtures(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		payloads[file] = string(data)
	}
	for name, payload := range payloads {
		t.Run(name, func(t *testing.T) {
			e, err := event.Parse([]byte(payload), "PreToolUse")
			if err != nil {
				t.Fatal(err)
			}
			s := span.New(e, event.CLI, span.Model{}, time.Unix(1700000000, 5))
			host := span.Host{Owner: "dev", Name: "box", Arch: "amd64", SDK: "1.0.0", Source: "user"}
			host.Describe(s)
			want := string(s.Judged().Question(MaxQuestion))
			got, err := judged(s.Question(MaxQuestion))
			if err != nil || string(got) != want {
				t.Errorf("%v\n got %s\nwant %s", err, got, want)
			}
		})
	}
	for _, body := range []string{"", "{}", `{"resourceSpans":[]}`, `{"input":{}}`, "x"} {
		if got, err := judged([]byte(body)); err == nil {
			t.Errorf("%q became %s", body, got)
		}
	}
}
