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

// watch starts the watchdog. A timer costs the run no thread until it fires.
func (f *fate) watch(limit time.Duration) {
	time.AfterFunc(limit, func() {
		defer func() { _ = recover(); f.p.Exit() }()
		f.settle()
	})
}

// end is deferred by whoever owns the run: it swallows a panic, prints a
// denial that is still owed, and ends the process with 0.
func (f *fate) end() {
	if v := recover(); v != nil {
		func() {
			defer func() { _ = recover() }()
			f.p.note("internal fault; the run ends early")
		}()
	}
	defer func() { _ = recover(); f.p.Exit() }()
	f.settle()
}

// owe sets the line that any fault from here on prints.
func (f *fate) owe(line []byte) { f.denial.Store(&line) }

// print writes the run's one line, or nothing if it has been written.
func (f *fate) print(line []byte) {
	if f.printed.CompareAndSwap(false, true) {
		f.p.Stdout(line)
	}
}

func (f *fate) settle() {
	if line := f.denial.Load(); line != nil {
		f.print(*line)
	}
}

// attempt runs a step that must not be able to end the run.
func attempt(f func()) (ok bool) {
	defer func() { _ = recover() }()
	f()
	return true
}

// patience is the time that all disk access before the guard shares.
type patience struct {
	now  func() time.Time
	left time.Duration
}

// within runs f, which waits for a disk, and gives it up when the shared time
// is over: a home on a dead network drive must not cost the guard. What f does
// after that is lost. The goroutine costs a microsecond.
func within[T any](p *patience, f func() T) (out T, ok bool) {
	if p.left <= 0 {
		return out, false
	}
	start := p.now()
	done := make(chan T, 1)
	go func() {
		defer func() {
			if recover() != nil {
				close(done)
			}
		}()
		done <- f()
	}()
	timer := time.NewTimer(p.left)
	defer timer.Stop()
	select {
	case out, ok = <-done:
		p.left -= p.now().Sub(start)
	case <-timer.C:
		p.left = 0
	}
	return out, ok
}
