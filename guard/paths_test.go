package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTargets: each command's own targets, in the folder that it runs in.
func TestTargets(t *testing.T) {
	for text, want := range map[string][]string{
		"chown -R u . && rm -rf build":             {"/home/dev/repo", "/home/dev/repo/build"},
		"cd a && rm b && cd - && rm c":             {"/home/dev/repo/a/b", "/home/dev/repo/c"},
		"pushd a; pushd b; popd; rm c; popd; rm d": {"/home/dev/repo/a/c", "/home/dev/repo/d"},
		"cd; rm a":                                      {"~/a"},
		"cd a; cd ../b; cd -; cd -; rm x":               {"/home/dev/repo/b/x"},
		"pushd a; cd b; popd; rm c":                     {"/home/dev/repo/c"},
		"popd; cd -; rm x":                              {"/home/dev/repo/x"},
		"find a b -name c -delete":                      {"/home/dev/repo/a", "/home/dev/repo/b"},
		"find -L a -exec rm {} +":                       {"/home/dev/repo/a", "/home/dev/repo/{}"},
		"find -name c -delete":                          {"/home/dev/repo"},
		"find a -exec cat {} +":                         nil,
		"find a | xargs -0 rm":                          {"/home/dev/repo/a"},
		"ls a | xargs rm -f":                            {"/home/dev/repo/a"},
		"ls | sort":                                     nil,
		"cat x > y":                                     {"/home/dev/repo/y"},
		"find . -name x | while read f; do rm $f; done": {"/home/dev/repo", "$f"},
	} {
		ev, err := EventFromPayload([]byte(payload(t, "Bash", map[string]any{"command": text}, nil)), "")
		if err != nil {
			t.Fatal(err)
		}
		ev.resolve(context.Background(), "shell")
		var got []string
		for _, c := range ev.commands {
			got = append(got, c.Targets...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestManyPaths: names without end hide no command, or the call is not judged.
func TestManyPaths(t *testing.T) {
	for n, want := range map[int]string{3000: "pinta_protect_files", 40_000: "guard_overrun"} {
		var names strings.Builder
		for i := range n {
			fmt.Fprintf(&names, " f%d", i)
		}
		e := NewEngine(Options{})
		var v Verdict
		e.opt.OnVerdict = func(x Verdict) { v = x }
		ev, err := EventFromPayload([]byte(payload(t, "Bash", map[string]any{"command": "touch" + names.String() + "; rm -rf ~/.copilot/hooks"}, nil)), "")
		if err != nil {
			t.Fatal(err)
		}
		if e.Evaluate(context.Background(), ev, 10*time.Second); v.Rule != want {
			t.Errorf("%d names: %q, want %q", n, v.Rule, want)
		}
	}
}
