package installer

import (
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Processes lists running Copilot CLI and VS Code processes. Of a script only
// its interpreter's name is known there, so every node counts: an old plugin
// root is kept rather too long than too short.
func Processes() []Process {
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = windows.CloseHandle(snap) }()
	var e windows.ProcessEntry32
	e.Size = uint32(unsafe.Sizeof(e))
	var out []Process
	for err = windows.Process32First(snap, &e); err == nil; err = windows.Process32Next(snap, &e) {
		name := windows.UTF16ToString(e.ExeFile[:])
		if !isHost([]string{name}) && !strings.EqualFold(name, "node.exe") {
			continue
		}
		h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, e.ProcessID)
		if err != nil {
			continue
		}
		var created, exited, kernel, user windows.Filetime
		if windows.GetProcessTimes(h, &created, &exited, &kernel, &user) == nil {
			out = append(out, Process{PID: int(e.ProcessID), UID: -1, Name: name, Started: time.Unix(0, created.Nanoseconds())})
		}
		_ = windows.CloseHandle(h)
	}
	return out
}
