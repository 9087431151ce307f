package copilot_test

import (
	"maps"
	"net"
	"path/filepath"
	"testing"

	"github.com/pinta-ai/pinta-agent/hook/config"
)

// hostile is what a terminal, an .envrc or a dev container may export to spoil
// the hook: every variable that it or its runtime reads (security.md S17).
// COPILOT_HOME and BASH_ENV are not among them: which hook file the CLI reads and
// what its shell prints have scenarios of their own.
func hostile(c cli, dead string) map[string]string {
	all := map[string]string{
		config.Event:            "Notification",
		config.Source:           "user",
		config.GuardEndpoint:    "",
		config.GuardTimeout:     "1",
		config.GuardDisabled:    "1",
		config.RelayToken:       "not-a-token",
		config.TelemetryTimeout: "-1",
		config.DataDir:          "/dev/null/data",
		config.Endpoint:         "",
		config.Headers:          "x-spoiled=1",
		config.OTLPTraces:       dead,
		config.OTLPEndpoint:     dead,
		config.OTLPHeaders:      "x-spoiled=1",
		"HTTP_PROXY":            dead, "http_proxy": dead, "HTTPS_PROXY": dead, "https_proxy": dead, "ALL_PROXY": dead, "all_proxy": dead,
		"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", // for the model, which is the CLI's own
		"VSCODE_PID": "1", "VSCODE_IPC_HOOK": "/dev/null", "TERM_PROGRAM": "vscode",
		"COPILOT_AGENT_PROMPT": "spoiled",
		"GODEBUG":              "fips140=spoiled", "GOTRACEBACK": "crash", "GOMAXPROCS": "1", "GOGC": "1", "GOMEMLIMIT": "spoiled",
		"LD_PRELOAD": "/nonexistent/spoiled.so", "ENV": "/nonexistent/profile", "SHELLOPTS": "errexit", "IFS": "/", "CDPATH": "/",
		"BASH_FUNC_[%%": "() { return 1; }", "BASH_FUNC_exit%%": "() { return 2; }", "BASH_FUNC_exec%%": "() { return 3; }",
		"PINTA_ENROLLMENT_TOKEN": "not-a-token",
	}
	if c.atLeast("1.0.73") { // the shell tool of older ones hangs with it, without any hook too: R16 of the threat model
		all["BASH_FUNC_echo%%"] = "() { printf spoiled; }"
	}
	return all
}

// unreachable is the address of a port of loopback on which nobody listens.
func unreachable(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// TestHostileEnvironment: nothing that a terminal exports switches the guard
// off, changes a verdict, or breaks a call.
func TestHostileEnvironment(t *testing.T) {
	findCLI(t)
	m := plain(t)
	s := newScript(t, m, "hostile")
	secret := secretOf("ghp_")
	s.write("mask.ini", "token = "+secret+"\n")
	s.write("victim/keep", "")
	maps.Copy(s.session.Env, hostile(s.cli, unreachable(t)))
	s.bash("call_allow", "touch allowed")
	s.bash("call_deny", "touch denied-ran; rm -rf victim")
	s.bash("call_mask", "cat mask.ini")
	s.run()
	s.runs("hostile.allow", "call_allow", s.path("allowed"))
	s.denied("hostile.deny", "call_deny", denyText, s.path("denied-ran"), "1.0.49")
	s.masked("hostile.mask", "call_mask", secret, "1.0.57")
}

// TestPrintingBashEnv: the CLI's bash honours BASH_ENV, and what a file there
// prints would spoil the stdout of user entries: the host takes that for a
// denial of permissionRequest, and loses ours of preToolUse.
func TestPrintingBashEnv(t *testing.T) {
	findCLI(t)
	m := plain(t)
	s := newScript(t, m, "bashenv")
	noisy := filepath.Join(m.Home(user), "noisy.sh")
	writeFile(t, noisy, "echo hello from BASH_ENV\n[() { return 1; }\n", 0o644)
	s.session.Env["BASH_ENV"] = noisy
	s.write("victim/keep", "")
	s.bash("call_allow", "touch allowed")
	s.bash("call_deny", "touch denied-ran; rm -rf victim")
	s.run()
	s.runs("bashenv.allow", "call_allow", s.path("allowed"))
	s.denied("bashenv.deny", "call_deny", denyText, s.path("denied-ran"), "1.0.49")
}
