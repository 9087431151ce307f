//go:build unix

package endpoint

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

// names tells the account of a caller. The parent knows the machine's accounts
// and sends them; below --root a user is a folder.
type names struct {
	homes string

	mu    sync.Mutex
	known map[string]string // by number
}

func (n *names) set(known map[string]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = known
}

// of is the caller's account name, or "uid:N" where nobody knows one.
func (n *names) of(p serve.Peer) string {
	if p.User != "" {
		return p.User
	}
	uid := strconv.Itoa(p.UID)
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.known[uid]; ok {
		return name
	}
	name := n.lookup(p.UID)
	if n.known == nil {
		n.known = map[string]string{}
	}
	if len(n.known) < maxNames {
		n.known[uid] = name
	}
	return name
}

func (n *names) lookup(uid int) string {
	if n.homes != "" {
		if name := owned(n.homes, uid); name != "" {
			return name
		}
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "uid:" + strconv.Itoa(uid)
}

// owned is the name of the one folder in dir that belongs to uid.
func owned(dir string, uid int) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	found := ""
	for _, e := range entries {
		info, err := os.Lstat(filepath.Join(dir, e.Name()))
		if err != nil || !info.IsDir() {
			continue
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) == uid {
			if found != "" {
				return ""
			}
			found = e.Name()
		}
	}
	return found
}
