package hook

import (
	"io"
	"os"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
)

// stdin is standard input. A pipe can't be polled here, so one goroutine reads
// it and Read waits for what it has read.
type stdin struct {
	chunks chan []byte
	rest   []byte
}

func (s *stdin) Read(p []byte, wait time.Duration) (int, error) {
	if s.chunks == nil {
		s.chunks = make(chan []byte)
		go s.pump()
	}
	if len(s.rest) == 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case chunk, ok := <-s.chunks:
			if !ok {
				return 0, io.EOF
			}
			s.rest = chunk
		case <-timer.C:
			return 0, event.ErrWait
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stdin) pump() {
	defer close(s.chunks)
	defer func() { _ = recover() }() // a panic here would end the run with 2
	for {
		buf := make([]byte, 64<<10)
		n, err := os.Stdin.Read(buf)
		if n > 0 {
			s.chunks <- buf[:n]
		}
		if err != nil {
			return
		}
	}
}

// writeAll writes to a standard stream. A reader that is gone is no fault.
func writeAll(fd int, line []byte) {
	if fd == 1 {
		_, _ = os.Stdout.Write(line)
	} else {
		_, _ = os.Stderr.Write(line)
	}
}
