// Command fleetsim simulates a fleet against one Manager: each agent enrols, holds a config poll, checks and acknowledges
// what it gets, and reports, over TLS connections and with keys of its own. It keeps no disk state and judges nothing; how a
// real agent does these things is package sync/device's, whose pauses and back-offs it has.
//
//	go run ./manager/fleetsim -agents 10000
//
// It starts the Manager as a process of its own, so that its memory can be told, and prints enrolments a second, polls held,
// memory a waiting agent, times from publication to acknowledgement, and what a restart of the Manager does to the request
// rate. It fails if a goal isn't met.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// goals are what a run is held against (issue: enrolment and Manager, item 7), for two cores.
const (
	goalEnrol  = 500              // enrolments a second, at least
	goalMemory = 60               // KiB of the Manager a waiting agent, at most
	goalAck    = 10 * time.Second // publication to acknowledgement, 99th percentile
	goalPeak   = 2.0              // request rate after a restart over steady
)

type options struct {
	agents, workers int
	wait, checkin   time.Duration
	settle          time.Duration
	restart, kill   bool
	json            bool
	dir             string
}

func main() {
	var o options
	var serve serveOptions
	flag.IntVar(&o.agents, "agents", 1000, "agents to simulate")
	flag.IntVar(&o.workers, "workers", 256, "enrolments at the same time")
	flag.DurationVar(&o.wait, "wait", 55*time.Second, "how long a poll is held")
	flag.DurationVar(&o.checkin, "checkin", time.Minute, "between two reports of an agent")
	flag.DurationVar(&o.settle, "settle", 90*time.Second, "how long the fleet waits before it is measured, and after the restart")
	flag.BoolVar(&o.restart, "restart", true, "restart the Manager and see everybody come back")
	flag.BoolVar(&o.kill, "kill", false, "kill the Manager for the restart instead of ending it")
	flag.BoolVar(&o.json, "json", false, "print one line of JSON")
	flag.StringVar(&o.dir, "data", "", "directory for the Manager (default: a temporary one)")
	flag.StringVar(&serve.dir, "serve", "", "internal: be the Manager, in this directory")
	flag.StringVar(&serve.listen, "listen", "127.0.0.1:0", "internal: address of the Manager")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if serve.dir != "" {
		err = serve.run(ctx)
	} else {
		err = simulate(ctx, o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "fleetsim: %v\n", err)
		os.Exit(1)
	}
}

// result is what a run found.
type result struct {
	Agents          int      `json:"agents"`
	EnrolSeconds    float64  `json:"enrolSeconds"`
	EnrolPerSecond  float64  `json:"enrolPerSecond"`
	EnrolFailures   int64    `json:"enrolFailures"`
	EnrolCPU        float64  `json:"managerMsPerEnrolment"`
	Held            int64    `json:"held"`
	BaseKiB         int64    `json:"managerBaseKiB"`
	HeldKiB         int64    `json:"managerHeldKiB"`
	KiBPerAgent     float64  `json:"kibPerAgent"`
	Acked           int      `json:"acked"`
	AckP50          float64  `json:"ackP50Seconds"`
	AckP99          float64  `json:"ackP99Seconds"`
	AckCPU          float64  `json:"ackManagerCPUSeconds"`
	AckOwnCPU       float64  `json:"ackFleetCPUSeconds"`
	AckMax          float64  `json:"ackMaxSeconds"`
	SteadyPerSecond float64  `json:"steadyPerSecond"`
	SteadyPeak      float64  `json:"steadyPeakPerSecond"`
	RestartPeak     float64  `json:"restartPeakPerSecond"`
	BackSeconds     float64  `json:"allBackSeconds"`
	ReEnrolled      int64    `json:"reEnrolled"`
	Errors          int64    `json:"errors"`
	Failed          []string `json:"failed"`
}

func simulate(ctx context.Context, o options) error {
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "fleetsim-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.dir = dir
	}
	say := func(format string, args ...any) {
		if !o.json {
			fmt.Printf(format+"\n", args...)
		}
	}
	f, base, err := newFleet(ctx, o)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop() // the agents first
		f.manager.end(terminate)
	}()
	r := result{Agents: o.agents, BaseKiB: base, Failed: []string{}}

	cpu := f.manager.cpu()
	say("%d agents enrol, %d at a time", o.agents, o.workers)
	took, err := f.enrolAll(ctx)
	if err != nil {
		return err
	}
	r.EnrolSeconds, r.EnrolPerSecond, r.EnrolFailures = took.Seconds(), float64(o.agents)/took.Seconds(), f.failures.Load()
	r.EnrolCPU = (f.manager.cpu() - cpu).Seconds() * 1000 / float64(o.agents)
	say("  enrolled in %.1f s: %.0f a second, %d failures, %d times told to wait; %.2f ms of the Manager's CPU each", r.EnrolSeconds, r.EnrolPerSecond, r.EnrolFailures, f.busy.Load(), r.EnrolCPU)

	f.startAll(ctx)
	say("the fleet polls and reports for %s", o.settle)
	if err := f.until(ctx, 2*time.Minute, "all polls are held", func() bool { return f.held.Load() >= int64(o.agents)*97/100 }); err != nil {
		return err
	}
	if !pause(ctx, o.settle) {
		return ctx.Err()
	}
	r.Held, r.HeldKiB = f.held.Load(), f.manager.rss()
	r.KiBPerAgent = float64(r.HeldKiB-r.BaseKiB) / float64(o.agents)
	r.SteadyPerSecond, r.SteadyPeak = f.rate.over(30)
	say("  %d polls held; Manager %d MiB, %d MiB before: %.1f KiB an agent", r.Held, r.HeldKiB>>10, r.BaseKiB>>10, r.KiBPerAgent)
	say("  %.0f requests a second, %.0f at most", r.SteadyPerSecond, r.SteadyPeak)

	if o.restart {
		say("the Manager restarts")
		back, err := f.restart(ctx, o)
		if err != nil {
			return err
		}
		r.BackSeconds, r.ReEnrolled = back.Seconds(), f.enrolled.Load()-int64(o.agents)
		if !pause(ctx, o.settle) {
			return ctx.Err()
		}
		_, r.RestartPeak = f.rate.over(int((o.settle+back)/time.Second) + 2)
		say("  everybody is back after %.1f s; %.0f requests a second at most (%.2f × steady), %d enrolled again", r.BackSeconds, r.RestartPeak, r.RestartPeak/r.SteadyPerSecond, r.ReEnrolled)
	}
	say("a policy is published")
	cpu = f.manager.cpu()
	own := cpuOf("self")
	acks, err := f.publish(ctx)
	if err != nil {
		return err
	}
	r.AckCPU, r.AckOwnCPU = (f.manager.cpu() - cpu).Seconds(), (cpuOf("self") - own).Seconds()
	r.Acked, r.AckP50, r.AckP99, r.AckMax = len(acks), quantile(acks, 0.5), quantile(acks, 0.99), quantile(acks, 1)
	say("  %d acknowledged: half within %.2f s, 99%% within %.2f s, all within %.2f s; CPU %.1f s of the Manager, %.1f s of the fleet", r.Acked, r.AckP50, r.AckP99, r.AckMax, r.AckCPU, r.AckOwnCPU)

	r.Errors = f.errors.Load()
	say("%d errors that no restart explains", r.Errors)
	r.judge(o)
	if o.json {
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return err
		}
	}
	if len(r.Failed) > 0 {
		return errors.Join(errors.New("a goal isn't met"), fmt.Errorf("%q", r.Failed))
	}
	return nil
}

// judge lists the goals that aren't met.
func (r *result) judge(o options) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			r.Failed = append(r.Failed, fmt.Sprintf(format, args...))
		}
	}
	check(r.EnrolFailures == 0, "%d enrolments failed", r.EnrolFailures)
	check(r.EnrolPerSecond >= goalEnrol || o.agents < 1000, "%.0f enrolments a second, at least %d wanted", r.EnrolPerSecond, goalEnrol)
	check(r.KiBPerAgent <= goalMemory || o.agents < 1000, "%.1f KiB an agent, at most %d wanted", r.KiBPerAgent, goalMemory)
	check(r.Acked == o.agents, "%d of %d agents acknowledged", r.Acked, o.agents)
	check(r.AckP99 <= goalAck.Seconds(), "acknowledged within %.1f s, at most %s wanted", r.AckP99, goalAck)
	check(r.Errors == 0, "%d errors", r.Errors)
	if o.restart {
		check(r.RestartPeak <= goalPeak*r.SteadyPerSecond || o.agents < 1000, "%.0f requests a second after the restart, %.0f in quiet times", r.RestartPeak, r.SteadyPerSecond)
		check(r.ReEnrolled == 0, "%d agents enrolled again", r.ReEnrolled)
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
