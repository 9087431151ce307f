package packaging

import (
	"strings"
	"testing"

	"howett.net/plist"
)

// changed are the lines of a text that another lacks.
func changed(text, other string) (lines []string) {
	known := map[string]bool{}
	for line := range strings.Lines(other) {
		known[line] = true
	}
	for line := range strings.Lines(text) {
		if !known[line] {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestUnitIsThePackages(t *testing.T) {
	if got := strings.Join(changed(Unit(false), packagedUnit), "\n"); got != "ExecStart={{Path | cmdEscape}} run" {
		t.Errorf("differs from the package's unit in %q", got)
	}
	if lost := changed(packagedUnit, Unit(false)); len(lost) != 1 {
		t.Errorf("lost from the package's unit: %q", lost)
	}
}

func TestUserUnit(t *testing.T) {
	user := Unit(true)
	if got := strings.Join(changed(user, Unit(false)), "\n"); got != "WantedBy=default.target" {
		t.Errorf("the user's unit adds %q", got)
	}
	for _, want := range []string{"Type=notify", "WatchdogSec=60", "Restart=always", "NoNewPrivileges=yes", "SystemCallFilter=@system-service", "MemoryDenyWriteExecute=yes"} {
		if !strings.Contains(user, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	for _, line := range changed(Unit(false), user) {
		key, _, _ := strings.Cut(line, "=")
		if !systemOnly[key] && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "WantedBy=") {
			t.Errorf("lost without a reason: %s", line)
		}
	}
}

func TestPlistIsThePackages(t *testing.T) {
	var ours, packaged map[string]any
	const program, log = "/opt/a b/pinta-agent", "/Users/a&b/Library/Logs/pinta-agent.log"
	if _, err := plist.Unmarshal([]byte(strings.Replace(Plist(log), "{{Path | html}}", program, 1)), &ours); err != nil {
		t.Fatal(err)
	}
	if _, err := plist.Unmarshal([]byte(packagedPlist), &packaged); err != nil {
		t.Fatal(err)
	}
	arguments := ours["ProgramArguments"].([]any)
	if len(arguments) != 4 || arguments[0] != program || arguments[1] != "run" || arguments[3] != log {
		t.Errorf("arguments %q", arguments)
	}
	if ours["Label"] != "pinta-agent" || ours["KeepAlive"] != true || len(ours) != len(packaged) {
		t.Errorf("%v is not the package's %v", ours, packaged)
	}
}
