package queue

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// Outcome is what became of a body.
type Outcome uint8

const (
	Keep      Outcome = iota // not now: it stays, and the flush ends
	Delivered                // the collector has it
	Refused                  // the collector will never take it
)

// Send posts one OTLP/JSON body of at most 921 600 bytes. The error goes with Keep and says why.
type Send func(body []byte) (Outcome, error)

// Stats is what a flush did, in entries.
type Stats struct {
	Delivered int
	Refused   int  // the collector took all but these
	Dropped   int  // too old, too many, or too large for any POST
	Damaged   int  // torn or foreign lines
	Busy      bool // another process is at it: nothing was done
	Down      bool // the collector didn't take a body, or time is up: queue what comes after without a try
}

// ErrTime ends a flush that was not through at its deadline.
var ErrTime = errors.New("no time left for the queue")

// ErrRefusing ends a flush in which the collector refused one body after the other.
var ErrRefusing = errors.New("the collector refuses most of the queue")

var errKept = errors.New("the collector did not take it")

// maxRefusals bounds the search for the entry that spoils a body: after so many refusals in one flush the rest waits.
const maxRefusals = 32

// Flush delivers what waits in dir, oldest first, and stops (Down) at the first body that can't be delivered now, with the
// sender's error, or at the deadline with ErrTime. Any other error is of this machine: the queue could not be read or
// written, which says nothing about the collector. An entry leaves the file when its body is delivered or refused, before
// the next body is sent: a crash repeats one body at most.
func Flush(dir string, now, deadline time.Time, send Send) (s Stats, err error) {
	q := queue{dir}
	switch fi, err := os.Lstat(q.file()); {
	case errors.Is(err, fs.ErrNotExist) || err == nil && fi.Size() == 0:
		return s, nil
	case err != nil:
		return s, err
	}
	unlock, err := q.lockFlush()
	if errors.Is(err, safefile.ErrLocked) {
		return Stats{Busy: true}, nil
	}
	if err != nil {
		return s, err
	}
	defer unlock()

	size, dropped, err := q.begin(now)
	s.Dropped, s.Busy = dropped, errors.Is(err, safefile.ErrLocked)
	if s.Busy {
		err = nil
	}
	if err != nil || size == 0 {
		return s, err
	}
	f, err := safefile.Open(q.file(), os.O_RDWR, 0)
	if err != nil {
		return s, err
	}
	fl := flush{f: f, now: now, deadline: deadline, send: send, Stats: s}
	err = fl.run(size)
	f.Close() // a file that is open can't be replaced everywhere
	dropped, e := q.finish(fl.done, now)
	fl.Dropped += dropped
	if err == nil {
		err = e
	}
	return fl.Stats, err
}

// begin brings the queue within its bounds and says how much of it is to be read. While the lock is held nobody is in the
// middle of a line, so what ends without a line end is torn.
func (q queue) begin(now time.Time) (size int64, dropped int, err error) {
	unlock, err := q.lock(flushWait)
	if err != nil {
		return 0, 0, err
	}
	defer unlock()
	over, err := q.over(now)
	if err == nil && over {
		dropped, err = q.cut(0, now)
	}
	if err == nil {
		var fi fs.FileInfo
		if fi, err = os.Lstat(q.file()); err == nil {
			size = fi.Size()
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return size, dropped, err
}

// smallRest is what is rewritten without a thought after a flush that ended early; a larger rest keeps the blanks before
// it until they are the larger part.
const smallRest = 1 << 20

// finish takes the lines before done out of the file.
func (q queue) finish(done int64, now time.Time) (dropped int, err error) {
	if done == 0 {
		return 0, nil
	}
	unlock, err := q.lock(flushWait)
	if err != nil {
		return 0, nil // the lines are blank already
	}
	defer unlock()
	fi, err := os.Lstat(q.file())
	if err != nil {
		return 0, err
	}
	if rest := fi.Size() - done; rest <= smallRest || rest <= done {
		return q.cut(done, now)
	}
	return 0, nil
}

// flush is one run through the file.
type flush struct {
	f        *os.File
	now      time.Time
	deadline time.Time
	send     Send
	refusals int
	done     int64 // everything before is delivered or given up
	Stats

	body  []byte // of the batch
	parts []part
}

// part is one line's share of the batch.
type part struct {
	from, to   int   // in body
	start, end int64 // in the file, with what was passed over after it
}

const (
	bodyHead = `{"resourceSpans":[`
	bodyTail = `]}`
)

func (fl *flush) run(size int64) error {
	// A line that doesn't fit the buffer can't be delivered either: its spans alone would be larger than a body.
	r := bufio.NewReaderSize(io.NewSectionReader(fl.f, 0, size), int(min(size, 1<<20))+16)
	fl.body = make([]byte, 0, min(size+int64(len(bodyHead)+len(bodyTail)), maxBody))
	var pos int64
	for {
		start := pos
		line, err := r.ReadSlice('\n')
		pos += int64(len(line))
		long := false
		for err == bufio.ErrBufferFull {
			long = true
			line, err = r.ReadSlice('\n')
			pos += int64(len(line))
		}
		if err != nil && err != io.EOF {
			return err
		}
		ended := err == io.EOF
		switch {
		case long:
			fl.Dropped++
			fl.pass(pos)
		case pos > start:
			if err := fl.add(line, start, pos); err != nil {
				return err
			}
		}
		if ended {
			return fl.post()
		}
		if start>>20 != pos>>20 && !time.Now().Before(fl.deadline) {
			fl.Down = true
			return ErrTime
		}
	}
}

// pass leaves a line out: it goes with the part before it.
func (fl *flush) pass(end int64) {
	if n := len(fl.parts); n > 0 {
		fl.parts[n-1].end = end
	} else {
		fl.done = end
	}
}

// add puts a line into the batch, after posting the batch if there is no room.
func (fl *flush) add(line []byte, start, end int64) error {
	elements, old, damaged := parse(line, fl.now)
	fl.Dropped += old
	fl.Damaged += damaged
	from := len(fl.body)
	for i, e := range elements {
		if i > 0 {
			fl.body = append(fl.body, ',')
		}
		fl.body = rawjson.AppendCompact(fl.body, e) // and mended: one odd byte must not spoil the whole body
	}
	own := fl.body[from:]
	if len(elements) > 0 && len(bodyHead)+len(own)+len(bodyTail) > maxBody {
		fl.Dropped++
		elements = nil
	}
	if len(elements) == 0 {
		fl.body = fl.body[:from]
		fl.pass(end)
		return nil
	}
	if len(bodyHead)+len(fl.body)+len(bodyTail) > maxBody {
		if err := fl.post(); err != nil {
			return err
		}
		from, fl.body = 0, append(fl.body, own...)
	}
	fl.parts = append(fl.parts, part{from, len(fl.body), start, end})
	fl.body = append(fl.body, ',')
	return nil
}

// post delivers the batch.
func (fl *flush) post() error {
	err := fl.deliver(fl.parts)
	fl.body, fl.parts = fl.body[:0], fl.parts[:0]
	return err
}

// deliver posts some parts as one body. If it is refused, one of them may be to blame: halves are tried, so that the
// others arrive (ten levels deep at most).
func (fl *flush) deliver(parts []part) error {
	if len(parts) == 0 {
		return nil
	}
	if !time.Now().Before(fl.deadline) {
		fl.Down = true
		return ErrTime
	}
	n := len(parts)
	inner := fl.body[parts[0].from:parts[n-1].to]
	body := make([]byte, 0, len(bodyHead)+len(inner)+len(bodyTail))
	body = append(append(append(body, bodyHead...), inner...), bodyTail...)
	outcome, err := fl.send(body)
	switch outcome {
	case Delivered:
		fl.Delivered += n
	case Refused:
		if fl.refusals++; n > 1 {
			if fl.refusals > maxRefusals {
				fl.Down = true
				return ErrRefusing
			}
			if err := fl.deliver(parts[:n/2]); err != nil {
				return err
			}
			return fl.deliver(parts[n/2:])
		}
		fl.Refused++
	default:
		if fl.Down = true; err == nil {
			err = errKept
		}
		return err
	}
	fl.done = parts[n-1].end
	return safefile.Blank(fl.f, parts[0].start, fl.done)
}
