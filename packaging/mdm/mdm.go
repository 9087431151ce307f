// Package mdm writes, from the one table of policy keys, what administrators
// configure the agent with: ADMX and ADML, a configuration profile, a schema and
// an example of agent.yaml, and the reference page. The files are kept in the
// repository; a test fails when they drift. Regenerate them with
// `go run ./packaging/cmd/policy`.
package mdm

import (
	"bytes"
	"embed"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"
	"text/template"

	"github.com/pinta-ai/pinta-agent/internal/settings"
)

//go:embed templates
var templates embed.FS

// Files returns every generated file by its path in the repository.
func Files() (map[string][]byte, error) {
	set, err := template.New("").Funcs(template.FuncMap{"x": escape, "plist": plistValue, "ident": ident, "title": title}).ParseFS(templates, "templates/*")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, path := range map[string]string{
		"pinta.admx":         "packaging/mdm/out/pinta.admx",
		"pinta.adml":         "packaging/mdm/out/en-US/pinta.adml",
		"pinta.mobileconfig": "packaging/mdm/out/pinta.mobileconfig",
		"agent.yaml.example": "packaging/mdm/out/agent.yaml.example",
		"settings.md":        "docs/settings.md",
	} {
		var out bytes.Buffer
		if err := set.ExecuteTemplate(&out, name, settings.Keys); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[path] = out.Bytes()
	}
	schema, err := json.MarshalIndent(schema(), "", "  ")
	if err != nil {
		return nil, err
	}
	files["packaging/mdm/out/agent.schema.json"] = append(schema, '\n')
	return files, nil
}

// schema is agent.yaml as JSON Schema; editors check against it.
func schema() map[string]any {
	properties := map[string]any{}
	for _, k := range settings.Keys {
		p := map[string]any{"description": k.Summary}
		switch k.Kind {
		case settings.Bool:
			p["type"], p["default"] = "boolean", k.Default == "true"
		case settings.Integer:
			p["type"], p["minimum"], p["default"] = "integer", 0, json.Number(k.Default)
		case settings.Duration:
			p["type"], p["pattern"], p["default"] = "string", `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`, k.Default
		default:
			p["type"] = "string"
			if k.Default != "" {
				p["default"] = k.Default
			}
			if k.Kind == settings.SecretText {
				p["writeOnly"] = true
			}
		}
		properties[k.Name] = p
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "pinta-agent agent.yaml",
		"type": "object", "additionalProperties": false, "properties": properties,
	}
}

func escape(s string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(s))
	return b.String()
}

// plistValue is a key's default as a property list value.
func plistValue(k settings.Key) string {
	switch k.Kind {
	case settings.Bool:
		return "<" + k.Default + "/>"
	case settings.Integer:
		return "<integer>" + k.Default + "</integer>"
	}
	return "<string>" + escape(k.Default) + "</string>"
}

// ident is a policy's name in ADMX and its strings.
func ident(k settings.Key) string { return "Pinta_" + k.Policy }

// title is a value name as people read it: "ManagerURL" → "Manager URL".
func title(k settings.Key) string {
	var b strings.Builder
	for i, r := range k.Policy {
		lowerBefore := i > 0 && k.Policy[i-1] >= 'a' && k.Policy[i-1] <= 'z'
		if lowerBefore && r >= 'A' && r <= 'Z' {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}
