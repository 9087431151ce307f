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
	if v := recover(); v != nil {
		attempt(func() { f.p.note("internal fault: the run ends early") })
	}
	attempt(f.settle)
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
type disk struct {
	since atomic.Int64 // start of the access under way, Unix nanoseconds; 0: none
	spent atomic.Int64 // by those before it, nanoseconds
}

// taken in since means that the run goes on elsewhere.
const taken = -1

// left is what is left of the shared time.
func (d *disk) left(now time.Time) time.Duration {
	left := diskTime - time.Duration(d.spent.Load())
	if since := d.since.Load(); since > 0 {
		left -= time.Duration(now.UnixNano() - since)
	}
	return left
}

// fromDisk runs f, which reads a file, if there is time left. It does not
// return if the run went on without it meanwhile.
func (r *run) fromDisk(f func()) (ok bool) {
	start := r.p.Now()
	if r.disk == nil || r.disk.left(start) <= 0 {
		return false
	}
	r.disk.since.Store(start.UnixNano())
	ok = attempt(f)
	if r.disk.since.CompareAndSwap(start.UnixNano(), 0) {
		r.disk.spent.Add(int64(r.p.Now().Sub(start)))
		return ok
	}
	select {}
}

// watch is the run's only timer. It looks after the disk every diskTime until
// the guard is asked, and ends the process at the watchdog's limit.
func (r *run) watch() {
	var timer atomic.Pointer[time.Timer]
	timer.Store(time.AfterFunc(diskTime, func() {
		defer func() { _ = recover() }()
		now := r.p.Now()
		rest := watchdog - now.Sub(r.start)
		if rest <= 0 {
			r.end()
			return
		}
		if since := r.disk.since.Load(); since > 0 && r.disk.left(now) <= 0 && r.disk.since.CompareAndSwap(since, taken) {
			defer r.again()
		}
		if t := timer.Load(); t != nil {
			if !r.judged.Load() {
				rest = min(rest, diskTime)
			}
			t.Reset(rest)
		}
	}))
}

// again does the run from the start, without any disk, in place of the
// goroutine that hangs on one. Nothing before the guard has had an effect.
func (r *run) again() {
	defer r.end()
	n := &run{fate: r.fate, start: r.start, env: r.env, stdin: r.stdin, raw: r.raw}
	n.all()
	n.stdin.Drain()
}
