package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"time"
)

// A segment file is a head (magic, uint16 length, stream) and records:
// uint32 length of what follows the checksum, uint32 CRC-32C of that, uint64
// key, int64 arrival in Unix ms, data; all little endian. A file is written by
// one process only: after a restart a new one begins, so what follows a torn
// record is never anything but its rest.
const (
	magic      = "pspool1\n"
	recordHead = 4 + 4 + 8 + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type segment struct {
	n      uint64
	stream string
	file   file // nil once closed
	sealed bool

	start  int64 // of the first record
	end    int64 // behind the last whole record
	synced int64 // up to here it may be delivered
	cursor int64 // up to here it was delivered

	records, done int       // in all, and before the cursor
	first, last   time.Time // arrival of the first and the last record
	pinned        int       // being read, or part of the batch under way
}

func (g *segment) name() string { return strconv.FormatUint(g.n, 10) + ".seg" }

func segmentNumber(name string) (uint64, bool) {
	d, ok := strings.CutSuffix(name, ".seg")
	n, err := strconv.ParseUint(d, 10, 64)
	return n, ok && err == nil
}

func segmentHead(stream string) []byte {
	b := binary.LittleEndian.AppendUint16([]byte(magic), uint16(len(stream)))
	return append(b, stream...)
}

func appendRecord(b []byte, r Record, at time.Time) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(16+len(r.Data)))
	sum := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, r.Key)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.UnixMilli()))
	b = append(b, r.Data...)
	binary.LittleEndian.PutUint32(b[sum:], crc32.Checksum(b[sum+4:], castagnoli))
	return b
}

// nextRecord splits the first record off b. ok is false if it isn't whole;
// need is then how many bytes it takes, 0 if what is there can't be a record.
func nextRecord(b []byte) (key uint64, at time.Time, data []byte, size, need int, ok bool) {
	if len(b) < recordHead {
		return 0, time.Time{}, nil, 0, recordHead, false
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n < 16 || n > maxRecord {
		return 0, time.Time{}, nil, 0, 0, false
	}
	size = 8 + n
	if len(b) < size {
		return 0, time.Time{}, nil, 0, size, false
	}
	if crc32.Checksum(b[8:size], castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return 0, time.Time{}, nil, 0, 0, false
	}
	ms := int64(binary.LittleEndian.Uint64(b[16:]))
	return binary.LittleEndian.Uint64(b[8:]), time.UnixMilli(ms), b[recordHead:size], size, size, true
}

// wholeRecords returns how many bytes at the start of b are records, and whose.
func wholeRecords(b []byte) (n int, keys []uint64) {
	for {
		key, _, _, size, _, ok := nextRecord(b[n:])
		if !ok {
			return n, keys
		}
		n += size
		keys = append(keys, key)
	}
}

// read returns whole records from an offset on, at most max bytes of them but
// always one if there is one, and none beyond limit.
func (s *Spool) read(g *segment, from, limit, max int64) ([]byte, error) {
	f, err := s.disk.Open(g.name())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	want := min(max, limit-from)
	for {
		b := make([]byte, want)
		n, err := f.ReadAt(b, from)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		b = b[:n]
		whole, _ := wholeRecords(b)
		if whole > 0 {
			return b[:whole], nil
		}
		_, _, _, _, need, _ := nextRecord(b)
		if need <= len(b) || int64(need) <= want || from+int64(need) > limit {
			return nil, fmt.Errorf("segment %s is damaged at byte %d", g.name(), from)
		}
		want = int64(need)
	}
}

// scan reads a file of a former process: its stream, and each whole record.
func (s *Spool) scan(g *segment, each func(key uint64, at time.Time, end int64)) error {
	f, err := s.disk.Open(g.name())
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, len(magic)+2)
	if _, err := f.ReadAt(head, 0); err != nil || string(head[:len(magic)]) != magic {
		return errNoSegment
	}
	stream := make([]byte, binary.LittleEndian.Uint16(head[len(magic):]))
	if n, err := f.ReadAt(stream, int64(len(head))); n < len(stream) {
		return errors.Join(errNoSegment, err)
	}
	g.stream = string(stream)
	g.start = int64(len(head) + len(stream))
	at := g.start
	buf := make([]byte, 256<<10)
	for {
		n, err := f.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		used := 0
		for {
			key, when, _, size, need, ok := nextRecord(buf[used:n])
			if !ok {
				if need > len(buf) && n == len(buf) && used == 0 {
					buf = make([]byte, need)
				} else if need == 0 || n < len(buf) {
					g.end = at + int64(used)
					return nil
				}
				break
			}
			used += size
			each(key, when, at+int64(used))
		}
		at += int64(used)
	}
}

var errNoSegment = errors.New("no segment: its head is torn")
