package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pinta-ai/pinta-agent/enroll/token"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pinta-manager": main})
}

// The scripts under testdata/script show the commands as an administrator uses them.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":   await,
			"jsonget": jsonget,
			"tokenof": tokenof,
		},
	})
}

// await FILE waits until a file is there.
func await(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	for end := time.Now().Add(20 * time.Second); ; {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s doesn't appear", args[0])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// jsonget VAR FILE PATH sets a variable to a member of a JSON file (stdout for the last command's output): a.0.b.
func jsonget(ts *testscript.TestScript, neg bool, args []string) {
	var v any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[1])), &v); err != nil {
		ts.Fatalf("%s is no JSON: %v", args[1], err)
	}
	for _, k := range strings.Split(args[2], ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[k]
		case []any:
			var i int
			if _, err := fmt.Sscan(k, &i); err != nil || i >= len(x) {
				ts.Fatalf("no element %s", k)
			}
			v = x[i]
		default:
			ts.Fatalf("nothing at %s", args[2])
		}
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

// tokenof checks that a token says what the Manager says.
func tokenof(ts *testscript.TestScript, neg bool, args []string) {
	t, err := token.Parse(args[0])
	if err != nil {
		ts.Fatalf("token: %v", err)
	}
	if t.Manager != args[1] || t.ID != args[2] || t.Root.String() != args[3] || t.Pin.IsZero() {
		ts.Fatalf("token says %s %s %s", t.Manager, t.ID, t.Root)
	}
}

// No command's help lacks an example of what it does, and no flag a word about it.
func TestHelp(t *testing.T) {
	var out strings.Builder
	if code := run([]string{"--help"}, nil, &out, &out); code != 0 || !strings.Contains(out.String(), "token") {
		t.Fatalf("%d %s", code, out.String())
	}
	out.Reset()
	if run([]string{"tokn"}, nil, &out, &out); !strings.Contains(out.String(), "did you mean token?") {
		t.Errorf("no hint: %s", out.String())
	}
	keyFile := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(keyFile, []byte(`{"server":"https://127.0.0.1:1","key":"pintakey_x_y"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{
		"serve": exitUsage, "nothing": exitUsage, "token nothing": exitUsage, "token revoke": exitUsage, "token create --uses x": exitUsage,
		"token list": exitUsage, "policy apply": exitUsage, "policy rollback x": exitUsage, "events search --since yesterday": exitUsage, "events tail -n 0": exitUsage,
		"events search --limit 0": exitUsage, "audit list --limit -5": exitUsage, "policy history --limit 0": exitUsage, "serve --data x --checkin -5s": exitUsage,
		"token list --server nonsense --admin-key-file " + keyFile: exitUsage, "token list --admin-key-file none.json": exitFailed, "tokn": exitUsage,
		"policy test -f " + filepath.Join(t.TempDir(), "none.yaml"): exitFailed,
	} {
		out.Reset()
		if code := run(strings.Fields(args), nil, &out, &out); code != want || !strings.Contains(out.String(), "pinta-manager: ") {
			t.Errorf("%s: %d %s", args, code, out.String())
		}
	}
}
