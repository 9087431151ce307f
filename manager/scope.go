package manager

import "slices"

// scope is what part of the tenant a caller sees: nil is all of it. Every query of the admin surface carries one.
type scope []string

func (s scope) sees(group string) bool { return s == nil || slices.Contains(s, group) }
