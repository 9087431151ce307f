package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Process is a program in the background. Its output goes to a file.
type Process struct {
	Log string

	command *exec.Cmd
	done    chan struct{}
	end     sync.Once
}

// start runs a program in the background with its output in dir/name.log.
func start(dir, name, program string, args ...string) (*Process, error) {
	p := &Process{Log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.command = exec.Command(program, args...)
	p.command.Dir = dir
	p.command.Env = environment(dir)
	p.command.Stdout, p.command.Stderr = out, out
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.command.Wait()
		close(p.done)
	}()
	return p, nil
}

// environment is the same for all programs and holds nothing of the caller's
// that could lead out of dir.
func environment(dir string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "USERPROFILE=" + dir, "TMPDIR=" + dir,
		"SystemRoot=" + os.Getenv("SystemRoot"), "LANG=C.UTF-8"}
}

// PID is the process's id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Kill ends a process at once, as kill -9 does, and waits for its end.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	p.end.Do(func() { p.command.Process.Kill() })
	<-p.done
}

// Stop asks a process to end, and kills it after 6 s.
func (p *Process) Stop() {
	if p == nil {
		return
	}
	p.command.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(6 * time.Second):
		p.Kill()
	}
}

// ended returns an error that no waiting cures if the process is over.
func (p *Process) ended(what string) error {
	select {
	case <-p.done:
		return Permanent{fmt.Errorf("%s ended:\n%s", what, p.Tail())}
	default:
		return nil
	}
}

// Tail is the end of what a process printed, for a message.
func (p *Process) Tail() string {
	if p == nil {
		return "(never started)"
	}
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return ""
	}
	return string(data[max(0, len(data)-2000):])
}

// call runs one command to its end and decodes its JSON line.
func call(ctx context.Context, dir string, into any, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Env = environment(dir)
	command.Dir = dir
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(program), args[0], err, stderr.Bytes(), stdout.Bytes())
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
		return fmt.Errorf("%s %s: its output is no JSON: %w\n%s", filepath.Base(program), args[0], err, stdout.Bytes())
	}
	return nil
}

// Permanent marks an error that waiting does not cure.
type Permanent struct{ error }

// Unwrap returns the marked error.
func (p Permanent) Unwrap() error { return p.error }

// Forever marks err as Permanent.
func Forever(err error) error { return Permanent{err} }

// Until tries f every 20 ms until it succeeds or fails for good, or returns its
// last error when the time is over.
func Until(ctx context.Context, limit time.Duration, f func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if stop, ok := errors.AsType[Permanent](err); ok {
			return stop.error
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %w", limit, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
