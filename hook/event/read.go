package event

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

const (
	// MaxInput is how much of stdin is read (hook.md 2).
	MaxInput = 16 << 20
	// maxStall and maxWait bound the wait for the rest of an object.
	maxStall = 5 * time.Second
	maxWait  = 8 * time.Second
	// shortest and longest time that the end of the pipe is waited for after
	// the object, and for how long trailing bytes are taken in all.
	minGrace = 20 * time.Millisecond
	maxGrace = time.Second
	// while bytes still come: their writer is there, and may be held up by a
	// busy machine for many times its rhythm.
	comingGrace = 250 * time.Millisecond
	maxDrain    = 3 * time.Second
)

var (
	ErrEmpty    = errors.New("stdin is empty")
	ErrNotJSON  = errors.New("stdin is not one JSON object")
	ErrTooLarge = errors.New("stdin is larger than 16 MiB")
	ErrStalled  = errors.New("stdin stopped before its object was complete")

	// ErrWait is what a Source returns when nothing came in time.
	ErrWait = errors.New("nothing to read yet")
)

// Source is a pipe that can be waited for.
type Source interface {
	// Read returns bytes, io.EOF, or ErrWait after wait.
	Read(p []byte, wait time.Duration) (int, error)
}

// Input is the reading side of one run.
type Input struct {
	src   Source
	now   func() time.Time
	start time.Time
	ended bool          // the writer has closed the pipe, or it failed
	pause time.Duration // longest pause of the writer so far
}

// NewInput reads from src; its time bounds count from here.
func NewInput(src Source, now func() time.Time) *Input {
	return &Input{src: src, now: now, start: now()}
}

// Object returns the first JSON object, decoded, as soon as its last byte has
// come. An error is one of this package's, and final: the run fails open.
func (in *Input) Object() ([]byte, error) {
	buf := make([]byte, 0, 16<<10)
	var scan scanner
	for {
		if len(buf) == cap(buf) {
			if len(buf) >= MaxInput {
				return nil, ErrTooLarge
			}
			size := 4 * cap(buf)
			if cap(buf) >= 1<<20 {
				size = 2 * cap(buf)
			}
			buf = append(make([]byte, 0, min(size, MaxInput)), buf...)
		}
		n, err := in.read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		end, done, bad := scan.feed(buf)
		if done {
			buf = buf[:end]
			break
		}
		if bad != nil || err == io.EOF {
			if bad == nil && len(bytes.TrimSpace(Decode(buf))) == 0 {
				return nil, ErrEmpty
			}
			return nil, ErrNotJSON
		}
		if err != nil {
			return nil, err
		}
	}
	return Decode(buf), nil
}

// read waits for the next bytes within the bounds of a stall and of all.
func (in *Input) read(p []byte) (int, error) {
	// What is there is taken even when the time is up: a busy machine may have
	// started this process late.
	wait := max(min(maxStall, maxWait-in.now().Sub(in.start)), 0)
	before := in.now()
	n, err := in.src.Read(p, wait)
	in.pause = max(in.pause, in.now().Sub(before))
	switch err {
	case nil:
		return n, nil
	case ErrWait:
		return n, ErrStalled
	}
	in.ended = true
	return n, io.EOF
}

// Drain takes what the host still writes, so that it sees no broken pipe. It
// waits for the end of the pipe as long as the host's own rhythm suggests, and
// longer once something came.
func (in *Input) Drain() {
	var sink [4 << 10]byte
	grace := min(max(2*in.pause+minGrace, minGrace), maxGrace)
	for end := in.now().Add(maxDrain); !in.ended && in.now().Before(end); {
		if _, err := in.src.Read(sink[:], grace); err != nil {
			in.ended = true
		}
		grace = max(grace, comingGrace)
	}
}

// scanner finds the end of the object in bytes whose encoding the first of
// them tell.
type scanner struct {
	json rawjson.Scanner
	pos  int // scanned so far
	enc  encoding
}

type encoding uint8

const (
	untold encoding = iota
	utf8Text
	utf16LE
	utf16BE
)

// feed scans on in buf, which holds everything read so far. It returns where
// the object ends; a fault of syntax ends the wait as well.
func (s *scanner) feed(buf []byte) (end int, done bool, err error) {
	if s.enc == untold {
		if s.enc, s.pos = tell(buf); s.enc == untold {
			return 0, false, nil
		}
	}
	if s.enc == utf8Text {
		n, done, err := s.json.Feed(buf[s.pos:])
		s.pos += n
		return s.pos, done, err
	}
	for ; s.pos+1 < len(buf); s.pos += 2 {
		low, high := buf[s.pos], buf[s.pos+1]
		if s.enc == utf16BE {
			low, high = high, low
		}
		if high != 0 {
			low = 'x' // JSON's structure is ASCII: any letter will do
		}
		if _, done, err := s.json.Feed([]byte{low}); done || err != nil {
			return s.pos + 2, done, err
		}
	}
	return s.pos, false, nil
}

// tell recognises a byte order mark and its length; a mark may still be
// incomplete.
func tell(buf []byte) (encoding, int) {
	switch {
	case bytes.HasPrefix(buf, bomLE):
		return utf16LE, 2
	case bytes.HasPrefix(buf, bomBE):
		return utf16BE, 2
	case bytes.HasPrefix(buf, bom):
		return utf8Text, len(bom)
	case bytes.HasPrefix(bomLE, buf), bytes.HasPrefix(bomBE, buf), bytes.HasPrefix(bom, buf):
		return untold, 0
	}
	return utf8Text, 0
}
