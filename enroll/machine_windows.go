package enroll

import (
	"fmt"
	"strconv"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

var getFirmwareTable = windows.NewLazySystemDLL("kernel32.dll").NewProc("GetSystemFirmwareTable")

// serial reads the SMBIOS table.
func serial() string {
	const rawSMBIOS = 0x52534d42 // "RSMB"
	size, _, _ := getFirmwareTable.Call(rawSMBIOS, 0, 0, 0)
	if size == 0 || size > 1<<20 {
		return ""
	}
	table := make([]byte, size)
	n, _, _ := getFirmwareTable.Call(rawSMBIOS, 0, uintptr(unsafe.Pointer(&table[0])), size)
	if n == 0 || n > size {
		return ""
	}
	return smbiosSerial(table[:n])
}

func machineID() string {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Cryptography`, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return ""
	}
	defer key.Close()
	guid, _, err := key.GetStringValue("MachineGuid")
	if err != nil {
		return ""
	}
	return guid
}

// kernelBoot is the time of the boot as the clock had it then: the system adds
// every later correction of the clock to both fields.
func kernelBoot() string {
	var t struct {
		boot, now, zone  int64
		zoneID, reserved uint32
		bootBias, sleep  int64
	}
	if windows.NtQuerySystemInformation(windows.SystemTimeOfDayInformation, unsafe.Pointer(&t), uint32(unsafe.Sizeof(t)), nil) != nil {
		return ""
	}
	return strconv.FormatInt(t.boot-t.bootBias, 10)
}

func osVersion() string {
	v := windows.RtlGetVersion()
	return fmt.Sprintf("Windows %d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)
}

// inode: a file's index needs a handle; the folder's path will do here.
func inode(string) uint64 { return 0 }
