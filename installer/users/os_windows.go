package users

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

const profileList = `SOFTWARE\Microsoft\Windows NT\CurrentVersion\ProfileList`

// OS lists the machine's user profiles: local and domain accounts, and those
// of Entra ID.
func OS() Source {
	return SourceFunc(func(context.Context) ([]Account, error) {
		list, err := registry.OpenKey(registry.LOCAL_MACHINE, profileList, registry.READ)
		if err != nil {
			return nil, fmt.Errorf("list user profiles: %w", err)
		}
		defer func() { _ = list.Close() }()
		sids, err := list.ReadSubKeyNames(-1)
		if err != nil {
			return nil, fmt.Errorf("list user profiles: %w", err)
		}
		var out []Account
		for _, sid := range sids {
			if !strings.HasPrefix(sid, "S-1-5-21-") && !strings.HasPrefix(sid, "S-1-12-1-") || strings.HasSuffix(sid, ".bak") {
				continue
			}
			k, err := registry.OpenKey(list, sid, registry.READ)
			if err != nil {
				continue
			}
			home, _, err := k.GetStringValue("ProfileImagePath")
			_ = k.Close()
			if err != nil {
				continue
			}
			if home, err = registry.ExpandString(home); err != nil || !filepath.IsAbs(home) {
				continue
			}
			a := Account{Name: filepath.Base(home), UID: -1, GID: -1, SID: sid, Home: filepath.Clean(home)}
			if s, err := windows.StringToSid(sid); err == nil {
				if name, domain, _, err := s.LookupAccount(""); err == nil {
					a.Name = domain + `\` + name
				}
			}
			a.CopilotHome = userEnvironment(sid, "COPILOT_HOME")
			out = append(out, a)
		}
		return bounded(out)
	})
}

// userEnvironment reads a variable that the user set for good; it is there
// while the user's registry is loaded, that is while signed in.
func userEnvironment(sid, name string) string {
	k, err := registry.OpenKey(registry.USERS, sid+`\Environment`, registry.READ)
	if err != nil {
		return ""
	}
	defer func() { _ = k.Close() }()
	v, _, err := k.GetStringValue(name)
	if err != nil || !filepath.IsAbs(v) {
		return ""
	}
	return filepath.Clean(v)
}

func privileged() bool { return windows.GetCurrentProcessToken().IsElevated() }

func (a Account) isSelf() bool {
	u, err := windows.GetCurrentProcessToken().GetTokenUser()
	return err == nil && (a.SID == "" || u.User.Sid.String() == a.SID)
}
