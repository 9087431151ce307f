// Package queue keeps spans that the collector didn't take until a later run delivers them (hook.md 9): one file with a
// line for each, in the format of the Node adapter. It knows no network: the caller brings the sender.
//
// Two locks make it safe for any number of hooks at once. queue.lock is held for the moments in which the file grows or is
// replaced. flush.lock is held by the one process that takes lines out; while somebody holds it, lines keep their place in
// the file, so a flush may go by offsets and need not hold up those who append.
package queue

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// Bounds of the queue and of one POST (hook.md 9).
const (
	maxEntries = 1000
	maxBytes   = 32 << 20
	maxAge     = 7 * 24 * time.Hour
	maxBody    = 921600
)

// queue.lock is held for moments only. A span that is to be saved waits for it longer than a flush, which may be left to
// the next run.
const (
	appendWait = 3 * time.Second
	flushWait  = 250 * time.Millisecond
)

// savedAt is how a line begins, and stamp the form of the time in it.
const (
	savedAt = `{"savedAt":"`
	stamp   = "2006-01-02T15:04:05.000Z"
	// leastLine is the shortest line that can hold a span: below maxEntries of them nothing need be counted.
	leastLine = int64(len(savedAt) + len(stamp) + len(`","payload":{"resourceSpans":[{}]}}`))
)

type queue struct{ dir string }

func (q queue) file() string { return filepath.Join(q.dir, "failed-spans.jsonl") }

// lock guards growth and replacement of the file.
func (q queue) lock(wait time.Duration) (unlock func(), err error) {
	return safefile.Lock(filepath.Join(q.dir, "queue.lock"), wait)
}

// lockFlush guards the removal of lines. It is never waited for.
func (q queue) lockFlush() (unlock func(), err error) {
	return safefile.Lock(filepath.Join(q.dir, "flush.lock"), 0)
}

// Append saves one payload, an OTLP/JSON object. dropped is how many of the oldest entries had to go for it.
func Append(dir string, payload []byte, now time.Time) (dropped int, err error) {
	q := queue{dir}
	if err := safefile.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	line := make([]byte, 0, len(savedAt)+len(stamp)+len(payload)+16)
	line = now.UTC().AppendFormat(append(line, savedAt...), stamp)
	line = append(line, `","payload":`...)
	if bytes.IndexByte(payload, '\n') < 0 {
		line = append(line, payload...)
	} else {
		line = rawjson.AppendCompact(line, payload)
	}
	line = append(line, '}')

	unlock, lockErr := q.lock(appendWait)
	if lockErr == nil {
		defer unlock()
	}
	if fi, err := os.Lstat(q.file()); err == nil && fi.Size() > 2*maxBytes {
		return 0, errFull // the bounds can't be kept: see keepBounds
	}
	// Without the lock (somebody stopped while holding it, a file system without locks) a single appending write is
	// still the best that can be done for the span.
	if err := safefile.Append(q.file(), line, 0o600); err != nil || lockErr != nil {
		return 0, err
	}
	// The span is safe. A cut that fails is tried again with the next one, until errFull.
	dropped, _ = q.keepBounds(now)
	return dropped, nil
}

var errFull = errors.New("the queue is full and could not be shortened: delete failed-spans.jsonl")

// keepBounds drops the oldest lines of a queue that has grown too long, too large or too old. The caller holds the lock.
// While a flush runs it is left to the flush.
func (q queue) keepBounds(now time.Time) (dropped int, err error) {
	over, err := q.over(now)
	if err != nil || !over {
		return 0, err
	}
	unlock, err := q.lockFlush()
	if err != nil {
		if errors.Is(err, safefile.ErrLocked) {
			err = nil
		}
		return 0, err
	}
	defer unlock()
	return q.cut(0, now)
}

func (q queue) over(now time.Time) (bool, error) {
	f, err := safefile.Open(q.file(), os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return false, err
	}
	size := fi.Size()
	if size > maxBytes {
		return true, nil
	}
	var head [len(savedAt) + len(stamp) + 1]byte
	if n, _ := f.ReadAt(head[:], 0); expired(head[:n], now) {
		return true, nil
	}
	if size <= leastLine*maxEntries {
		return false, nil
	}
	lines, err := count(f, 0, size)
	return lines > maxEntries, err
}

// count counts line ends between two offsets.
func count(f io.ReaderAt, from, to int64) (lines int, err error) {
	buf := make([]byte, min(to-from, 128<<10))
	for from < to {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), to-from)], from)
		lines += bytes.Count(buf[:n], []byte{'\n'})
		from += int64(n)
		if err != nil && from < to {
			return lines, err
		}
	}
	return lines, nil
}

// expired goes by the time at the beginning of a line, in the only spelling that it is ever written in.
func expired(line []byte, now time.Time) bool {
	if !bytes.HasPrefix(line, []byte(savedAt)) {
		return false
	}
	rest := line[len(savedAt):]
	end := bytes.IndexByte(rest, '"')
	return end >= 0 && tooOld(string(rest[:end]), now)
}

// tooOld tells whether an entry of that time is past its age; one of an unreadable time, or of a clock since set back, is not.
func tooOld(saved string, now time.Time) bool {
	at, err := time.Parse(time.RFC3339, saved)
	return err == nil && now.Sub(at) > maxAge
}

// cut takes away what lies before offset from, blank lines at the beginning, and the oldest entries beyond the bounds. The
// caller holds both locks. The file is replaced as a whole, or removed when nothing remains.
func (q queue) cut(from int64, now time.Time) (dropped int, err error) {
	data, dropped, err := q.rest(from)
	if err != nil {
		return 0, err
	}
	lines := bytes.Count(data, []byte{'\n'})
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		blank := len(bytes.TrimSpace(data[:end])) == 0
		if !blank && lines <= maxEntries && !expired(data, now) {
			break
		}
		if !blank {
			dropped++
		}
		data = data[end:]
		lines--
	}
	if len(data) == 0 {
		return dropped, safefile.Remove(q.file())
	}
	return dropped, safefile.WriteFile(q.file(), data, safefile.Private)
}

// rest reads the file from an offset on, whole lines that take at most maxBytes, and counts the older ones beyond that.
func (q queue) rest(from int64) (data []byte, dropped int, err error) {
	f, err := safefile.Open(q.file(), os.O_RDONLY, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	size := fi.Size()
	start := max(from, size-maxBytes)
	if start > from {
		// One byte earlier: a line that begins exactly at start is whole.
		if dropped, err = count(f, from, start-1); err != nil {
			return nil, 0, err
		}
		start--
	}
	data = make([]byte, max(size-start, 0))
	if _, err := io.ReadFull(io.NewSectionReader(f, start, size-start), data); err != nil {
		return nil, 0, err
	}
	if start > from {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		data, dropped = data[end:], dropped+1
	}
	return data, dropped, nil
}
