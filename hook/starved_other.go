//go:build !linux

package hook

// starved is not known here: a busy machine may cost a run its files.
func starved() bool { return false }
