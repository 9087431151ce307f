package guard

import _ "embed"

// Schema is the JSON Schema of a policy, for editors and other programs. What
// it can't say (types and cost of conditions) Compile says.
//
//go:embed schema.json
var Schema []byte
