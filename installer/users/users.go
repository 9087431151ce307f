// Package users knows whose homes to look after (the machine's interactive
// accounts) and how to work in them: by a worker process that runs as the
// user. It doesn't know what is done there; that is package installer's.
package users

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// Account is one interactive account.
type Account struct {
	Name string `json:"name"`
	UID  int    `json:"uid"` // -1 on Windows
	GID  int    `json:"gid"`
	SID  string `json:"sid,omitempty"` // Windows
	Home string `json:"home"`
	// CopilotHome is where COPILOT_HOME leads for this user, if it is known.
	CopilotHome string `json:"copilotHome,omitempty"`
}

// Source lists accounts. Implementations: [OS], [Below], [Self].
type Source interface {
	Accounts(ctx context.Context) ([]Account, error)
}

// SourceFunc is a function as a Source.
type SourceFunc func(ctx context.Context) ([]Account, error)

// Accounts implements Source.
func (f SourceFunc) Accounts(ctx context.Context) ([]Account, error) { return f(ctx) }

// Max is how many accounts are looked after (security.md S13).
const Max = 1000

// ErrTooMany says that the machine has more interactive accounts than Max.
// The first Max are returned with it.
var ErrTooMany = errors.New("more interactive accounts than are looked after")

func bounded(a []Account) ([]Account, error) {
	slices.SortFunc(a, func(x, y Account) int { return strings.Compare(x.Name, y.Name) })
	if len(a) > Max {
		return a[:Max], fmt.Errorf("%w (%d of %d)", ErrTooMany, Max, len(a))
	}
	return a, nil
}

// Below treats each folder in dir as the home of a user of that name, owned by
// the folder's numeric owner (--root). No account database is read.
func Below(dir string) Source {
	return SourceFunc(func(context.Context) ([]Account, error) {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list homes: %w", err)
		}
		var out []Account
		for _, e := range entries {
			fi, err := e.Info()
			if err != nil || !fi.IsDir() {
				continue
			}
			a := Account{Name: e.Name(), UID: -1, GID: -1, Home: filepath.Join(dir, e.Name())}
			if uid, gid, ok := safefile.Owner(fi); ok {
				a.UID, a.GID = uid, gid
			}
			out = append(out, a)
		}
		return bounded(out)
	})
}

// Self is the account that this process runs as, with its COPILOT_HOME.
func Self() Source {
	return SourceFunc(func(context.Context) ([]Account, error) {
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return nil, errors.New("no home folder is known for this user: set HOME")
		}
		a := Account{Name: os.Getenv("USER"), UID: os.Geteuid(), GID: os.Getegid(), Home: home, CopilotHome: os.Getenv("COPILOT_HOME")}
		if u, err := user.Current(); err == nil {
			a.Name = u.Username
			if a.UID < 0 {
				a.SID = u.Uid
			}
		}
		if a.Name == "" {
			a.Name = strconv.Itoa(a.UID)
		}
		if !filepath.IsAbs(a.CopilotHome) {
			a.CopilotHome = ""
		}
		return []Account{a}, nil
	})
}

// InProcess says that this process has no more rights than the account, so it
// may work in its home itself: it is the account, or it isn't privileged and
// couldn't become anybody anyway.
func (a Account) InProcess() bool {
	return !privileged() || a.isSelf()
}
