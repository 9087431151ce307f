package users

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be a worker that does what its request says.
func TestMain(m *testing.M) {
	if len(os.Args) >= 2 && os.Args[1] == "worker" {
		syscall.Exit(Serve(os.Stdin, os.Stdout, func(ctx context.Context, request []byte, emit func(any) error) (any, error) {
			var what string
			json.Unmarshal(request, &what)
			switch what {
			case "status":
				b, err := os.ReadFile("/proc/thread-self/status")
				wd, _ := os.Getwd()
				return map[string]any{"status": string(b), "env": os.Environ(), "args": os.Args, "wd": wd}, err
			case "hang":
				select {}
			case "wait":
				emit(os.Getpid())
				<-ctx.Done()
				return "ended", nil
			case "flood":
				for emit(strings.Repeat("x", 1<<20)) == nil {
				}
			case "long line":
				os.Stdout.WriteString(strings.Repeat("x", MaxMessage+1) + "\n")
			case "fail":
				return nil, errors.New("no\nluck\x1b[0m")
			case "silent":
				os.Exit(0)
			}
			return what, nil
		}))
	}
	os.Exit(m.Run())
}

func other(t *testing.T) Account {
	if os.Geteuid() != 0 {
		return Account{Name: "self", UID: os.Geteuid(), GID: os.Getegid(), Home: "/"}
	}
	return Account{Name: "other", UID: 4711, GID: 4712, Home: "/home/other"}
}

// TestWorkerIsConfined: other user, no groups of root, no capabilities, nothing
// inherited, no way to gain rights.
func TestWorkerIsConfined(t *testing.T) {
	t.Setenv("PINTA_SECRET_OF_THE_SERVICE", "x")
	a := other(t)
	line, err := Spawner{}.Run(t.Context(), a, "status")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Status, Wd string
		Env, Args  []string
	}
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	field := func(name string) string {
		for _, l := range strings.Split(got.Status, "\n") {
			if v, ok := strings.CutPrefix(l, name+":"); ok {
				return strings.Join(strings.Fields(v), " ")
			}
		}
		return "?"
	}
	want := map[string]string{"NoNewPrivs": "1"}
	if os.Geteuid() == 0 {
		u, g := strconv.Itoa(a.UID), strconv.Itoa(a.GID)
		want["Uid"], want["Gid"], want["Groups"] = strings.TrimSpace(strings.Repeat(u+" ", 4)), strings.TrimSpace(strings.Repeat(g+" ", 4)), g
		want["CapEff"], want["CapPrm"], want["CapAmb"] = "0000000000000000", "0000000000000000", "0000000000000000"
	}
	for k, v := range want {
		if field(k) != v {
			t.Errorf("%s: %q, want %q", k, field(k), v)
		}
	}
	if len(got.Env) != 1 || got.Env[0] != "HOME="+a.Home {
		t.Errorf("environment %q", got.Env)
	}
	if len(got.Args) != 2 || got.Wd != "/" {
		t.Errorf("args %q, working directory %q", got.Args, got.Wd)
	}
}

// TestWorkerArguments: a command may have workers of several kinds.
func TestWorkerArguments(t *testing.T) {
	line, err := Spawner{Args: []string{"worker", "drain"}}.Run(t.Context(), other(t), "status")
	if err != nil || !strings.Contains(string(line), `"worker","drain"`) {
		t.Errorf("%s, %v", line, err)
	}
}

func TestWorkerFaults(t *testing.T) {
	const short, long = 2 * time.Second, 30 * time.Second // long: the worker answers by itself, when it has started
	for what, c := range map[string]struct {
		says  string
		limit time.Duration
	}{
		"hang": {"no answer within", short}, "flood": {"no answer within", short},
		"long line": {"too long", long}, "fail": {"no luck [0m", long}, "silent": {"no answer", long},
	} {
		begin := time.Now()
		_, err := Spawner{Limit: c.limit}.Run(t.Context(), other(t), what)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
		if d := time.Since(begin); d > c.limit+6*time.Second {
			t.Errorf("%s took %s", what, d)
		}
	}
}

// TestWorkerEndsWithItsParent: closing its stdin ends it, and so does the end
// of the stream's context.
func TestWorkerEndsWithItsParent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	pid := 0
	err := Spawner{}.Stream(ctx, other(t), "wait", func(line []byte) bool {
		pid, _ = strconv.Atoi(string(line))
		cancel()
		return true
	})
	if !errors.Is(err, context.Canceled) || pid == 0 {
		t.Fatalf("pid %d, %v", pid, err)
	}
	for end := time.Now().Add(5 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the worker lives on")
		}
	}
}

// TestWorkerEndsWithKilledParent: kill -9 of the parent kills the worker.
func TestWorkerEndsWithKilledParent(t *testing.T) {
	if os.Getenv("PINTA_TEST_PARENT") != "" {
		Spawner{}.Stream(context.Background(), other(t), "wait", func(line []byte) bool {
			fmt.Printf("worker %s\n", line)
			return true
		})
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	parent, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], "-test.run=^TestWorkerEndsWithKilledParent$"},
		&os.ProcAttr{Env: append(os.Environ(), "PINTA_TEST_PARENT=1"), Files: []*os.File{nil, w, os.Stderr}})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	var pid int
	if _, err := fmt.Fscanf(r, "worker %d\n", &pid); err != nil {
		t.Fatal(err)
	}
	parent.Kill()
	parent.Wait()
	for end := time.Now().Add(5 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(b), ") Z ") {
			break // dead, and nobody reaps in this container
		}
		if time.Now().After(end) {
			t.Fatal("the worker lives on")
		}
	}
}
