package enroll

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

// machine tells what people know this machine by.
func machine() api.EnrolDevice {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	hint := cleanSerial(serial())
	if hint == "" {
		hint = machineID()
	}
	return api.EnrolDevice{Hostname: bounded(host, 255), Os: runtime.GOOS, OsVersion: bounded(osVersion(), 128), Arch: runtime.GOARCH, MachineHint: bounded(hint, 255)}
}

// bounded is what the Manager takes of such a text: n bytes, no controls.
func bounded(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}

// cleanSerial drops what makers leave in the place of a serial number.
func cleanSerial(s string) string {
	s = strings.TrimSpace(s)
	switch strings.ToLower(s) {
	case "to be filled by o.e.m.", "system serial number", "default string", "none", "not specified", "not applicable", "unknown", "n/a":
		return ""
	}
	if strings.Trim(s, "0-. ") == "" {
		return ""
	}
	return s
}

// bootID names this boot of this machine for this state file, as a hash. Two of
// them alive under one key mean that the file was copied: the kernel's boot id
// tells two machines apart, the file's place two copies on one.
func bootID(stateFile string) string {
	h := sha256.New()
	place, err := filepath.EvalSymlinks(filepath.Dir(stateFile))
	if err != nil {
		place = stateFile
	}
	_, _ = io.WriteString(h, kernelBoot()+"\n"+place) // hash.Hash never fails
	_ = binary.Write(h, binary.BigEndian, inode(stateFile))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}
