package users

import (
	"context"
	"errors"
	"strings"
)

// OS lists the interactive accounts of the local directory node, mobile
// accounts of a domain included.
func OS() Source {
	return SourceFunc(func(ctx context.Context) ([]Account, error) {
		out, err := tool(ctx, "/usr/bin/dscl", ".", "-readall", "/Users", "RecordName", "UniqueID", "PrimaryGroupID", "NFSHomeDirectory", "UserShell")
		if err != nil {
			return nil, errors.New("list accounts with dscl: " + err.Error())
		}
		return bounded(dsclAccounts(out))
	})
}

// groupsOf is the primary group: everything in a home is reached as its owner.
func groupsOf(_ context.Context, a Account) ([]int, error) {
	if strings.HasPrefix(a.Name, "-") {
		return nil, errors.New("account name starts with a dash")
	}
	return []int{a.GID}, nil
}
