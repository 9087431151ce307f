package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

// Layout is the path table of installer.md section 4 for one machine, one
// user, or one --root folder. All paths are absolute.
type Layout struct {
	// Root is the --root folder, empty on a real machine.
	Root string
	// System is true for root, SYSTEM and --root, false in user mode.
	System bool

	HookBinary string // the registered hook program; its folder is the plugin root
	Agent      string // the agent's own executable
	ConfigFile string // agent.yaml
	TokenFile  string // enrollment-token, empty where there is none
	StateDir   string // 0700
	RunDir     string // folder of the socket, empty on Windows
	Endpoint   string // socket path or pipe name
	PolicyDir  string // Copilot's machine policy folder, empty in user mode
	Homes      string // below Root: each folder in it is a user
	Account    string // runs guard and relay without privileges, empty in user mode
}

// PolicyFile is our drop-in in the policy folder; empty in user mode.
func (l Layout) PolicyFile() string {
	if l.PolicyDir == "" {
		return ""
	}
	return filepath.Join(l.PolicyDir, "90-pinta.json")
}

// HookDir is the plugin root, the folder of the registered hook.
func (l Layout) HookDir() string { return filepath.Dir(l.HookBinary) }

// WithHookDir moves the plugin root: the registered hook lives in dir, which
// stays below Root if there is one.
func (l Layout) WithHookDir(dir string) Layout {
	if dir != "" {
		l.HookBinary = filepath.Join(l.under(dir), filepath.Base(l.HookBinary))
	}
	return l
}

// GuardURL is the guard endpoint as hooks are told it.
func (l Layout) GuardURL() string { return local.URL(l.Endpoint, "/guard/evaluate") }

// TracesURL is the telemetry endpoint as hooks are told it.
func (l Layout) TracesURL() string { return local.URL(l.Endpoint, "/v1/traces") }

// NewLayout returns the layout for this process: the system's below root when
// root is not empty (created if absent), the system's for an administrator,
// else the calling user's.
func NewLayout(root string) (Layout, error) {
	if root == "" {
		if isAdministrator() {
			return systemLayout(), nil
		}
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return Layout{}, errors.New("no home folder is known for this user: set HOME, or run as an administrator")
		}
		return userLayout(home), nil
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return Layout{}, fmt.Errorf("make --root %q absolute: %w", root, err)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return Layout{}, fmt.Errorf("create --root folder: %w", err)
	}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	l := systemLayout()
	l.Root = root
	for _, p := range []*string{&l.HookBinary, &l.Agent, &l.ConfigFile, &l.TokenFile, &l.StateDir, &l.RunDir, &l.PolicyDir} {
		*p = l.under(*p)
	}
	l.Homes = filepath.Join(root, "home")
	l.Endpoint = l.rootedEndpoint()
	return l, nil
}

// under moves an absolute path below Root; one that lies there already stays.
func (l Layout) under(path string) string {
	if l.Root == "" || path == "" {
		return path
	}
	if rel, err := filepath.Rel(l.Root, path); err == nil && filepath.IsLocal(rel) {
		return path
	}
	return filepath.Join(l.Root, path[len(filepath.VolumeName(path)):])
}
