//go:build unix

// Command soak runs the product for a while under mixed load and faults, and
// counts: spans that went in, spans that the Manager and a plain collector
// have, lost ones, those that came twice, memory and latency. It exits 1 if the
// Manager misses a span or has one twice, or if the collector misses one. It is
// no test double of anything: the three programs are the real ones.
//
//	soak [-for 10m] [-rate 60] [-hooks 4] [-seed N] [-json]
//	soak -memory        memory of an idle agent, and of one with a full spool
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/world"
)

type options struct {
	length time.Duration
	rate   int // spans a second by adapters, each machine
	hooks  int // hook runs a second
	seed   uint64
	json   bool
	memory bool
	log    io.Writer
}

func main() {
	o := options{log: os.Stderr}
	flag.DurationVar(&o.length, "for", 10*time.Minute, "how long load and faults last")
	flag.IntVar(&o.rate, "rate", 60, "spans a second that adapters post, on each of two machines")
	flag.IntVar(&o.hooks, "hooks", 4, "runs of the real hook a second")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "order of the faults")
	flag.BoolVar(&o.json, "json", false, "print one line of JSON")
	flag.BoolVar(&o.memory, "memory", false, "measure memory instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := soak
	if o.memory {
		run = measureMemory
	}
	report, err := inFolder(ctx, o, run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	if o.json {
		json.NewEncoder(os.Stdout).Encode(report)
	} else {
		report.print(os.Stdout)
	}
	if !report.ok() {
		os.Exit(1)
	}
}

// result is what a run prints.
type result interface {
	print(io.Writer)
	ok() bool
}

// inFolder builds the programs in a throw-away folder and runs there.
func inFolder(ctx context.Context, o options, run func(context.Context, options, string, world.Programs) (result, error)) (result, error) {
	dir, err := os.MkdirTemp("", "pinta-soak-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return nil, err
	}
	programs, err := world.Build(ctx, bin)
	if err != nil {
		return nil, err
	}
	return run(ctx, o, dir, programs)
}
