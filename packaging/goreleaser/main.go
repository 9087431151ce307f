// Command goreleaser checks a goreleaser configuration against goreleaser's own
// JSON schema, made from its types as `goreleaser jsonschema` makes it. Building all
// of goreleaser takes minutes; its types take seconds.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
	reflected "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: goreleaser CONFIG")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
	fmt.Println("ok  ", os.Args[1])
}

func check(file string) error {
	schema := reflected.Reflect(&config.Project{})
	schema.Definitions["FileInfo"] = reflected.Reflect(&config.FileInfo{})
	text, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("goreleaser.json", doc); err != nil {
		return err
	}
	compiled, err := c.Compile("goreleaser.json")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var value any
	if err := yaml.Unmarshal(data, &value); err != nil {
		return err
	}
	if text, err = json.Marshal(value); err != nil { // YAML's own types out
		return err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return compiled.Validate(instance)
}
