package installer

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Processes lists running Copilot CLI and VS Code processes from the kernel's
// table. A node process whose arguments can't be read counts: an old plugin
// root is kept rather too long than too short.
func Processes() []Process {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	var out []Process
	for _, p := range list {
		name := unix.ByteSliceToString(p.Proc.P_comm[:])
		script := strings.EqualFold(name, "node")
		if !script && !isHost([]string{name}) {
			continue
		}
		if script {
			raw, err := unix.SysctlRaw("kern.procargs2", int(p.Proc.P_pid))
			if argv, ok := procArgs(raw); err == nil && ok && !isHost(argv) {
				continue
			}
		}
		start := p.Proc.P_starttime
		out = append(out, Process{PID: int(p.Proc.P_pid), UID: int(p.Eproc.Ucred.Uid), Name: name, Started: time.Unix(start.Sec, int64(start.Usec)*1000)})
	}
	return out
}
