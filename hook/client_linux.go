package hook

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// clientStart is when the client of a hook's process group began, by the clock
// of files. It makes each hook a group, the leader of which is its child.
func clientStart(group int) (start unix.Timespec, err error) {
	client, _, err := process(group)
	if err != nil {
		return start, err
	}
	_, began, err := process(client)
	if err != nil {
		return start, err
	}
	// A clock that is set forward while the client runs makes it look younger;
	// the system keeps no start by the clock of then.
	var now, up unix.Timespec // of the same moment
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return start, err
	}
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return start, err
	}
	const tick = 1e9 / 100
	return unix.NsecToTimespec(now.Nano() - up.Nano() + began*tick), nil
}

// process tells a process's parent, and when it began: ticks since the system
// did.
func process(pid int) (parent int, began int64, err error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	var buf [1 << 10]byte
	n, err := unix.Read(fd, buf[:])
	_ = unix.Close(fd)
	if err != nil {
		return 0, 0, err
	}
	// 123 (name) S 122 …: the name may hold anything, brackets too.
	stat := buf[:n]
	fields := stat[bytes.LastIndexByte(stat, ')')+1:]
	const parentField, startField = 2, 20
	for i := 1; len(fields) > 0 && i <= startField; i++ {
		var field []byte
		field, fields, _ = bytes.Cut(bytes.TrimLeft(fields, " "), []byte{' '})
		switch i {
		case parentField:
			parent = int(decimal(field))
		case startField:
			began = decimal(field)
		}
	}
	if parent <= 0 && pid != 1 || began <= 0 {
		return 0, 0, unix.ESRCH
	}
	return parent, began, nil
}

// decimal reads a number, -1 for what is none.
func decimal(digits []byte) (n int64) {
	for _, c := range digits {
		if c < '0' || c > '9' {
			return -1
		}
		n = 10*n + int64(c-'0')
	}
	return n
}
