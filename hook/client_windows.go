package hook

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// clientStart is when the client of this run began, by the clock of files, in
// units of 100 ns. It runs each hook through a shell, which is its child. A
// number that somebody else has by now tells itself by its later start.
func clientStart() (int64, error) {
	pid, start, err := process(windows.GetCurrentProcessId())
	for range 2 {
		if err != nil {
			return 0, err
		}
		child := start
		if pid, start, err = process(pid); err == nil && start > child {
			err = windows.ERROR_INVALID_PARAMETER
		}
	}
	return start, err
}

// process tells a process's parent, and when it began.
func process(pid uint32) (parent uint32, start int64, err error) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = windows.CloseHandle(h) }()
	var info windows.PROCESS_BASIC_INFORMATION
	if err := windows.NtQueryInformationProcess(h, windows.ProcessBasicInformation, unsafe.Pointer(&info), uint32(unsafe.Sizeof(info)), nil); err != nil {
		return 0, 0, err
	}
	var began, exit, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &began, &exit, &kernel, &user); err != nil {
		return 0, 0, err
	}
	return uint32(info.InheritedFromUniqueProcessId), int64(began.HighDateTime)<<32 | int64(began.LowDateTime), nil
}
