package users

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// OS lists the interactive accounts of /etc/passwd, and those that only NSS
// knows (LDAP, SSSD, systemd-homed). NSS often can't enumerate, so it is asked
// for the owners of folders beside known homes and of open sessions, by
// getent's absolute path, since this program links no C library.
func OS() Source {
	return SourceFunc(func(ctx context.Context) ([]Account, error) {
		return linuxAccounts(ctx, "/", nssByUID)
	})
}

const maxDatabase = 16 << 20

func linuxAccounts(ctx context.Context, root string, nss func(context.Context, []int) []passwdEntry) ([]Account, error) {
	data, err := safefile.ReadFile(filepath.Join(root, "etc/passwd"), maxDatabase)
	if err != nil {
		return nil, err
	}
	defs, _ := safefile.ReadFile(filepath.Join(root, "etc/login.defs"), 1<<20)
	minUID := loginDefs(defs)
	entries := parsePasswd(data)
	known := map[int]bool{}
	for _, e := range entries {
		known[e.UID] = true
	}
	var ask []int
	add := func(uid int) {
		if uid >= minUID && !known[uid] && len(ask) < Max {
			known[uid] = true
			ask = append(ask, uid)
		}
	}
	for _, dir := range homeFolders(entries, minUID) {
		for _, e := range readDir(filepath.Join(root, dir)) {
			if fi, err := e.Info(); err == nil && fi.IsDir() {
				if uid, _, ok := safefile.Owner(fi); ok {
					add(uid)
				}
			}
		}
	}
	for _, e := range readDir(filepath.Join(root, "run/user")) {
		if uid, err := strconv.Atoi(e.Name()); err == nil {
			add(uid)
		}
	}
	if len(ask) > 0 {
		entries = append(entries, nss(ctx, ask)...)
	}
	var out []Account
	seen := map[int]bool{}
	for _, e := range entries {
		if e.interactive(minUID) && !seen[e.UID] {
			seen[e.UID] = true
			out = append(out, e.Account)
		}
	}
	return bounded(out)
}

// readDir lists at most a few thousand entries: a folder of homes isn't ours
// and may be a network's.
func readDir(dir string) []os.DirEntry {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	out, _ := f.ReadDir(4 * Max)
	return out
}

// homeFolders are the folders that hold homes.
func homeFolders(entries []passwdEntry, minUID int) []string {
	out := []string{"/home"}
	for _, e := range entries {
		if e.UID != 0 && e.interactive(minUID) {
			if d := filepath.Dir(e.Home); d != "/" && !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out
}

const getent = "/usr/bin/getent"

func nssByUID(ctx context.Context, uids []int) []passwdEntry {
	args := []string{"passwd"}
	for _, u := range uids {
		args = append(args, strconv.Itoa(u))
	}
	out, _ := tool(ctx, getent, args...) // unknown numbers make it fail after it has printed the others
	return parsePasswd(out)
}

// groupsOf is initgroups(3): the groups that list the account, from the file
// and, for an account of NSS, from there.
func groupsOf(ctx context.Context, a Account) ([]int, error) {
	if strings.HasPrefix(a.Name, "-") {
		return nil, errors.New("account name starts with a dash")
	}
	data, err := safefile.ReadFile("/etc/group", maxDatabase)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	groups := append([]int{a.GID}, parseGroups(data, a.Name)...)
	passwd, _ := safefile.ReadFile("/etc/passwd", maxDatabase)
	if !slices.ContainsFunc(parsePasswd(passwd), func(e passwdEntry) bool { return e.Name == a.Name }) {
		out, _ := tool(ctx, getent, "initgroups", a.Name)
		for i, f := range strings.Fields(string(out)) {
			if gid, err := strconv.ParseUint(f, 10, 31); err == nil && i > 0 {
				groups = append(groups, int(gid))
			}
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}
