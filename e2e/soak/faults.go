//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
)

// chaos does one fault after the other.
type chaos struct {
	o         options
	site      *site
	collector *collector
	machines  []*world.Machine
	rand      *rand.Rand

	mu   sync.Mutex // held while an agent is down
	done map[string]int
	err  error
}

type fault struct {
	name string
	do   func(ctx context.Context) error
}

func (c *chaos) faults() []fault {
	agent := func() *world.Machine { return c.machines[c.rand.IntN(len(c.machines))] }
	list := []fault{
		{"agent killed", func(ctx context.Context) error {
			m := agent()
			c.mu.Lock()
			defer c.mu.Unlock()
			m.Agent.Kill()
			wait(ctx, time.Duration(c.rand.IntN(3000))*time.Millisecond)
			return m.Start(context.WithoutCancel(ctx))
		}},
		{"agent restarted", func(ctx context.Context) error {
			m := agent()
			c.mu.Lock()
			defer c.mu.Unlock()
			m.Agent.Stop()
			return m.Start(context.WithoutCancel(ctx))
		}},
		{"guard and relay killed", func(context.Context) error {
			for _, pid := range children(agent().Agent.PID()) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			return nil
		}},
		{"guard and relay stopped for 2 s", func(ctx context.Context) error {
			pids := children(agent().Agent.PID())
			for _, pid := range pids {
				syscall.Kill(pid, syscall.SIGSTOP)
			}
			wait(ctx, 2*time.Second)
			for _, pid := range pids {
				syscall.Kill(pid, syscall.SIGCONT)
			}
			return nil
		}},
		{"Manager killed", func(ctx context.Context) error {
			c.site.kill()
			wait(ctx, time.Duration(c.rand.IntN(5000))*time.Millisecond)
			return c.site.start(context.WithoutCancel(ctx), c.collector.url)
		}},
		{"slow disk", func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return c.busyDisk(ctx)
		}},
	}
	for _, mood := range moods {
		list = append(list, fault{"collector: " + mood, func(ctx context.Context) error {
			c.collector.set(mood)
			wait(ctx, 5*time.Second)
			c.collector.set("")
			return nil
		}})
	}
	return list
}

// run does faults until ctx ends: all kinds in a random order, then again.
func (c *chaos) run(ctx context.Context) {
	c.done = map[string]int{}
	list := c.faults()
	for {
		for _, i := range c.rand.Perm(len(list)) {
			wait(ctx, time.Duration(1000+c.rand.IntN(3000))*time.Millisecond)
			if ctx.Err() != nil {
				return
			}
			if !c.o.json {
				fmt.Fprintln(c.o.log, time.Now().Format(time.TimeOnly), list[i].name)
			}
			if err := list[i].do(ctx); err != nil {
				c.err = fmt.Errorf("%s: %w", list[i].name, err)
				return
			}
			c.done[list[i].name]++
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// busyDisk writes and syncs beside the spool until ctx ends, so that its own
// writes and syncs take long.
func (c *chaos) busyDisk(ctx context.Context) error {
	path := filepath.Join(c.site.Dir, "noise")
	defer os.Remove(path)
	block := make([]byte, 1<<20)
	for ctx.Err() == nil {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		for range 32 {
			if _, err := f.Write(block); err != nil {
				break // a full disk is a fault as well
			}
			f.Sync()
		}
		f.Close()
	}
	return nil
}

// children are the processes that a process started; Linux only.
func children(pid int) (out []int) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	for _, task := range tasks {
		f, err := os.Open(task)
		if err != nil {
			continue
		}
		data, _ := io.ReadAll(f)
		f.Close()
		for rest := string(data); ; {
			var child int
			n, err := fmt.Sscan(rest, &child)
			if n == 0 || err != nil {
				break
			}
			out = append(out, child)
			rest = rest[len(fmt.Sprint(child))+1:]
		}
	}
	return out
}
