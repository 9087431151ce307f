package installer

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/installer/users"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// Desired is what the machine should look like. The same value gives the same
// bytes everywhere.
type Desired struct {
	Layout settings.Layout
	// Users are the accounts to register hooks for; [Accounts] lists them.
	Users []users.Account
	// Version is the agent's, written into our files.
	Version string
	// Hooks says which registrations are wanted. One that isn't is taken out.
	Hooks Hooks
	// Managed adds the settings below to each entry, where they beat what a
	// terminal exports.
	Managed   bool
	Endpoints Endpoints
	// GuardTimeoutMs is the config's timeoutMs; 0 leaves the hook's default.
	GuardTimeoutMs int
	// Headers and RelayToken stay empty with the socket or pipe, where the
	// kernel tells who calls (security.md S19).
	Headers settings.Secret
	// RelayToken is each account's token for a loopback listener; nil without one.
	RelayToken func(users.Account) settings.Secret
	Image      Image
	// Uninstall asks for everything to be gone again.
	Uninstall *Removal

	// hold leaves an object alone for now: something fights us over it.
	hold func(o Object, path string) bool
	// partial: Users are only those whose homes changed.
	partial bool
}

// Hooks says which registrations are wanted.
type Hooks struct{ User, Machine bool }

// Endpoints are the URLs that hooks are told. Both empty: env files are left
// as they are.
type Endpoints struct{ Guard, Traces string }

// Removal says how far an uninstall goes.
type Removal struct {
	// Grace is how long hooks that have started may go on before the binary
	// goes; 0 is at once.
	Grace time.Duration
	// Purge removes the hook's queue and trace store, and our journal, too.
	Purge bool
	// KeepBinary leaves the hook binary, for "hooks uninstall".
	KeepBinary bool
}

// HookGrace covers a hook that started just before: the host ends it by then.
const HookGrace = hostTimeout * time.Second

func (d Desired) validate() error {
	for name, v := range map[string]string{"guard endpoint": d.Endpoints.Guard, "traces endpoint": d.Endpoints.Traces,
		"headers": d.Headers.Reveal()} {
		if strings.ContainsAny(v, "\r\n\x00") {
			return fmt.Errorf("%s holds a line break: correct it", name)
		}
	}
	if !filepath.IsAbs(d.Layout.HookBinary) || !filepath.IsAbs(d.Layout.StateDir) {
		return fmt.Errorf("hook path %q and state folder %q must be absolute", d.Layout.HookBinary, d.Layout.StateDir)
	}
	return nil
}

func (d Desired) registration(source string) registration {
	r := registration{Hook: d.Layout.HookBinary, Version: d.Version, Source: source, Env: map[string]string{}}
	if d.Managed {
		maps.Copy(r.Env, map[string]string{
			KeyGuard: d.Endpoints.Guard, "PINTA_GUARD_DISABLED": "0",
			KeyGuardTimeout: d.timeout(), KeyEndpoint: d.Endpoints.Traces,
		})
		if r.Env[KeyGuardTimeout] == "" {
			delete(r.Env, KeyGuardTimeout)
		}
	}
	return r
}

func (d Desired) timeout() string {
	if d.GuardTimeoutMs <= 0 {
		return ""
	}
	return strconv.Itoa(d.GuardTimeoutMs)
}

func (d Desired) env(a users.Account) map[string]string {
	token := settings.Secret("")
	if d.RelayToken != nil {
		token = d.RelayToken(a)
	}
	return map[string]string{
		KeyEndpoint: d.Endpoints.Traces, KeyHeaders: d.Headers.Reveal(),
		KeyGuard: d.Endpoints.Guard, KeyGuardTimeout: d.timeout(), KeyRelayToken: token.Reveal(),
	}
}

// Names below a Copilot home.
const (
	hookFileName = "pinta-copilot.json"
	envFileName  = "pinta-copilot.env"
	dataDirName  = "pinta-copilot-data"
)

// copilotHomes are the folders to register in: VS Code Local reads ~/.copilot
// literally, the CLI reads COPILOT_HOME.
func copilotHomes(a users.Account) []string {
	out := []string{filepath.Join(a.Home, ".copilot")}
	if h := filepath.Clean(a.CopilotHome); filepath.IsAbs(h) && h != out[0] {
		out = append(out, h)
	}
	return out
}

// homeItems are the items of one Copilot home, in the order in which they are
// made, or taken out.
func (d Desired) homeItems(a users.Account, dir string, before map[string]string) ([]Item, error) {
	base := Item{DirPerm: 0o700, UID: a.UID, GID: a.GID, Before: before}
	at := func(o Object, perm fs.FileMode, names ...string) Item {
		it := base
		it.Object, it.Perm, it.Path = o, perm, filepath.Join(append([]string{dir}, names...)...)
		return it
	}
	hook := at(HookFile, 0o644, "hooks", hookFileName)
	hook.Hook = d.Layout.HookBinary
	env := at(EnvFile, 0o600, envFileName)
	env.Env = d.env(a)
	if d.Uninstall == nil && d.Hooks.User {
		var err error
		if hook.Data, err = d.registration("user").userFile(); err != nil {
			return nil, err
		}
		if d.Endpoints == (Endpoints{}) {
			return []Item{hook}, nil
		}
		return []Item{env, hook}, nil
	}
	hook.Gone, env.Gone = true, true
	env.Env = nil
	out := []Item{hook, env}
	if d.Uninstall != nil {
		data := at(HookData, 0o700, dataDirName)
		data.Purge = d.Uninstall.Purge
		out = append(out, data)
	}
	// Folders that we made go if they are empty, the innermost first.
	for _, f := range []Item{at(Folder, 0o700, "hooks"), at(Folder, 0o700)} {
		if before[f.Path] == "absent" {
			out = append(out, f)
		}
	}
	for i := range out {
		out[i].Gone = true
	}
	return out, nil
}
