package hook

import (
	"sync/atomic"
	"time"
)

// fate decides how the run ends: at most one line on stdout, exit status 0.
type fate struct {
	p       *Process
	denial  atomic.Pointer[[]byte] // what is printed should the run end now
	printed atomic.Bool
}

// end is deferred by whoever owns the run: it swallows a panic, prints a
// denial that is still owed, and ends the process with 0.
func (f *fate) end() {
	v := recover()
	attempt(f.settle)
	if v != nil {
		attempt(func() { f.p.note("internal fault: the run ends early") })
	}
	f.p.Exit()
}

// owe sets the line that any fault from here on prints.
func (f *fate) owe(line []byte) { f.denial.Store(&line) }

// settle prints what is owed, once.
func (f *fate) settle() {
	if line := f.denial.Load(); line != nil && f.printed.CompareAndSwap(false, true) {
		f.p.Stdout(*line)
	}
}

// attempt runs a step that must not be able to end the run.
func attempt(f func()) (ok bool) {
	defer func() { _ = recover() }()
	f()
	return true
}

// disk is the time that all file access before the guard shares. Files are
// read in line: a goroutine for each would cost every run its thread switches
// (measured: 0.1-0.2 of an empty program). The watch notices a read that
// hangs, and does the run again without any disk.
//
// The time is counted in ticks of the watch, not by the clock: on a machine so
// busy that this process hardly runs, the watch is held up as well, and a read
// that only waits for a processor is not taken for one that hangs; where the
// system tells, a tick counts only if no thread waits for a processor. By the
// clock sixty hooks at once on two processors lost their env file, and so the
// guard.
type disk struct {
	at    atomic.Int64 // number of the access under way; 0: none, taken: see again
	ticks atomic.Int32 // that passed during all of them
	most  atomic.Int32 // ticks at which the access under way is given up
	last  int64
}

const (
	tick     = 40 * time.Millisecond
	maxTicks = int32(diskTime / tick)
	// policyTicks leave a home that answers its share when /etc doesn't.
	policyTicks = maxTicks / 2
	taken       = -1
)

// fromDisk runs f, which reads a file, if fewer than most ticks have passed. It
// does not return if the run went on without it meanwhile.
func (r *run) fromDisk(most int32, f func()) (ok bool) {
	if r.disk == nil || r.disk.ticks.Load() >= most {
		return false
	}
	r.disk.last++
	n := r.disk.last
	r.disk.most.Store(most)
	r.disk.at.Store(n)
	ok = attempt(f)
	if r.disk.at.CompareAndSwap(n, 0) {
		return ok
	}
	select {}
}

// watch is the run's only timer. It counts ticks until the guard is asked, and
// ends the process at the watchdog's limit.
func (r *run) watch() {
	var timer atomic.Pointer[time.Timer]
	timer.Store(time.AfterFunc(tick, func() {
		defer func() { _ = recover() }()
		rest := watchdog - time.Since(r.start)
		if rest <= 0 {
			defer r.end()
			attempt(r.settle)
			r.p.note("time is up: the run ends early")
			return
		}
		if at := r.disk.at.Load(); at > 0 && !starved() && r.disk.ticks.Add(1) >= r.disk.most.Load() && r.disk.at.CompareAndSwap(at, taken) {
			defer r.again()
		}
		if t := timer.Load(); t != nil {
			if !r.judged.Load() {
				rest = min(rest, tick)
			}
			t.Reset(rest)
		}
	}))
}

// again does the run from the start in place of the goroutine that hangs on a
// disk: without the machine's entry and, unless only that one hung, without any
// disk. Nothing before the guard has had an effect.
func (r *run) again() {
	defer r.end()
	n := &run{fate: r.fate, start: r.start, env: r.env, stdin: r.stdin, raw: r.raw, stays: true}
	if r.disk.ticks.Load() < maxTicks {
		n.disk = r.disk // and r's watch over it
	}
	r.p.note("the disk takes too long: going on without it")
	n.all()
	n.stdin.Drain()
}
