package users

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The worker protocol: the parent writes one JSON document and a LF on the
// worker's stdin; the worker answers with lines on its stdout, the last of which
// is the answer. While stdin stays open the worker lives; its end is the
// parent's end. Nothing else passes: no arguments, no environment, no secret
// of another user. The parent takes every line for hostile: bounded in length
// and number, decoded strictly, and never acted upon beyond what was asked.

const (
	// MaxMessage bounds a request and each line of an answer, in bytes.
	MaxMessage = 4 << 20
	// RunLimit is how long a worker may take for one request. A home that is
	// away (a dead network share) ends here and holds up no other.
	RunLimit = 30 * time.Second
)

// Handler does the worker's work. It may emit lines before it returns the last.
type Handler func(ctx context.Context, request []byte, emit func(line any) error) (any, error)

// Serve is the worker's side: it gives up what rights are left to give up,
// reads the request, calls handle and writes what it returns. The exit status
// is 0 if an answer was written.
func Serve(stdin io.Reader, stdout io.Writer, handle Handler) int {
	if err := Confine(); err != nil {
		return 3
	}
	in := bufio.NewReaderSize(io.LimitReader(stdin, MaxMessage), 64<<10)
	request, err := in.ReadBytes('\n')
	if err != nil {
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // the parent never writes more: the end of stdin is its end
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	emit := func(line any) error {
		b, err := json.Marshal(line)
		if err != nil {
			return err
		}
		_, err = stdout.Write(append(b, '\n'))
		return err
	}
	answer, err := handle(ctx, request, emit)
	if err != nil {
		answer = failure{err.Error()}
	}
	if emit(answer) != nil {
		return 4
	}
	return 0
}

// failure is the answer of a worker that couldn't do what it was asked.
type failure struct {
	Error string `json:"workerError"`
}

// Spawner starts workers.
type Spawner struct {
	// Program and Args start a worker: by default the running image with the
	// argument "worker".
	Program string
	Args    []string
	// Limit overrides RunLimit.
	Limit time.Duration
}

// ErrNotSignedIn: on Windows a worker needs the session of its user.
var ErrNotSignedIn = errors.New("the user isn't signed in")

// Run starts a worker as the account, sends it the request and returns its
// last line. It returns by the limit even if the worker can't be killed
// because it hangs in the kernel.
func (s Spawner) Run(ctx context.Context, a Account, request any) ([]byte, error) {
	limit := s.Limit
	if limit == 0 {
		limit = RunLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last []byte
	err := s.Stream(ctx, a, request, func(line []byte) bool {
		last = append(last[:0], line...)
		return true
	})
	if err == nil && last == nil {
		err = errors.New("no answer")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: is the home away? %w", limit, err)
	}
	if err != nil {
		return nil, fmt.Errorf("worker of %s: %w", a.Name, err)
	}
	var f failure
	if json.Unmarshal(last, &f) == nil && f.Error != "" {
		return nil, fmt.Errorf("worker of %s: %s", a.Name, Clean(f.Error))
	}
	return last, nil
}

// Stream is Run for a worker that goes on telling: line is called for each
// line until it returns false, the worker ends, or ctx does.
func (s Spawner) Stream(ctx context.Context, a Account, request any, line func([]byte) bool) error {
	msg, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if len(msg) >= MaxMessage {
		return errors.New("request too large")
	}
	p, err := s.start(ctx, a)
	if err != nil {
		return err
	}
	defer p.end()
	lines := make(chan []byte)
	fault := make(chan error, 1)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		if _, err := p.stdin.Write(append(msg, '\n')); err != nil {
			fault <- err
			return
		}
		sc := bufio.NewScanner(p.stdout)
		sc.Buffer(make([]byte, 64<<10), MaxMessage)
		for sc.Scan() {
			select {
			case lines <- append([]byte(nil), sc.Bytes()...):
			case <-stop:
				return
			}
		}
		fault <- sc.Err()
	}()
	for {
		select {
		case l := <-lines:
			if !line(l) {
				return nil
			}
		case err := <-fault:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Clean makes a worker's text fit for a log or a terminal: one line, at most
// 500 characters, no control characters.
func Clean(s string) string {
	out := make([]rune, 0, min(len(s), 500))
	for _, r := range s {
		if len(out) == 500 {
			return string(out) + "…"
		}
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			r = ' '
		}
		out = append(out, r)
	}
	return string(out)
}

// process is a running worker.
type process struct {
	stdin  io.WriteCloser
	stdout io.ReadCloser
	kill   func()
	wait   func()
}

// end closes the pipes, kills what still runs, and reaps it without waiting
// for one that hangs in the kernel.
func (p *process) end() {
	p.stdin.Close()
	p.kill()
	p.stdout.Close()
	go p.wait()
}
