package shell

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fragments are what the scripts are made of. None is a glob: what one stands
// for is in no script.
var fragments = strings.Split("\"a\"|'a'|#|#b|(|)|$(|`|\\|\n| |;|{ |; }|<<E|\nE\n|\"|'|x=|f()|case x in x)|;;|\nesac|!|\x01|\x01\x01|&|&&|${x}|$x|$'a'|$((1))|<<'E'|<<-E|\n\tE\n|"+
	"if true\nthen |\nfi|cat|>a|a|\\\n|for i in 1\ndo |\ndone|[[ a ]]|<(|!(|:;|{,}|{a,}|~|x=(|((1))|\f|\r|eval |f|in |{|}|2>&1|<<<|%|^|else |true|function f ", "|")

// TestSeesWhatBashRuns: of scripts at random, whatever bash comes to run is among
// the commands. PINTA_SCRIPTS asks for more than a few of them, PINTA_SEED for
// others.
func TestSeesWhatBashRuns(t *testing.T) {
	scripts, r := atRandom(1500)
	unseen := map[string]string{} // by file
	for i := range scripts {
		text := scriptAtRandom(r)
		if s := Posix(context.Background(), text, new(Room)); !s.Limited && !echoes(s) {
			unseen[fmt.Sprintf("%05d", i)] = text
		}
	}
	for file, out := range printedByBash(t, unseen) {
		if bytes.HasPrefix(out, []byte("MARK")) || bytes.Contains(out, []byte("\nMARK")) {
			t.Errorf("%q runs echo, which isn't seen", unseen[file])
		}
	}
	t.Logf("%d scripts, %d of them without a sign of echo", scripts, len(unseen))
}

// atRandom is how many scripts to make, and what to make them by.
func atRandom(scripts int) (int, *rand.Rand) {
	if n, err := strconv.Atoi(os.Getenv("PINTA_SCRIPTS")); err == nil {
		scripts = n
	}
	seed, err := strconv.ParseUint(os.Getenv("PINTA_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	return scripts, rand.New(rand.NewPCG(seed, 0))
}

// printedByBash runs scripts, which find no program but bash, and returns what
// each of them prints.
func printedByBash(t *testing.T, scripts map[string]string) map[string][]byte {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	dir := t.TempDir()
	for _, name := range []string{"work", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(bash, filepath.Join(dir, "bin", "bash")); err != nil {
		t.Fatal(err)
	}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bash, "-c", `FUNCNEST=9; cd work; for f in ../[0-9]*; do ( . "$f" ) >"$f.out" 2>/dev/null 3>&1 </dev/null; done`)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + filepath.Join(dir, "bin")}
	if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("%v: %s", err, out)
	}
	printed := map[string][]byte{}
	for name := range scripts {
		if printed[name], err = os.ReadFile(filepath.Join(dir, name+".out")); err != nil {
			t.Fatal(err)
		}
	}
	return printed
}

func scriptAtRandom(r *rand.Rand) string {
	var b strings.Builder
	n := 3 + r.IntN(9)
	mark := r.IntN(n)
	for i := range n {
		fragment := fragments[r.IntN(len(fragments))]
		if i == mark {
			fragment = "echo MARK"
		}
		b.WriteString(strings.ReplaceAll(fragment, "\x01", "|"))
		if r.IntN(3) == 0 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func echoes(s Script) bool {
	for _, c := range s.Commands {
		if c.Name == "echo" && len(c.Argv) > 0 {
			return true
		}
	}
	return false
}
