package installer

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
)

func TestInstallRepairUninstall(t *testing.T) {
	b := newBench(t, "alice", "bob")
	write(t, b.home("bob", ".copilot", envFileName), "# mine\nFOO=bar", 0o644)
	before := map[string]map[string]string{"alice": tree(t, b.home("alice")), "bob": tree(t, b.home("bob"))}

	plan, err := Plan(context.Background(), b.host, b.d)
	must(t, err)
	done := b.apply()
	if got, want := opsOf(done), opsOf(plan); !reflect.DeepEqual(got, want) {
		t.Errorf("apply did\n%q\nthe plan said\n%q", got, want)
	}
	b.settled()
	for _, u := range done.Users {
		if u.Hook != "repaired" {
			t.Errorf("%s: %+v", u.Name, u)
		}
	}
	if got := read(t, b.d.Layout.HookBinary); got != fakeHook {
		t.Errorf("hook binary holds %q", got)
	}
	if got, want := read(t, b.envFile("bob")), "COPILOT_PLUGIN_OPTION_ENDPOINT="+b.d.Layout.TracesURL()+"\nPINTA_GUARD_ENDPOINT="+b.d.Layout.GuardURL()+"\nPINTA_GUARD_TIMEOUT_MS=400\n# mine\nFOO=bar"; got != want {
		t.Errorf("env file holds %q, want %q", got, want)
	}
	var f struct {
		Version int
		Hooks   map[string][]Entry
	}
	must(t, json.Unmarshal([]byte(read(t, b.hookFile("alice"))), &f))
	if len(f.Hooks) != len(Events) || f.Version != 1 {
		t.Errorf("hook file: %+v", f)
	}

	b.d.Uninstall = &Removal{}
	plan, err = Plan(context.Background(), b.host, b.d)
	must(t, err)
	done = b.apply()
	if got, want := opsOf(done), opsOf(plan); !reflect.DeepEqual(got, want) {
		t.Errorf("uninstall did\n%q\nthe plan said\n%q", got, want)
	}
	b.settled()
	for u, want := range before {
		sameTree(t, tree(t, b.home(u)), want)
	}
	for _, p := range []string{b.d.Layout.HookBinary, b.d.Layout.PolicyFile(), filepath.Dir(b.d.Layout.PolicyDir)} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s is still there", p)
		}
	}
}

var origTime = regexp.MustCompile(`\.orig-\d+T\d+Z`)

// opsOf lists what was done, or would be; the time in a kept file's name is
// that of the doing.
func opsOf(c Changes) []string {
	var out []string
	for _, s := range c.Steps {
		for _, o := range s.Ops {
			out = append(out, origTime.ReplaceAllString(o.String(), ".orig-TIME"))
		}
	}
	return out
}
