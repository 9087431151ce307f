package hook_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const relayToken = "tok-conformance"

// hookBinary is the built binary that the black-box tests run.
var hookBinary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pinta-hook-")
	if err != nil {
		panic(err)
	}
	hookBinary = filepath.Join(dir, "pinta-hook")
	if runtime.GOOS == "windows" {
		hookBinary += ".exe"
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", hookBinary, "github.com/pinta-ai/pinta-agent/cmd/pinta-hook")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the hook: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// reply is one scripted answer of a stub server.
type reply struct {
	status  int
	body    []byte
	delay   time.Duration
	headers map[string]string
}

// request is what a stub server was sent.
type request struct {
	path    string
	headers map[string]string
	body    []byte
}

// stub is a guard or collector that answers by script and notes what it gets.
type stub struct {
	*httptest.Server
	mu     sync.Mutex
	script []reply
	seen   []request
}

func newStub(t testing.TB, script ...reply) *stub {
	s := &stub{script: script}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.stop)
	return s
}

// stop doesn't wait for answers that nobody waits for any more.
func (s *stub) stop() {
	s.CloseClientConnections()
	_ = s.Listener.Close()
}

func (s *stub) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client hung up: nothing was asked
	}
	q := request{path: r.URL.RequestURI(), headers: map[string]string{}, body: body}
	for k, v := range r.Header {
		q.headers[strings.ToLower(k)] = strings.Join(v, ", ")
	}
	s.mu.Lock()
	a := s.script[min(len(s.seen), len(s.script)-1)]
	s.seen = append(s.seen, q)
	s.mu.Unlock()
	select {
	case <-time.After(a.delay):
	case <-r.Context().Done():
		return
	}
	w.Header().Set("content-type", "application/json")
	for k, v := range a.headers {
		w.Header().Set(k, strings.ReplaceAll(v, "${SELF}", s.URL))
	}
	w.WriteHeader(max(a.status, 100))
	_, _ = w.Write(a.body)
}

func (s *stub) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.seen...)
}

// answering is a script of one successful answer.
func answering(body string) reply { return reply{status: 200, body: []byte(body)} }

// feed is how a run's stdin comes.
type feed struct {
	data  []byte
	hold  bool // the pipe stays open
	piece int  // bytes a piece, 0: all at once
	pause time.Duration
	limit time.Duration
}

// outcome is what the host saw of a run.
type outcome struct {
	code       int
	stdout     string
	stderr     string
	took       time.Duration
	brokenPipe bool
}

// invoke runs the hook as a host does.
func invoke(t testing.TB, in feed, env []string, dir string) outcome {
	t.Helper()
	cmd := exec.Command(hookBinary)
	cmd.Env, cmd.Dir = env, dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	broken := make(chan bool, 1)
	go func() { broken <- feedStdin(stdin, in) != nil }()

	limit := in.limit
	if limit == 0 {
		limit = 20 * time.Second
	}
	killer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	state, err := cmd.Process.Wait()
	took := time.Since(start)
	if !killer.Stop() || err != nil {
		t.Fatalf("the hook still ran after %v (%v)", limit, err)
	}
	out := outcome{code: state.ExitCode(), took: took}
	if in.hold {
		_ = stdin.Close()
		select {
		case out.brokenPipe = <-broken:
		default: // still pausing: its next write fails rightly
		}
	} else {
		out.brokenPipe = <-broken
	}
	_ = cmd.Wait()
	out.stdout, out.stderr = stdout.String(), stderr.String()
	return out
}

func feedStdin(w io.WriteCloser, in feed) error {
	data := in.data
	piece := in.piece
	if piece == 0 {
		piece = max(len(data), 1)
	}
	for len(data) > 0 {
		n := min(piece, len(data))
		if _, err := w.Write(data[:n]); err != nil {
			return err
		}
		if data = data[n:]; len(data) > 0 {
			time.Sleep(in.pause)
		}
	}
	if in.hold {
		return nil
	}
	if err := w.Close(); err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// runWithoutReaders runs the hook with stdout and stderr on pipes that nobody
// reads any more, and returns its status.
func runWithoutReaders(t *testing.T, stdin []byte, env []string, dir string) int {
	t.Helper()
	cmd := exec.Command(hookBinary)
	cmd.Env, cmd.Dir, cmd.Stdin = env, dir, bytes.NewReader(stdin)
	for _, stream := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		_ = r.Close()
		*stream = w
	}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}
