package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckVersion(t *testing.T) {
	for v, good := range map[string]bool{
		"0.0.1": true, "1.2.3": true, "1.2.3-rc.1": true, "255.255.65535": true,
		"": false, "1": false, "1.2": false, "1.2.3.4": false, "01.2.3": false, "1.2.3+build": false, "1.2.3-": false, "1.2.3-a_b": false,
		"256.0.0": false, "0.256.0": false, "0.0.65536": false, "0.0.99999": false, "1.2.3 ": false, "1.2.3;x": false, "../1.2.3": false,
	} {
		if err := CheckVersion(v); (err == nil) != good {
			t.Errorf("%q: %v", v, err)
		}
	}
}

func TestAlone(t *testing.T) {
	r := Release{Version: "1.0.0", Out: t.TempDir()}
	for _, name := range Names(r.Version) {
		if err := os.WriteFile(filepath.Join(r.Out, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Alone(); err != nil {
		t.Errorf("its own artefacts: %v", err)
	}
	for _, name := range []string{"pinta-agent-1.0.0-rc.1.pkg", "pinta-agent_1.0.1_amd64.deb", "notes.txt"} {
		path := filepath.Join(r.Out, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.Alone(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s beside them: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
