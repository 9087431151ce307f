package users

import (
	"strconv"
	"strings"
)

// macOS gives its own services and hidden accounts numbers below this.
const darwinMinUID = 500

// dsclAccounts reads what "dscl . -readall /Users …" prints: "Key: value value"
// lines, or, if one of the values holds a blank, a line each after one blank;
// a line "-" between records. Of several values the first counts.
func dsclAccounts(out []byte) []Account {
	var accounts []Account
	for _, record := range strings.Split("\n"+string(out)+"\n", "\n-\n") {
		f := map[string]string{}
		key := ""
		for _, l := range strings.Split(record, "\n") {
			switch {
			case strings.HasPrefix(l, " ") && key != "":
				if f[key] == "" {
					f[key] = l[1:]
				}
			default:
				k, v, ok := strings.Cut(l, ":")
				if ok {
					key, f[k] = k, ""
					if vs := strings.Fields(v); len(vs) > 0 {
						f[k] = vs[0]
					}
				}
			}
		}
		uid, err1 := strconv.ParseUint(f["UniqueID"], 10, 31)
		gid, err2 := strconv.ParseUint(f["PrimaryGroupID"], 10, 31)
		if err1 != nil || err2 != nil {
			continue
		}
		name := f["RecordName"]
		e := passwdEntry{Account{Name: name, UID: int(uid), GID: int(gid), Home: f["NFSHomeDirectory"]}, f["UserShell"]}
		if name != "" && !strings.HasPrefix(name, "_") && e.interactive(darwinMinUID) {
			accounts = append(accounts, e.Account)
		}
	}
	return accounts
}
