package installer

import "golang.org/x/sys/unix"

func noexec(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Flags&unix.MNT_NOEXEC != 0
}
