//go:build unix

package installer

// policyPaths are where the machine's policy may stand, the one to use first.
func (m *machine) policyPaths() []string { return []string{m.d.Layout.PolicyFile()} }

// asMachine adds what a machine has besides its file system: nothing here.
func asMachine(s System, _ string) System { return s }
