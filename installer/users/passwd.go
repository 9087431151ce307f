package users

import (
	"bufio"
	"bytes"
	"path"
	"strconv"
	"strings"
)

// passwdEntry is one line of the account database, from the file or from NSS.
type passwdEntry struct {
	Account
	shell string
}

// parsePasswd reads lines of the passwd format. Malformed lines, NIS
// compatibility entries and numbers out of range are passed over.
func parsePasswd(data []byte) []passwdEntry {
	var out []passwdEntry
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		f := strings.Split(sc.Text(), ":")
		if len(f) != 7 || f[0] == "" || strings.ContainsAny(f[0][:1], "#+-") {
			continue
		}
		uid, err1 := strconv.ParseUint(f[2], 10, 31)
		gid, err2 := strconv.ParseUint(f[3], 10, 31)
		if err1 != nil || err2 != nil || strings.ContainsAny(f[0]+f[5], "\x00") {
			continue
		}
		out = append(out, passwdEntry{Account{Name: f[0], UID: int(uid), GID: int(gid), Home: path.Clean(f[5])}, f[6]})
	}
	return out
}

// interactive says that somebody may work as this account: a real shell, a
// real home, and a number that isn't a service's. Root counts: an assistant
// started with sudo runs as root.
func (e passwdEntry) interactive(minUID int) bool {
	if e.UID != 0 && e.UID < minUID || e.UID == nobody {
		return false
	}
	switch path.Base(e.shell) {
	case "nologin", "false", "sync", "shutdown", "halt", "true", "git-shell":
		return false
	}
	if !path.IsAbs(e.Home) {
		return false
	}
	for _, no := range []string{"/", "/nonexistent", "/dev", "/proc", "/sys", "/run", "/var/empty", "/bin", "/sbin", "/usr"} {
		if e.Home == no || no != "/" && strings.HasPrefix(e.Home, no+"/") && no != "/run" && no != "/usr" {
			return false
		}
	}
	return true
}

const nobody = 65534

// parseGroups returns the numbers of the groups that list name as a member.
func parseGroups(data []byte, name string) []int {
	var out []int
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		f := strings.Split(sc.Text(), ":")
		if len(f) != 4 {
			continue
		}
		gid, err := strconv.ParseUint(f[2], 10, 31)
		if err != nil {
			continue
		}
		for _, m := range strings.Split(f[3], ",") {
			if m == name {
				out = append(out, int(gid))
				break
			}
		}
	}
	return out
}

// loginDefs reads UID_MIN; 1000 where it isn't set.
func loginDefs(data []byte) int {
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) == 2 && f[0] == "UID_MIN" {
			if n, err := strconv.Atoi(f[1]); err == nil && n > 0 {
				return n
			}
		}
	}
	return 1000
}
