package hook_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pinta-ai/pinta-agent/"

// TestDependencies holds the binary to what its start-up can afford
// (hook.md 11): our own packages of the hook, golang.org/x/sys, and of
// the standard library the packages in testdata/std.golden. Every package of
// the image is paid for in every run; a new one needs a measurement.
func TestDependencies(t *testing.T) {
	want, err := os.ReadFile("testdata/std.golden")
	if err != nil {
		t.Fatal(err)
	}
	allowed := strings.Fields(string(want))
	own := []string{"cmd/pinta-hook", "hook", "hook/config", "hook/event", "hook/model", "hook/post", "hook/queue", "hook/rawjson",
		"hook/redact", "hook/remote", "hook/span", "hook/trace", "hook/verdict", "internal/local", "internal/safefile", "internal/version"}
	for _, target := range []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"} {
		t.Run(target, func(t *testing.T) {
			goos, goarch, _ := strings.Cut(target, "/")
			cmd := exec.Command("go", "list", "-deps", module+"cmd/pinta-hook")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			for pkg := range strings.FieldsSeq(string(out)) {
				ours, isOurs := strings.CutPrefix(pkg, module)
				switch {
				case isOurs && slices.Contains(own, ours):
				case strings.HasPrefix(pkg, "golang.org/x/sys/"):
				case strings.HasPrefix(pkg, "internal/"), strings.HasPrefix(pkg, "vendor/"), strings.HasPrefix(pkg, "crypto/internal/"), strings.HasPrefix(pkg, "runtime/internal/"):
					// what a listed package brings along
				case slices.Contains(allowed, pkg):
				default:
					t.Errorf("%s is linked: it is not on the list", pkg)
				}
			}
		})
	}
	for _, pkg := range []string{"net/http", "regexp", "encoding/json", "os/exec", "os/user", "log", "testing"} {
		if slices.Contains(allowed, pkg) {
			t.Errorf("%s must not be on the list", pkg)
		}
	}
}

// TestSize keeps the image small: page faults of a larger one dominate.
func TestSize(t *testing.T) {
	fi, err := os.Stat(hookBinary)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Size() > 6<<20 {
		t.Errorf("the binary has %d bytes, the limit is 6 MiB", fi.Size())
	}
}
