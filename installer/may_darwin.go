package installer

import "golang.org/x/sys/unix"

// The flags of chflags(2).
const (
	immutable  = 0x2 | 0x20000 // UF_IMMUTABLE, SF_IMMUTABLE
	appendOnly = 0x4 | 0x40000 // UF_APPEND, SF_APPEND
)

// frozen tells of a flag that forbids a change even to the owner and root.
func frozen(path string) error {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return nil
	}
	switch {
	case st.Flags&immutable != 0:
		return errImmutable
	case st.Flags&appendOnly != 0:
		return errAppendOnly
	}
	return nil
}

// mounted: nothing is mounted on single files there.
func mounted(string) bool { return false }

// thaw is how to take the flag away.
func thaw(path string, appendOnly bool) string {
	if appendOnly {
		return "chflags nouappnd,nosappnd " + path
	}
	return "chflags nouchg,noschg " + path
}
