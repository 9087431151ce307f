package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// rigged is a process whose parts tests replace.
type rigged struct {
	*Process
	mu             sync.Mutex
	stdout, stderr bytes.Buffer
	writes         int
	exited         chan struct{}
}

const preToolUse = `{"hook_event_name":"PreToolUse","session_id":"s1","cwd":"/r","tool_name":"bash","tool_input":{"command":"ls"}}`

func rig(t *testing.T, stdin string, env map[string]string) *rigged {
	r := &rigged{exited: make(chan struct{})}
	home := t.TempDir()
	r.Process = &Process{
		Stdin: &onceSource{data: []byte(stdin)},
		Lookup: func(key string) (string, bool) {
			if v, ok := env[key]; ok {
				return v, true
			}
			if key == "HOME" || key == "USERPROFILE" {
				return home, true
			}
			return "", false
		},
		Environ:  func() []string { return nil },
		Now:      time.Now,
		ReadFile: safefile.ReadFile,
		Policy:   func() (Policy, error) { return nil, os.ErrNotExist },
		Stdout: func(line []byte) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.writes++
			r.stdout.Write(line)
		},
		Stderr: func(line []byte) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.stderr.Write(line)
		},
	}
	var once sync.Once
	r.Exit = func() {
		once.Do(func() { close(r.exited) })
		runtime.Goexit()
	}
	return r
}

// run runs the hook and waits for its end.
func (r *rigged) run(t *testing.T) {
	t.Helper()
	go Run(r.Process)
	select {
	case <-r.exited:
	case <-time.After(15 * time.Second):
		t.Fatal("the run doesn't end")
	}
}

// guard starts a guard that denies, and counts its questions.
func guard(t *testing.T, answer string) (url string, asked *atomic.Int32) {
	asked = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked.Add(1)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

const denies = `{"decision":"DENY","reason":"deny_x","userMessage":"No."}`

// TestFaultsNeverHideTheDenial breaks one part of the process at a time: the
// guard is asked and its denial printed all the same, in one write.
func TestFaultsNeverHideTheDenial(t *testing.T) {
	for name, breakIt := range map[string]func(t *testing.T, r *rigged, env map[string]string){
		"nothing": func(*testing.T, *rigged, map[string]string) {},
		"env file panics": func(_ *testing.T, r *rigged, _ map[string]string) {
			r.ReadFile = func(string, int64) ([]byte, error) { panic("x") }
		},
		"env file fails": func(_ *testing.T, r *rigged, _ map[string]string) {
			r.ReadFile = func(string, int64) ([]byte, error) { return nil, io.ErrUnexpectedEOF }
		},
		"env file hangs": func(_ *testing.T, r *rigged, _ map[string]string) {
			r.ReadFile = func(string, int64) ([]byte, error) { select {} }
		},
		"env file is nonsense": func(_ *testing.T, r *rigged, _ map[string]string) {
			r.ReadFile = func(string, int64) ([]byte, error) { return bytes.Repeat([]byte("\x00=\xff"), 1000), nil }
		},
		"data dir is a file": func(t *testing.T, _ *rigged, env map[string]string) {
			env["COPILOT_PLUGIN_DATA"] = filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(env["COPILOT_PLUGIN_DATA"], nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"clock in 1900": func(_ *testing.T, r *rigged, _ map[string]string) {
			zero := time.Now()
			r.Now = func() time.Time { return time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Since(zero)) }
		},
		"stderr panics": func(_ *testing.T, r *rigged, env map[string]string) {
			r.Stderr = func([]byte) { panic("x") }
			env["COPILOT_PLUGIN_DATA"] = "/dev/null/x"
		},
		"stderr hangs": func(_ *testing.T, r *rigged, env map[string]string) {
			r.Stderr = func([]byte) { select {} }
			env["COPILOT_PLUGIN_DATA"] = "/dev/null/x"
		},
		"policy panics": func(_ *testing.T, r *rigged, env map[string]string) {
			env["PINTA_COPILOT_SOURCE"], env["COPILOT_CLI_BINARY_VERSION"] = "user", "1.0.102"
			r.Policy = func() (Policy, error) { panic("x") }
		},
		"policy hangs": func(_ *testing.T, r *rigged, env map[string]string) {
			env["PINTA_COPILOT_SOURCE"], env["COPILOT_CLI_BINARY_VERSION"] = "user", "1.0.102"
			r.Policy = func() (Policy, error) { select {} }
		},
		"collector is no URL": func(_ *testing.T, _ *rigged, env map[string]string) { env["COPILOT_PLUGIN_OPTION_ENDPOINT"] = "::::" },
		"slow disk, then fine": func(_ *testing.T, r *rigged, _ map[string]string) {
			r.ReadFile = func(string, int64) ([]byte, error) { time.Sleep(600 * time.Millisecond); return nil, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, asked := guard(t, denies)
			env := map[string]string{"PINTA_GUARD_ENDPOINT": url, "PINTA_GUARD_TIMEOUT_MS": "3000"}
			r := rig(t, preToolUse, env)
			breakIt(t, r, env)
			start := time.Now()
			r.run(t)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if asked.Load() != 1 || r.writes != 1 || !strings.Contains(r.stdout.String(), `"permissionDecision":"deny"`) {
				t.Errorf("asked %d times, %d writes, stdout %q, stderr %q", asked.Load(), r.writes, r.stdout.String(), r.stderr.String())
			}
		})
	}
}

// TestFilesHang: a home that hangs costs the shared time, once, and no event.
func TestFilesHang(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the fault seam of safefile is the same there")
	}
	url, asked := guard(t, denies)
	release := make(chan struct{})
	defer close(release)
	r := rig(t, preToolUse, map[string]string{"PINTA_GUARD_ENDPOINT": url, "PINTA_GUARD_TIMEOUT_MS": "3000"})
	var reads atomic.Int32
	r.ReadFile = func(string, int64) ([]byte, error) {
		reads.Add(1)
		<-release
		return nil, nil
	}
	start := time.Now()
	r.run(t)
	if took := time.Since(start); took > 10*time.Second || took < diskTime/2 {
		t.Errorf("took %v", took)
	}
	if asked.Load() != 1 || reads.Load() != 1 {
		t.Errorf("asked %d times, read %d times", asked.Load(), reads.Load())
	}
}

// TestFateOwesTheDenial: once a DENY is known, a fault prints it in its
// plainest form.
func TestFateOwesTheDenial(t *testing.T) {
	r := rig(t, "", nil)
	f := &fate{p: r.Process}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer f.end()
		f.owe([]byte("{}\n"))
		panic("fault")
	}()
	<-done
	if r.stdout.String() != "{}\n" {
		t.Errorf("stdout %q", r.stdout.String())
	}
	f.settle()
	if r.writes != 1 {
		t.Errorf("%d writes", r.writes)
	}
}

// TestStdinHangs: half an object and then nothing ends the wait, and exits.
func TestStdinHangs(t *testing.T) {
	for _, c := range []struct {
		name string
		src  event.Source
		note string
	}{
		{"stalls", &stallSource{data: []byte(preToolUse[:40])}, "stopped"},
		{"fails", failSource{}, "empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, asked := guard(t, denies)
			r := rig(t, "", map[string]string{"PINTA_GUARD_ENDPOINT": url})
			r.Stdin = c.src
			r.run(t)
			if asked.Load() != 0 || r.writes != 0 || !strings.Contains(r.stderr.String(), c.note) {
				t.Errorf("asked %d, writes %d, stderr %q", asked.Load(), r.writes, r.stderr.String())
			}
		})
	}
}

// stallSource gives its data and then waits in vain.
type stallSource struct{ data []byte }

func (s *stallSource) Read(p []byte, _ time.Duration) (int, error) {
	n := copy(p, s.data)
	s.data = s.data[n:]
	if n == 0 {
		return 0, event.ErrWait // as if the wait were over
	}
	return n, nil
}

type failSource struct{}

func (failSource) Read([]byte, time.Duration) (int, error) { return 0, errors.New("bad descriptor") }

// policyText is a machine's hook file that holds this.
func policyText(s string) Policy {
	return struct {
		io.ReaderAt
		io.Closer
	}{strings.NewReader(s), io.NopCloser(nil)}
}

// TestYield: the user's run leaves the event to the machine's entry only when
// that is in force for this very client.
func TestYield(t *testing.T) {
	const policy = `{"version":1,"hooks":{"PreToolUse":[{"type":"command","exec":"/bin/sh","args":["-c","x"],"env":{"PINTA_COPILOT_EVENT":"PreToolUse","PINTA_COPILOT_SOURCE":"machine"},"timeoutSec":15,"x-pinta":{"owner":"pinta-agent"}}]}}`
	with := func(member string) string { return strings.Replace(policy, `"timeoutSec"`, member+`,"timeoutSec"`, 1) }
	base := map[string]string{"PINTA_COPILOT_SOURCE": "user", "PINTA_COPILOT_EVENT": "PreToolUse", "COPILOT_CLI_BINARY_VERSION": "1.0.102"}
	for _, c := range []struct {
		name    string
		env     map[string]string
		stdin   string
		policy  string
		environ []string
		yields  bool
	}{
		{name: "in force", yields: true},
		{name: "a control character", policy: strings.Replace(policy, `"x"]`, "\"x\ny\"]", 1)},
		{name: "a control character in a key", policy: strings.Replace(policy, `"args"`, "\"ar\tgs\"", 1)},
		{name: "later version", env: map[string]string{"COPILOT_CLI_BINARY_VERSION": "1.1.0"}, yields: true},
		{name: "much later version", env: map[string]string{"COPILOT_CLI_BINARY_VERSION": "2.0.0-3"}, yields: true},
		{name: "CLI transcript", stdin: `{"hook_event_name":"PreToolUse","tool_name":"bash","transcript_path":"/h/.copilot/session-state/s/events.jsonl"}`, yields: true},
		{name: "no source", env: map[string]string{"PINTA_COPILOT_SOURCE": ""}},
		{name: "machine source", env: map[string]string{"PINTA_COPILOT_SOURCE": "machine"}},
		{name: "older version", env: map[string]string{"COPILOT_CLI_BINARY_VERSION": "1.0.88"}},
		{name: "no version", env: map[string]string{"COPILOT_CLI_BINARY_VERSION": ""}},
		{name: "version is nonsense", env: map[string]string{"COPILOT_CLI_BINARY_VERSION": "9.x.9"}},
		{name: "no binding", env: map[string]string{"PINTA_COPILOT_EVENT": ""}},
		{name: "another event", env: map[string]string{"PINTA_COPILOT_EVENT": "PostToolUse"}},
		{name: "editor variable", environ: []string{"A=1", "VSCODE_PID=7"}},
		{name: "tool_response", stdin: `{"hook_event_name":"PostToolUse","tool_name":"bash","tool_response":"x"}`},
		{name: "editor transcript", stdin: `{"hook_event_name":"PreToolUse","tool_name":"bash","transcript_path":"/u/workspaceStorage/x/t.jsonl"}`},
		{name: "no policy", policy: "-"},
		{name: "policy of others", policy: strings.Replace(policy, "pinta-agent", "somebody", 1)},
		{name: "policy that the host skips", policy: strings.Replace(policy, `"version":1`, `"version":1,"x-pinta":{"owner":"pinta-agent"}`, 1)},
		{name: "policy disabled", policy: strings.Replace(policy, `"version":1`, `"version":1,"disableAllHooks":true`, 1)},
		{name: "policy without a version", policy: strings.Replace(policy, `"version":1,`, "", 1)},
		{name: "policy of version 2", policy: strings.Replace(policy, `"version":1`, `"version":2`, 1)},
		{name: "policy entry for users", policy: strings.Replace(policy, `"machine"`, `"user"`, 1)},
		{name: "policy entry skipped", policy: strings.Replace(policy, `:15`, `:0`, 1)},
		{name: "policy entry without command", policy: strings.Replace(policy, `"exec":"/bin/sh"`, `"exec":""`, 1)},
		{name: "policy broken", policy: policy[:len(policy)-1]},
		{name: "policy with more behind it", policy: policy + "\x00"},
		{name: "policy with space around it", policy: "\n " + policy + "\r\n\t", yields: true},
		{name: "policy behind a mark", policy: "\xef\xbb\xbf" + policy},
		{name: "policy too large", policy: policy + strings.Repeat(" ", maxPolicy)},
		{name: "policy too large for the host", policy: policy + strings.Repeat(" ", 70<<10)},
		{name: "half of a surrogate pair", policy: with(`"a":"\ud800"`)},
		{name: "the other half", policy: with(`"\uDC00":"a"`)},
		{name: "no UTF-8 for another event", policy: strings.Replace(policy, `"hooks":{`, "\"hooks\":{\"Stop\":[\"\xff\"],", 1)},
		{name: "a number out of range", policy: with(`"a":1e400`)},
		{name: "a number of many digits", policy: with(`"a":` + strings.Repeat("9", 400))},
		{name: "nesting too deep for the host", policy: with(`"a":` + strings.Repeat("[", 130) + strings.Repeat("]", 130))},
		{name: "all of that for another event", policy: strings.Replace(policy, `"hooks":{`, `"hooks":{"Stop":[{"a":"\ud800"}],`, 1)},
		{name: "another event not an array", policy: strings.Replace(policy, `"hooks":{`, `"hooks":{"Stop":{},`, 1)},
		{name: "for some tools only", policy: with(`"matcher":"Write"`)},
		{name: "in another folder", policy: with(`"cwd":"/nonexistent"`)},
		{name: "with a command beside", policy: with(`"bash":"x"`)},
		{name: "another program", policy: strings.Replace(policy, `"/bin/sh"`, `"/bin/true"`, 1)},
		{name: "blank program", policy: strings.Replace(policy, `"/bin/sh"`, `" "`, 1)},
		{name: "program is a number", policy: strings.Replace(policy, `"exec":"/bin/sh"`, `"exec":5`, 1)},
		{name: "program twice, the last is empty", policy: with(`"exec":""`)},
		{name: "no program", policy: strings.Replace(policy, `"exec":"/bin/sh","args":["-c","x"]`, `"powershell":"x","bash":""`, 1)},
		{name: "no arguments", policy: strings.Replace(policy, `"args":["-c","x"],`, "", 1)},
		{name: "arguments are a text", policy: strings.Replace(policy, `["-c","x"]`, `"-c x"`, 1)},
		{name: "argument is a number", policy: strings.Replace(policy, `["-c","x"]`, `["-c",5]`, 1)},
		{name: "empty script", policy: strings.Replace(policy, `["-c","x"]`, `["-c",""]`, 1)},
		{name: "NUL in the script", policy: strings.Replace(policy, `["-c","x"]`, `["-c","x\u0000"]`, 1)},
		{name: "NUL in a variable", policy: strings.Replace(policy, `"env":{`, `"env":{"A":"\u0000",`, 1)},
		{name: "a variable that is none", policy: strings.Replace(policy, `"env":{`, `"env":{"A":5,`, 1)},
		{name: "entry of another event", policy: strings.Replace(policy, `"PINTA_COPILOT_EVENT":"PreToolUse"`, `"PINTA_COPILOT_EVENT":"Stop"`, 1)},
		{name: "entry that asks no guard", policy: strings.Replace(policy, `"env":{`, `"env":{"PINTA_GUARD_DISABLED":"1",`, 1)},
		{name: "time limit beyond the host's timer", policy: strings.Replace(policy, `:15`, `:3000000`, 1)},
		{name: "behind an entry that hides it", policy: strings.Replace(policy, `[{`, `[{"type":"command","command":""},{`, 1)},
		{name: "behind what is no entry", policy: strings.Replace(policy, `[{`, `[5,{`, 1)},
		{name: "script with escapes", policy: strings.Replace(policy, `"x"]`, `"\u00e9 \ud83d\ude00 \"\\ \n"]`, 1), yields: true},
		{name: "hooks twice, the last counts", policy: strings.Replace(policy, `"version":1`, `"version":1,"hooks":{}`, 1), yields: true},
		{name: "hooks twice, the last is empty", policy: policy[:len(policy)-1] + `,"hooks":{}}`},
		{name: "event twice, the last is empty", policy: strings.Replace(policy, `}]}}`, `}],"PreToolUse":[]}}`, 1)},
		{name: "event spelt by escapes", policy: strings.Replace(policy, `{"PreToolUse"`, `{"Pre\u0054oolUse"`, 1), yields: true},
		{name: "entry of a large list", policy: strings.Replace(policy, `}]}}`, `},{"type":"command","bash":"`+strings.Repeat("x", 9000)+`"}]}}`, 1), yields: true},
		{name: "large event", stdin: preToolUse[:len(preToolUse)-1] + `,"x":"` + strings.Repeat("x", 16384-len(preToolUse)) + `"}`, yields: true},
		{name: "policy too deep", policy: strings.Repeat("[", 5000)},
		{name: "event not an array", policy: strings.Replace(strings.Replace(policy, "[{", "{", 1), "}]", "}", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, asked := guard(t, denies)
			env := map[string]string{"PINTA_GUARD_ENDPOINT": url, "PINTA_GUARD_TIMEOUT_MS": "3000"}
			for _, m := range []map[string]string{base, c.env} {
				for k, v := range m {
					env[k] = v
				}
			}
			stdin := c.stdin
			if stdin == "" {
				stdin = preToolUse
			}
			r := rig(t, stdin, env)
			r.Environ = func() []string { return c.environ }
			r.Policy = func() (Policy, error) {
				switch c.policy {
				case "-":
					return nil, os.ErrNotExist
				case "":
					return policyText(policy), nil
				}
				return policyText(c.policy), nil
			}
			var files atomic.Int32
			r.ReadFile = func(string, int64) ([]byte, error) { files.Add(1); return nil, os.ErrNotExist }
			r.run(t)
			if (asked.Load() == 0) != c.yields || (r.writes == 0) != c.yields || (files.Load() == 0) != c.yields {
				t.Errorf("asked %d times, %d writes, %d env files read; stderr %q", asked.Load(), r.writes, files.Load(), r.stderr.String())
			}
		})
	}
}

// TestPolicyHangs: an /etc that hangs costs the run neither its env file nor,
// if that hangs as well, its question.
func TestPolicyHangs(t *testing.T) {
	for _, c := range []struct {
		name   string
		inFile bool // the guard stands in the env file, which can be read
	}{{"env file read", true}, {"env file hangs too", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, asked := guard(t, denies)
			line := "PINTA_GUARD_ENDPOINT=" + url + "\nPINTA_GUARD_TIMEOUT_MS=3000\n"
			env := map[string]string{"PINTA_COPILOT_SOURCE": "user", "PINTA_COPILOT_EVENT": "PreToolUse", "COPILOT_CLI_BINARY_VERSION": "1.0.102"}
			if !c.inFile {
				env["PINTA_GUARD_ENDPOINT"], env["PINTA_GUARD_TIMEOUT_MS"] = url, "3000"
			}
			r := rig(t, preToolUse, env)
			release := make(chan struct{})
			t.Cleanup(func() { close(release) })
			var policies atomic.Int32
			r.Policy = func() (Policy, error) {
				policies.Add(1)
				<-release
				return nil, os.ErrNotExist
			}
			r.ReadFile = func(string, int64) ([]byte, error) {
				if !c.inFile {
					<-release
				}
				return []byte(line), nil
			}
			r.run(t)
			r.mu.Lock()
			defer r.mu.Unlock()
			if asked.Load() != 1 || r.writes != 1 || policies.Load() != 1 {
				t.Errorf("asked %d times, %d writes, looked for the policy %d times; stderr %q", asked.Load(), r.writes, policies.Load(), r.stderr.String())
			}
		})
	}
}

// TestPolicyInPieces: whatever the buffer, the installer's own file is found
// for each of its events, and no part of it is.
func TestPolicyInPieces(t *testing.T) {
	data, err := os.ReadFile("../installer/testdata/90-pinta.json")
	if err != nil {
		t.Fatal(err)
	}
	whole := string(bytes.TrimSpace(data))
	for _, size := range []int{1, 7, 64, 1000, page, 1 << 20} {
		for _, binding := range []string{"SessionStart", "PreToolUse", "Notification", "ErrorOccurred"} {
			if !inForce(policyText(whole), make([]byte, size), binding) {
				t.Errorf("%s is not found in pieces of %d bytes", binding, size)
			}
		}
		if inForce(policyText(whole), make([]byte, size), "preToolUse") {
			t.Errorf("pieces of %d bytes: an event is found that is not there", size)
		}
	}
	for n := range len(whole) {
		if inForce(policyText(whole[:n]), make([]byte, 1+n%page), "PreToolUse") {
			t.Fatalf("found in the first %d of %d bytes", n, len(whole))
		}
	}
}

// FuzzPolicy: the size of the buffer makes no difference, and what is found in
// force a strict reader finds, too: the host is one.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(`{"version":1,"hooks":{"a":[{"type":"command","exec":"/bin/sh","args":["-c","x"],"env":{"PINTA_COPILOT_EVENT":"a","PINTA_COPILOT_SOURCE":"machine"},"timeoutSec":15,"x-pinta":{"owner":"pinta-agent"}}]}}`), uint16(3))
	f.Add([]byte(`{"hooks":{"a":[]},"hooks":{"b":[{}]} }`), uint16(1))
	f.Fuzz(func(t *testing.T, data []byte, size uint16) {
		small := inForce(policyText(string(data)), make([]byte, max(size, 1)), "a")
		if large := inForce(policyText(string(data)), make([]byte, len(data)+1), "a"); small != large {
			t.Errorf("in pieces of %d bytes: %v, at once: %v", size, small, large)
		}
		if !small {
			return
		}
		var policy struct {
			Version json.Number                  `json:"version"`
			Hooks   map[string][]json.RawMessage `json:"hooks"`
		}
		strict := json.NewDecoder(bytes.NewReader(data))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&policy); err != nil || !json.Valid(data) || policy.Version != "1" || len(policy.Hooks["a"]) == 0 {
			t.Errorf("in force, but %v: %q", err, data)
		}
	})
}

// FuzzRun is a whole run: any payload, answer and env file end in at most one
// JSON line, and a complete question is asked for every guarded event.
func FuzzRun(f *testing.F) {
	const (
		line  = `{"savedAt":"2026-01-02T03:04:05.678Z","payload":{"resourceSpans":[{"a":1}]}}` + "\n"
		store = `{"s0":"01ARZ3NDEKTSV4RRFFQ69G5FAV","s1":"01ARZ3NDEKTSV4RRFFQ69G5FAW"}`
		lines = `{"type":"session.start","timestamp":"2026-01-02T03:04:05Z","data":{"sessionId":"s1","selectedModel":"m"}}` + "\n" +
			`{"type":"hook.start","timestamp":"2026-01-02T03:04:06Z","data":{"input":{"sessionId":"s1","toolCalls":[{"id":"c1","name":"bash","args":{"command":"ls"}}]}}}` + "\n" +
			`{"type":"assistant.message","timestamp":"2026-01-02T03:04:06Z","data":{"model":"m","toolRequests":[{"toolCallId":"c1"}]}}` + "\n"
	)
	timed := strings.Replace(preToolUse, `"cwd"`, `"timestamp":"2026-01-02T03:04:07Z","cwd"`, 1)
	f.Add([]byte(preToolUse), []byte(denies), []byte("A=b\n"), []byte(line), []byte(store), []byte{})
	f.Add([]byte(timed), []byte(`{"decision":"ALLOW"}`), []byte("A=b\n"), []byte(line[:40]+line), []byte(store[:30]), []byte(lines))
	f.Add([]byte(timed), []byte(denies), []byte("="), []byte("\x00"+strings.Repeat("[", 200)+"\n"+line+"[]"), []byte(strings.Repeat(`{"s1":`, 200)), []byte(strings.ReplaceAll(lines, "m", `\ud800`)))
	f.Add([]byte(`{"hook_event_name":"PostToolUse","tool_name":"x","tool_result":{"text_result_for_llm":"{\"a\":\"secret-1\"}"}}`),
		[]byte(`{"decision":"DENY","outputAction":"mask","redactions":[{"value":"secret-1","category":"k"}]}`), []byte("export PINTA_TELEMETRY_TIMEOUT_MS='5'\r\n"), []byte{}, []byte("null"), []byte{})
	f.Add([]byte("\xff\xfe{\x00}\x00"), []byte(`{"decision":"ALLOW"}`), []byte("\xef\xbb\xbfX"), []byte(line+line), []byte(store), []byte(lines))
	f.Add([]byte(`{"toolName":"a","toolArgs":"{\"command\":\"x\"}","hookName":"preToolUse"}`+"\x00\x00"), []byte("\xef\xbb\xbf"+denies+" \x00"), []byte{}, []byte{}, []byte{}, []byte{})
	var mu sync.Mutex
	var answer []byte
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/guard") {
			asked++
			_, _ = w.Write(answer)
		}
		if !json.Valid(body) {
			panic("a body is not JSON: " + string(body))
		}
	}))
	defer s.Close()
	f.Fuzz(func(t *testing.T, stdin, reply, file, waiting, store, transcript []byte) {
		mu.Lock()
		answer, asked = reply, 0
		mu.Unlock()
		home := t.TempDir()
		for name, data := range map[string][]byte{"pinta-copilot-data/failed-spans.jsonl": waiting, "pinta-copilot-data/trace.json": store, "session-state/s1/events.jsonl": transcript} {
			path := filepath.Join(home, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		r := rig(t, string(stdin), map[string]string{"PINTA_GUARD_ENDPOINT": s.URL + "/guard", "PINTA_GUARD_TIMEOUT_MS": "5000", "COPILOT_PLUGIN_OPTION_ENDPOINT": s.URL + "/traces",
			"COPILOT_HOME": home, "PINTA_GUARD_DISABLED": "0", "PINTA_TELEMETRY_TIMEOUT_MS": "4000", "PINTA_COPILOT_EVENT": ""})
		r.ReadFile = func(string, int64) ([]byte, error) { return file, nil }
		r.run(t)
		out := r.stdout.Bytes()
		if len(out) > 0 && (r.writes != 1 || out[len(out)-1] != '\n' || bytes.IndexByte(out[:len(out)-1], '\n') >= 0 || !json.Valid(out)) {
			t.Errorf("stdout %q", out)
		}
		for line := range strings.Lines(r.stderr.String()) {
			if !strings.HasPrefix(line, notePrefix) {
				t.Errorf("stderr %q", line)
			}
		}
		raw, err := event.NewInput(&onceSource{data: stdin}, time.Now).Object()
		if err != nil {
			return
		}
		if e, err := event.Parse(raw, ""); err == nil && e.Guarded() && asked == 0 {
			t.Error("a guarded event was not asked about")
		}
	})
}
