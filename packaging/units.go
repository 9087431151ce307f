// Package packaging holds the service definitions of the packages, so that
// `pinta-agent service install` registers the very same. It builds nothing:
// packaging/cmd/pack does.
package packaging

import (
	_ "embed"
	"encoding/xml"
	"strings"
)

//go:embed linux/pinta-agent.service
var packagedUnit string

//go:embed darwin/pinta-agent.plist
var packagedPlist string

// Where the packages' definitions say program and log are.
const (
	unitProgram  = "/usr/bin/pinta-agent"
	plistProgram = "/Library/Application Support/Pinta/Agent/pinta-agent"
	plistLog     = "/Library/Logs/Pinta/agent.log"
)

// systemOnly are settings that a user's systemd can't carry out, for want of
// the right to make namespaces or to drop capabilities, and the folders of the
// system layout.
var systemOnly = map[string]bool{
	"After": true, "Wants": true,
	"StateDirectory": true, "StateDirectoryMode": true, "RuntimeDirectory": true, "RuntimeDirectoryMode": true,
	"RuntimeDirectoryPreserve": true, "ConfigurationDirectory": true, "ConfigurationDirectoryMode": true, "ReadWritePaths": true,
	"CapabilityBoundingSet": true, "ProtectSystem": true, "PrivateTmp": true, "PrivateDevices": true, "ProtectKernelTunables": true,
	"ProtectKernelModules": true, "ProtectKernelLogs": true, "ProtectControlGroups": true, "ProtectClock": true,
	"ProtectHostname": true, "KeyringMode": true,
}

// Unit is the systemd unit for a program anywhere, as a template of
// kardianos/service; user asks for that of a user's own service.
func Unit(user bool) string {
	text := strings.Replace(packagedUnit, unitProgram, "{{Path | cmdEscape}}", 1)
	if !user {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if key, _, _ := strings.Cut(line, "="); systemOnly[key] || strings.HasPrefix(line, "#") {
			continue // the comments are about the system's
		}
		out.WriteString(strings.Replace(line, "multi-user.target", "default.target", 1))
	}
	return out.String()
}

// Plist is the launchd job for a program anywhere, as a template of
// kardianos/service, with its log in a file of the caller's.
func Plist(log string) string {
	var escaped strings.Builder
	xml.EscapeText(&escaped, []byte(log)) // a Builder takes all
	return strings.NewReplacer(plistProgram, "{{Path | html}}", plistLog, escaped.String()).Replace(packagedPlist)
}
