package installer

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

const maxProcesses = 100_000

// Processes lists running Copilot CLI and VS Code processes from /proc. What
// can't be read is passed over.
func Processes() []Process {
	boot, ok := bootTime()
	if !ok {
		return nil
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(maxProcesses)
	var out []Process
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		dir := "/proc/" + n
		cmdline, err := readProc(dir + "/cmdline")
		if err != nil || !isHost(strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")) {
			continue
		}
		fi, err := os.Lstat(dir)
		if err != nil {
			continue
		}
		stat, err := readProc(dir + "/stat")
		if err != nil {
			continue
		}
		ticks, ok := startTicks(stat)
		if !ok {
			continue
		}
		uid, _, _ := safefile.Owner(fi)
		argv0, _, _ := strings.Cut(string(cmdline), "\x00")
		out = append(out, Process{PID: pid, UID: uid, Name: argv0, Started: boot.Add(time.Duration(ticks) * time.Second / userHz)})
	}
	return out
}

// userHz is the unit of times in /proc, fixed in the kernel's interface.
const userHz = 100

// readProc reads a file of /proc, whose size says nothing.
func readProc(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, 16<<10)
	n, err := f.Read(buf)
	if n > 0 {
		err = nil
	}
	return buf[:n], err
}

// startTicks is field 22 of /proc/PID/stat, counted behind the name, which may
// hold blanks and parentheses.
func startTicks(stat []byte) (uint64, bool) {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, false
	}
	f := bytes.Fields(stat[i+1:])
	if len(f) < 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(f[19]), 10, 64)
	return n, err == nil
}

func bootTime() (time.Time, bool) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return time.Time{}, false
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	n, _ := f.Read(buf)
	for line := range bytes.Lines(buf[:n]) {
		if s, ok := bytes.CutPrefix(line, []byte("btime ")); ok {
			sec, err := strconv.ParseInt(string(bytes.TrimSpace(s)), 10, 64)
			return time.Unix(sec, 0), err == nil
		}
	}
	return time.Time{}, false
}
