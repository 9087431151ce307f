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
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	scripts, seed := 1500, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("PINTA_SCRIPTS")); err == nil {
		scripts = n
	}
	if n, err := strconv.ParseUint(os.Getenv("PINTA_SEED"), 10, 64); err == nil {
		seed = n
	}
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	unseen := map[string]string{} // by file
	for i := range scripts {
		text := scriptAtRandom(r)
		if s := Posix(context.Background(), text, new(Room)); s.Limited || echoes(s) {
			continue
		}
		file := fmt.Sprintf("%05d", i)
		unseen[file] = text
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bash, "-c", `FUNCNEST=9; cd work; for f in ../[0-9]*; do ( . "$f" ) >"$f.out" 2>/dev/null </dev/null; done`)
	cmd.Dir, cmd.Env = dir, []string{"PATH=/nonexistent"}
	if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("%v: %s", err, out)
	}
	for file, text := range unseen {
		out, err := os.ReadFile(filepath.Join(dir, file+".out"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(out) {
			if bytes.HasPrefix(line, []byte("MARK")) {
				t.Errorf("%q runs echo, which isn't seen", text)
				break
			}
		}
	}
	t.Logf("%d scripts, %d of them without a sign of echo", scripts, len(unseen))
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
