package demo

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

// world is the throw-away machine: a Manager, a collector, one home, an agent.
type world struct {
	dir       string
	programs  programs
	collector *collector
	manager   *process
	agent     *process
	managerAt ready
}

// ready is what the Manager writes when it serves (manager.md section 7).
type ready struct {
	URL          string `json:"url"`
	AdminKeyFile string `json:"adminKeyFile"`
}

func (w *world) root() string { return filepath.Join(w.dir, "machine") }
func (w *world) home() string { return filepath.Join(w.root(), "home", "dev") }
func (w *world) repo() string { return filepath.Join(w.home(), "repo") }
func (w *world) hookFile() string {
	return filepath.Join(w.home(), ".copilot", "hooks", "pinta-copilot.json")
}

// process is a program that the demo started. Its output goes to a file.
type process struct {
	command *exec.Cmd
	log     string
	done    chan struct{}
	end     sync.Once
}

// start runs a program in the background with its output in dir/name.log.
func (w *world) start(name, program string, args ...string) (*process, error) {
	p := &process{log: filepath.Join(w.dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.command = exec.Command(program, args...)
	p.command.Dir = w.dir
	p.command.Env = w.environment()
	p.command.Stdout, p.command.Stderr = out, out
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.command.Wait() //nolint:errcheck // its end is what counts
		close(p.done)
	}()
	return p, nil
}

// environment is the same for all programs and holds nothing of the caller's
// that could lead out of the demo's folder.
func (w *world) environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "USERPROFILE=" + w.dir, "TMPDIR=" + w.dir,
		"SystemRoot=" + os.Getenv("SystemRoot"), "LANG=C.UTF-8"}
}

// kill ends a process at once, as kill -9 does.
func (p *process) kill() {
	if p == nil {
		return
	}
	p.end.Do(func() { p.command.Process.Kill() }) //nolint:errcheck // it may have ended already
	<-p.done
}

// stop asks a process to end, and kills it after 6 s.
func (p *process) stop() {
	if p == nil {
		return
	}
	p.command.Process.Signal(os.Interrupt) //nolint:errcheck // not on Windows: killed below
	select {
	case <-p.done:
	case <-time.After(6 * time.Second):
		p.kill()
	}
}

// tail is the end of what a process printed, for an error message.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	return string(data[max(0, len(data)-2000):])
}

// SessionCommand is the hidden subcommand of a session's stand-in.
const SessionCommand = "session"

// startSession starts a program by the name of Copilot's, which waits for the
// end of its stdin: to the agent a session that has read its hooks.
func (w *world) startSession() (end func(), err error) {
	program := filepath.Join(w.dir, "bin", "copilot"+filepath.Ext(w.programs.agent))
	if err := os.Link(w.programs.agent, program); err != nil {
		return nil, err
	}
	command := exec.Command(program, "demo", SessionCommand)
	command.Env = w.environment()
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	return func() { in.Close(); command.Wait() }, nil //nolint:errcheck // its end is all that counts
}

func (w *world) close() {
	w.agent.stop()
	w.manager.stop()
	if w.collector != nil {
		w.collector.close()
	}
}

// call runs one command of ours to its end and decodes its JSON line.
func (w *world) call(ctx context.Context, into any, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Env = w.environment()
	command.Dir = w.dir
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

// admin runs a pinta-manager command against the demo's Manager.
func (w *world) admin(ctx context.Context, into any, args ...string) error {
	args = append(args, "--json", "--server", w.managerAt.URL, "--admin-key-file", w.managerAt.AdminKeyFile)
	return w.call(ctx, into, w.programs.manager, args...)
}

func (w *world) startManager(ctx context.Context) error {
	readyFile := filepath.Join(w.dir, "manager.ready")
	var err error
	w.manager, err = w.start("manager", w.programs.manager, "serve", "--data", filepath.Join(w.dir, "manager"),
		"--listen", "127.0.0.1:0", "--ready-file", readyFile, "--forward", w.collector.url)
	if err != nil {
		return err
	}
	err = until(ctx, 10*time.Second, func() error {
		select {
		case <-w.manager.done:
			return permanent{errors.New("the Manager ended:\n" + w.manager.tail())}
		default:
		}
		data, err := os.ReadFile(readyFile)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &w.managerAt)
	})
	if err != nil {
		return fmt.Errorf("wait for the Manager: %w", err)
	}
	return nil
}

// startAgent starts the service and waits until it answers on its socket.
func (w *world) startAgent(ctx context.Context) error {
	var err error
	if w.agent, err = w.start("agent", w.programs.agent, "--root", w.root(), "run"); err != nil {
		return err
	}
	err = until(ctx, 10*time.Second, func() error {
		select {
		case <-w.agent.done:
			return permanent{errors.New("the agent ended:\n" + w.agent.tail())}
		default:
		}
		var status struct {
			Service struct {
				Running bool `json:"running"`
			} `json:"service"`
		}
		if err := w.call(ctx, &status, w.programs.agent, "--root", w.root(), "status", "--json"); err != nil {
			return err
		}
		if !status.Service.Running {
			return errors.New("the agent's socket does not answer")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for the agent: %w", err)
	}
	return nil
}

// permanent marks an error that waiting does not cure.
type permanent struct{ error }

// until tries f every 20 ms until it succeeds, or returns its last error when
// the time is over.
func until(ctx context.Context, limit time.Duration, f func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if stop, ok := errors.AsType[permanent](err); ok {
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
