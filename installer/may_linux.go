package installer

import "golang.org/x/sys/unix"

// frozen tells of a flag that forbids a change even to the owner and root.
func frozen(path string) error {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st) != nil {
		return nil
	}
	switch {
	case st.Attributes&unix.STATX_ATTR_IMMUTABLE != 0:
		return errImmutable
	case st.Attributes&unix.STATX_ATTR_APPEND != 0:
		return errAppendOnly
	}
	return nil
}

// thaw is how to take the flag away.
func thaw(path string, appendOnly bool) string {
	if appendOnly {
		return "chattr -a " + path
	}
	return "chattr -i " + path
}
