package mdm

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"howett.net/plist"

	"github.com/pinta-ai/pinta-agent/internal/settings"
)

func TestFilesAreInStep(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(path)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the table of keys makes (%v): run `go run ./packaging/cmd/policy`", path, err)
		}
	}
}

func generated(t *testing.T, ending string) []byte {
	t.Helper()
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range files {
		if strings.HasSuffix(path, ending) {
			return data
		}
	}
	t.Fatalf("no file ends in %s", ending)
	return nil
}

// Every $(string.X) and $(presentation.X) of the ADMX must be in the ADML.
func TestADMXNamesWhatADMLHas(t *testing.T) {
	has := map[string]bool{}
	each(t, generated(t, "pinta.adml"), func(e xml.StartElement) {
		for _, a := range e.Attr {
			if a.Name.Local == "id" {
				has[e.Name.Local+"."+a.Value] = true
			}
		}
	})
	values := map[string]bool{}
	each(t, generated(t, "pinta.admx"), func(e xml.StartElement) {
		for _, a := range e.Attr {
			if name, ok := strings.CutPrefix(a.Value, "$("); ok && !has[strings.TrimSuffix(name, ")")] {
				t.Errorf("<%s> names %s, which the ADML lacks", e.Name.Local, a.Value)
			}
			if a.Name.Local == "valueName" {
				values[a.Value] = true
			}
		}
	})
	for _, k := range settings.Keys {
		if !values[k.Policy] {
			t.Errorf("no policy writes %s", k.Policy)
		}
	}
}

func each(t *testing.T, data []byte, visit func(xml.StartElement)) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(data))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			visit(e)
		}
	}
}

func TestProfile(t *testing.T) {
	var profile struct {
		PayloadContent []map[string]any
	}
	if _, err := plist.Unmarshal(generated(t, ".mobileconfig"), &profile); err != nil {
		t.Fatal(err)
	}
	for _, k := range settings.Keys {
		if _, ok := profile.PayloadContent[0][k.Name]; !ok {
			t.Errorf("the profile lacks %s", k.Name)
		}
	}
}

// The example, with its keys switched on, is a configuration that the agent loads and
// that changes nothing.
func TestExampleIsTheDefaults(t *testing.T) {
	var on []string
	for line := range strings.Lines(string(generated(t, "agent.yaml.example"))) {
		if after, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(after, " ") {
			on = append(on, after)
		}
	}
	if len(on) != len(settings.Keys) {
		t.Fatalf("%d keys in the example, %d in the table", len(on), len(settings.Keys))
	}
	l := settings.Layout{Root: t.TempDir()}
	l.ConfigFile = filepath.Join(l.Root, "agent.yaml")
	if err := os.WriteFile(l.ConfigFile, []byte(strings.Join(on, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := settings.Load(l)
	if err != nil {
		t.Fatal(err)
	}
	if v := s.Values(); len(v) != 0 {
		t.Errorf("the example changes %v", v)
	}
	var doc map[string]any
	if err := yaml.Unmarshal([]byte(strings.Join(on, "")), &doc); err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(generated(t, ".schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	for name, value := range doc {
		kind := map[string]bool{"string": false, "boolean": false, "integer": false}
		switch value.(type) {
		case string:
			kind["string"] = true
		case bool:
			kind["boolean"] = true
		case int:
			kind["integer"] = true
		}
		if !kind[schema.Properties[name].Type] {
			t.Errorf("the schema calls %s a %s, the example writes %T", name, schema.Properties[name].Type, value)
		}
	}
}

func TestNoTokenInGeneratedFiles(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range files {
		if bytes.Contains(data, []byte("pinta_1")) {
			t.Errorf("%s holds a token", path)
		}
	}
}

// Intune compares what the discovery script says with the rules: by name, and
// true is no text.
func TestComplianceRulesAndScript(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "intune", "compliance.ps1"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("..", "intune", "compliance.json"))
	if err != nil {
		t.Fatal(err)
	}
	var compliance struct {
		Rules []struct {
			SettingName, DataType string
			Operand               any
		}
	}
	if err := json.Unmarshal(data, &compliance); err != nil {
		t.Fatal(err)
	}
	if len(compliance.Rules) == 0 {
		t.Error("no rules")
	}
	for _, r := range compliance.Rules {
		if r.DataType != "Boolean" || r.Operand != true || !bytes.Contains(script, []byte(r.SettingName+" = $false")) {
			t.Errorf("%+v is not what the script says", r)
		}
	}
}

// Intune's agent is a 32-bit program, where %ProgramFiles% is another folder.
func TestScriptsFindTheAgentFromA32BitProgram(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join("..", "intune", "*.ps1"))
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, path := range append(scripts, filepath.Join("..", "..", "docs", "rollout", "intune.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte("ProgramW6432")) || bytes.Contains(text, []byte(`ProgramFiles%\`)) || bytes.Contains(text, []byte("$env:ProgramFiles")) {
			t.Errorf("%s does not name the folder by ProgramW6432", path)
		}
	}
}
