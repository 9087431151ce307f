package enroll

import (
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// serial asks the I/O registry; there is no call for it without cgo.
func serial() string {
	out, err := exec.Command("/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice").Output()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(line, "="); ok && strings.Contains(name, `"IOPlatformSerialNumber"`) {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

func sysctl(name string) string {
	v, err := unix.Sysctl(name)
	if err != nil {
		return ""
	}
	return v
}

func machineID() string { return sysctl("kern.uuid") }

func kernelBoot() string { return sysctl("kern.bootsessionuuid") }

func osVersion() string { return "macOS " + sysctl("kern.osproductversion") }
