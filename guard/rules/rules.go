// Package rules embeds the built-in rule set: YAML policies that a company can
// publish as they are, each beside its cases. It holds no code that judges.
package rules

import "embed"

// Files holds NAME.yaml and NAME.test.yaml for each part of the set.
//
//go:embed *.yaml
var Files embed.FS
