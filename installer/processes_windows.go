package installer

import (
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Processes lists running Copilot CLI and VS Code processes. A node process
// whose command line can't be read counts: an old plugin root is kept rather
// too long than too short.
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
		script := strings.EqualFold(name, "node.exe")
		if !script && !isHost([]string{name}) {
			continue
		}
		h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, e.ProcessID)
		if err != nil {
			continue
		}
		if argv := commandLine(h); !script || argv == nil || isHost(argv) {
			var created, exited, kernel, user windows.Filetime
			if windows.GetProcessTimes(h, &created, &exited, &kernel, &user) == nil {
				out = append(out, Process{PID: int(e.ProcessID), UID: -1, SID: ownerOf(h), Name: name, Started: time.Unix(0, created.Nanoseconds())})
			}
		}
		_ = windows.CloseHandle(h)
	}
	return out
}

// commandLine is a process's; nil if it can't be read.
func commandLine(h windows.Handle) []string {
	buf := make([]uint64, 8<<10) // aligned as the structure wants it
	var n uint32
	err := windows.NtQueryInformationProcess(h, windows.ProcessCommandLineInformation, unsafe.Pointer(&buf[0]), uint32(len(buf)*8), &n)
	if err != nil {
		return nil
	}
	argv, err := windows.DecomposeCommandLine((*windows.NTUnicodeString)(unsafe.Pointer(&buf[0])).String())
	if err != nil {
		return nil
	}
	return argv
}

// ownerOf is the SID of a process's user; empty if it can't be read.
func ownerOf(h windows.Handle) string {
	var token windows.Token
	if windows.OpenProcessToken(h, windows.TOKEN_QUERY, &token) != nil {
		return ""
	}
	defer func() { _ = token.Close() }()
	user, err := token.GetTokenUser()
	if err != nil {
		return ""
	}
	return user.User.Sid.String()
}
