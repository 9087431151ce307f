package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/pinta-ai/pinta-agent/manager"
)

// serveOptions make this process the Manager.
type serveOptions struct{ dir, listen string }

func (o serveOptions) run(ctx context.Context) error {
	return manager.Serve(ctx, manager.ServeOptions{
		Options: manager.Options{Dir: o.dir, Policies: manager.Guard{}, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))},
		Listen:  o.listen, ReadyFile: filepath.Join(o.dir, "ready.json"),
	})
}

// process is the Manager's process.
type process struct {
	dir, url, keyFile string
	cmd               *exec.Cmd
	done              chan struct{}
}

// start starts the Manager, at the address that it had before.
func (p *process) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	listen := "127.0.0.1:0"
	if u, err := url.Parse(p.url); err == nil && u.Host != "" {
		listen = u.Host
	}
	ready := filepath.Join(p.dir, "ready.json")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p.cmd, p.done = exec.Command(self, "-serve", p.dir, "-listen", listen), make(chan struct{})
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is seen by what fails
		close(p.done)
	}()
	for end := time.Now().Add(20 * time.Second); ; {
		text, err := os.ReadFile(ready)
		if err == nil {
			var r struct{ URL, AdminKeyFile string }
			if err := json.Unmarshal(text, &r); err != nil {
				return err
			}
			p.url, p.keyFile = r.URL, r.AdminKeyFile
			return nil
		}
		select {
		case <-p.done:
			return errors.New("the Manager ended at its start")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fmt.Errorf("the Manager isn't ready: %w", err)
		}
	}
}

// end ends the Manager and tells how long that took.
func (p *process) end(sig os.Signal) time.Duration {
	began := time.Now()
	if runtime.GOOS == "windows" {
		sig = os.Kill
	}
	if p.cmd.Process.Signal(sig) != nil {
		_ = p.cmd.Process.Kill()
	}
	<-p.done
	return time.Since(began)
}

// rss is the Manager's resident memory in KiB; 0 where /proc isn't.
func (p *process) rss() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("VmRSS:"))
	field, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
	n, err := strconv.ParseInt(string(field), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// cpu is the Manager's CPU time so far.
func (p *process) cpu() time.Duration { return cpuOf(strconv.Itoa(p.cmd.Process.Pid)) }

// cpuOf is the CPU time of a process; 0 where /proc isn't.
func cpuOf(pid string) time.Duration {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte(") "))
	var ticks time.Duration
	for i, f := range bytes.Fields(rest) {
		if i == 11 || i == 12 { // utime, stime, in hundredths of a second
			n, err := strconv.ParseInt(string(f), 10, 64)
			if err != nil {
				return 0
			}
			ticks += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return ticks
}

// terminate is how a service manager ends it.
const terminate = syscall.SIGTERM
