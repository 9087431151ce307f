package installer

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/windows/registry"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// policyKey is our own subkey of Copilot's policies; only administrators may
// write there, whoever made the folders below ProgramData.
const policyKey = registryRoot + `Software\Policies\GitHub\Copilot\Pinta`

const (
	registryRoot = `HKLM\`
	policyValue  = "Policy"
)

// inRegistry is a System whose paths below HKLM\ are registry keys with one
// text value; every other path is the next System's.
type inRegistry struct{ System }

func key(path string) (string, bool) { return strings.CutPrefix(path, registryRoot) }

// Lstat implements System: a key with our value is a file, one without a folder.
func (r inRegistry) Lstat(path string) (Info, error) {
	name, ok := key(path)
	if !ok {
		return r.System.Lstat(path)
	}
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, name, registry.READ)
	if err != nil {
		return Info{}, asFile("lstat", path, err)
	}
	defer func() { _ = k.Close() }()
	i := Info{UID: -1, GID: -1, Links: 1}
	if _, _, err := k.GetStringValue(policyValue); err != nil {
		i.Type = fs.ModeDir
		if path == policyKey {
			return Info{}, fail("lstat", path, fs.ErrNotExist)
		}
	}
	return i, nil
}

// May implements System: whether a key may be written shows when it is.
func (r inRegistry) May(verb, path string) error {
	if _, ok := key(path); ok {
		return nil
	}
	return r.System.May(verb, path)
}

func (r inRegistry) Names(dir string) ([]string, error) {
	name, ok := key(dir)
	if !ok {
		return r.System.Names(dir)
	}
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, name, registry.READ)
	if err != nil {
		return nil, asFile("list", dir, err)
	}
	defer func() { _ = k.Close() }()
	names, err := k.ReadSubKeyNames(-1)
	return names, asFile("list", dir, err)
}

func (r inRegistry) ReadFile(path string, max int64) ([]byte, error) {
	name, ok := key(path)
	if !ok {
		return r.System.ReadFile(path, max)
	}
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, name, registry.READ)
	if err != nil {
		return nil, asFile("read", path, err)
	}
	defer func() { _ = k.Close() }()
	v, _, err := k.GetStringValue(policyValue)
	if err != nil {
		return nil, asFile("read", path, err)
	}
	if int64(len(v)) > max {
		return nil, fail("read", path, safefile.ErrTooLarge)
	}
	return []byte(v), nil
}

func (r inRegistry) WriteFile(path string, data []byte, a safefile.Attr) error {
	name, ok := key(path)
	if !ok {
		return r.System.WriteFile(path, data, a)
	}
	if strings.Contains(path, ".orig-") {
		return nil // somebody else's value isn't kept: policies are the administrator's, who has them elsewhere
	}
	k, _, err := registry.CreateKey(registry.LOCAL_MACHINE, name, registry.READ|registry.WRITE)
	if err != nil {
		return asFile("write", path, err)
	}
	defer func() { _ = k.Close() }()
	return asFile("write", path, k.SetStringValue(policyValue, string(data)))
}

func (r inRegistry) Mkdir(path string, a safefile.Attr) error {
	if _, ok := key(path); ok {
		return nil // CreateKey makes the way
	}
	return r.System.Mkdir(path, a)
}

func (r inRegistry) SetAttr(path string, a safefile.Attr) error {
	if _, ok := key(path); ok {
		return nil
	}
	return r.System.SetAttr(path, a)
}

func (r inRegistry) Remove(path string) error {
	name, ok := key(path)
	if !ok {
		return r.System.Remove(path)
	}
	return asFile("remove", path, registry.DeleteKey(registry.LOCAL_MACHINE, name))
}

func asFile(op, path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, registry.ErrNotExist):
		return fail(op, path, fs.ErrNotExist)
	}
	return fail(op, path, err)
}

// policyPaths are where the machine's policy may stand, the one to use first:
// the drop-in, or our registry key where somebody else controls the folder.
func (m *machine) policyPaths() []string {
	file := m.d.Layout.PolicyFile()
	if file == "" || m.d.Layout.Root != "" {
		return []string{file}
	}
	if untrusted(m.d.Layout) != "" {
		return []string{policyKey, file}
	}
	return []string{file, policyKey}
}

// asMachine adds the registry to the machine's file system.
func asMachine(s System, root string) System {
	if root != "" {
		return s
	}
	return inRegistry{s}
}
