package guard

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/pinta-ai/pinta-agent/guard/rules"
)

// protection is the part of the built-in set that is always in force.
const protection = "protection"

// BuiltinParts lists the parts of the built-in rule set.
func BuiltinParts() (parts []string) {
	names, _ := fs.Glob(rules.Files, "*.yaml")
	for _, n := range names {
		if !strings.HasSuffix(n, ".test.yaml") {
			parts = append(parts, strings.TrimSuffix(n, ".yaml"))
		}
	}
	slices.Sort(parts)
	return parts
}

// BuiltinFiles gives a part of the built-in rules, or all of them, with their
// fixtures. The protection is left out of all: it is in force anyway.
func BuiltinFiles(part string) (files []File, err error) {
	for _, p := range BuiltinParts() {
		if part != p && (part != "" || p == protection) {
			continue
		}
		for _, ext := range []string{".yaml", ".test.yaml"} {
			data, err := rules.Files.ReadFile(p + ext)
			if err != nil {
				return nil, fmt.Errorf("built-in rules: %w", err)
			}
			files = append(files, File{"builtin:" + p + ext, data})
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no built-in rules %q; there are %s", part, strings.Join(BuiltinParts(), ", "))
	}
	return files, nil
}

// builtinProtection is the protection of the guard's own files and switches.
var builtinProtection = sync.OnceValue(func() []Rule {
	data, err := rules.Files.ReadFile(protection + ".yaml")
	if err != nil {
		panic("guard: " + err.Error())
	}
	a := &Authored{where: map[string]string{}}
	for _, err := range a.parse(File{protection + ".yaml", data}, map[string]string{}) {
		panic("guard: " + err.Error())
	}
	return a.Rules
})
