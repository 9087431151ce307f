package installer

import "golang.org/x/sys/unix"

// attributes of an entry, by statx; no bits where the kernel can't tell.
func attributes(path string) uint64 {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st) != nil {
		return 0
	}
	return st.Attributes
}

// frozen tells of a flag that forbids a change even to the owner and root.
func frozen(path string) error {
	switch a := attributes(path); {
	case a&unix.STATX_ATTR_IMMUTABLE != 0:
		return errImmutable
	case a&unix.STATX_ATTR_APPEND != 0:
		return errAppendOnly
	}
	return nil
}

// mounted: something is mounted there, as containers do with single files, and
// the system refuses to put another in its place.
func mounted(path string) bool { return attributes(path)&unix.STATX_ATTR_MOUNT_ROOT != 0 }

// thaw is how to take the flag away.
func thaw(path string, appendOnly bool) string {
	if appendOnly {
		return "chattr -a " + path
	}
	return "chattr -i " + path
}
