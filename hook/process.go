package hook

import (
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// Process is everything a run touches outside its own memory. The fields are
// what tests replace: files, clock and streams.
type Process struct {
	Stdin    event.Source
	Stdout   func(line []byte) // one line in one write
	Stderr   func(line []byte)
	Lookup   func(key string) (string, bool)
	Environ  func() []string
	Now      func() time.Time // of spans and saved entries; bounds go by the monotonic clock
	ReadFile func(path string, max int64) ([]byte, error)
	// Policy opens the machine's hook file, proven to be the administrator's.
	Policy func() (Policy, error)
	Exit   func() // ends the process with status 0

	mute atomic.Bool // stderr takes nothing any more
}

// System is the real process.
func System() *Process {
	return &Process{
		Stdin:    &stdin{},
		Stdout:   func(line []byte) { writeAll(1, line) },
		Stderr:   func(line []byte) { writeAll(2, line) },
		Lookup:   os.LookupEnv,
		Environ:  os.Environ,
		Now:      time.Now,
		ReadFile: safefile.ReadFile,
		Policy:   openPolicy,
		Exit:     func() { os.Exit(0) },
	}
}

const (
	notePrefix = "pinta-copilot: "
	maxNote    = 300
	// noteWait is how long a host that doesn't read stderr is waited for, once:
	// no note may hold up the guard question or a denial.
	noteWait = 500 * time.Millisecond
)

// note writes one short line to stderr. Callers never pass payload text,
// detected values or tokens.
func (p *Process) note(text string) {
	if p.mute.Load() {
		return
	}
	line := make([]byte, 0, len(notePrefix)+len(text)+1)
	line = append(line, notePrefix...)
	for _, r := range text {
		if len(line) >= maxNote {
			break
		}
		if r < ' ' || r == 0x7f {
			r = ' '
		}
		line = append(line, string(r)...)
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		defer func() { _ = recover() }() // a host without stderr is no fault
		p.Stderr(append(line, '\n'))
	}()
	select {
	case <-said:
	case <-time.After(noteWait):
		p.mute.Store(true)
	}
}

// failed notes what failed and why.
func (p *Process) failed(what string, err error) {
	p.note(what + ": " + strings.TrimSpace(err.Error()))
}
