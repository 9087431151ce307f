package enroll

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pinta-ai/pinta-agent/enroll/enrolltest"
)

// argvHelper makes the test binary behave like the agent's main: it takes its
// arguments and shows what the system still sees of them.
const argvHelper = "ENROLL_TEST_ARGV"

func init() {
	if os.Getenv(argvHelper) == "" {
		return
	}
	args := TakeArgs()
	seen, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(strings.Join(args[1:], " ") + "\n")
	os.Stdout.Write(seen)
	os.Exit(0)
}

func TestTokenLeavesTheProcessList(t *testing.T) {
	s := enrolltest.Offline(t, "https://manager.example.com").Token(t, 1).Reveal()
	for _, c := range []struct {
		name string
		args []string
		hide string // what must be gone
	}{
		{"the token", []string{"--root", "/r", "enroll", s, "--json"}, s},
		{"quoted", []string{"enroll", `"` + s + `"`}, s},
		{"its head lost", []string{"enroll", s[3:]}, s[3:]},
		{"in a flag", []string{"enroll", "--token=" + s}, s},
		{"a long path stays", []string{"enroll", "--token-file", "/" + strings.Repeat("d/", 60)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], c.args...)
			cmd.Env = append(os.Environ(), argvHelper+"=1")
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			got, cmdline, _ := bytes.Cut(out, []byte("\n"))
			if string(got) != strings.Join(c.args, " ") {
				t.Errorf("the command got %q", got)
			}
			if c.hide != "" && bytes.Contains(cmdline, []byte(c.hide[:20])) {
				t.Errorf("the system shows %q", cmdline)
			}
			if c.hide == "" && !bytes.Contains(cmdline, []byte(c.args[len(c.args)-1])) {
				t.Errorf("a path was hidden: %q", cmdline)
			}
		})
	}
}
