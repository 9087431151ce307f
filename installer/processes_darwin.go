package installer

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Processes lists running Copilot CLI and VS Code processes from the kernel's
// table. Of a script only its interpreter's name is known there, so every node
// counts: an old plugin root is kept rather too long than too short.
func Processes() []Process {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	var out []Process
	for _, p := range list {
		name := unix.ByteSliceToString(p.Proc.P_comm[:])
		if isHost([]string{name}) || strings.EqualFold(name, "node") {
			start := p.Proc.P_starttime
			out = append(out, Process{PID: int(p.Proc.P_pid), UID: int(p.Eproc.Ucred.Uid), Name: name, Started: time.Unix(start.Sec, int64(start.Usec)*1000)})
		}
	}
	return out
}
