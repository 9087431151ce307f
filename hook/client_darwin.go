package hook

import "golang.org/x/sys/unix"

// clientStart is when the client of a hook's process group began, by the clock
// of files. It makes each hook a group, the leader of which is its child.
func clientStart(group int) (start unix.Timespec, err error) {
	leader, err := unix.SysctlKinfoProc("kern.proc.pid", group)
	if err != nil {
		return start, err
	}
	client, err := unix.SysctlKinfoProc("kern.proc.pid", int(leader.Eproc.Ppid))
	if err != nil {
		return start, err
	}
	return unix.NsecToTimespec(client.Proc.P_starttime.Nano()), nil
}
