// Command policy writes the files that are generated from the table of policy
// keys. Run it in the repository's root after a change of the table.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinta-ai/pinta-agent/packaging/mdm"
)

func main() {
	files, err := mdm.Files()
	for path, data := range files {
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755) //nolint:gosec // public
		}
		if err == nil {
			err = os.WriteFile(path, data, 0o644) //nolint:gosec // public
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "policy:", err)
		os.Exit(1)
	}
}
