package enroll

import (
	"bytes"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

func small(path string) string {
	raw, err := safefile.ReadFile(path, 64<<10)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// serial is readable by root only.
func serial() string { return small("/sys/class/dmi/id/product_serial") }

func machineID() string { return small("/etc/machine-id") }

func kernelBoot() string { return small("/proc/sys/kernel/random/boot_id") }

// osVersion is the distribution's own name for itself, else the kernel's release.
func osVersion() string {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} { // the first is a link as a rule, which is not followed
		for line := range strings.Lines(small(path)) {
			if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				return strings.Trim(strings.TrimSpace(name), `"'`)
			}
		}
	}
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	release, _, _ := bytes.Cut(u.Release[:], []byte{0})
	return string(release)
}
