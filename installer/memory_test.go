package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pinta-ai/pinta-agent/installer/users"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// memory is a System without a machine: a tree of entries by path.
type memory struct {
	nodes map[string]*node
	now   time.Time
	exec  func(Command) (Output, error)
}

type node struct {
	Info
	data string
	to   string // of a link
}

func newMemory() *memory {
	m := &memory{nodes: map[string]*node{}, now: time.Unix(1_800_000_000, 0)}
	m.nodes["/"] = &node{Info: Info{Type: fs.ModeDir, Perm: 0o755, Links: 1}}
	return m
}

// put makes a file and the folders on the way to it.
func (m *memory) put(path, data string, perm fs.FileMode) {
	for d := filepath.Dir(path); m.nodes[d] == nil; d = filepath.Dir(d) {
		m.nodes[d] = &node{Info: Info{Type: fs.ModeDir, Perm: 0o755, Links: 1}}
	}
	m.nodes[path] = &node{Info: Info{Perm: perm, Links: 1, Size: int64(len(data)), ModTime: m.now}, data: data}
}

func (m *memory) parent(op, path string) error {
	for d := filepath.Dir(path); ; d = filepath.Dir(d) {
		switch n := m.nodes[d]; {
		case n == nil:
			return fail(op, path, fs.ErrNotExist)
		case n.Type != fs.ModeDir:
			return fail(op, path, safefile.ErrNotDir)
		}
		if d == "/" {
			return nil
		}
	}
}

func (m *memory) at(op, path string) (*node, error) {
	if err := m.parent(op, path); err != nil {
		return nil, err
	}
	if n := m.nodes[path]; n != nil {
		return n, nil
	}
	return nil, fail(op, path, fs.ErrNotExist)
}

func (m *memory) Lstat(path string) (Info, error) {
	n, err := m.at("lstat", path)
	if err != nil {
		return Info{}, err
	}
	return n.Info, nil
}

func (m *memory) Readlink(path string) (string, error) {
	n, err := m.at("readlink", path)
	if err == nil && n.Type != fs.ModeSymlink {
		err = fail("readlink", path, fs.ErrInvalid)
	}
	if err != nil {
		return "", err
	}
	return n.to, nil
}

func (m *memory) Names(dir string) ([]string, error) {
	n, err := m.at("list", dir)
	if err == nil && n.Type != fs.ModeDir {
		err = fail("list", dir, safefile.ErrNotDir)
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for p := range m.nodes {
		if filepath.Dir(p) == dir && p != "/" {
			out = append(out, filepath.Base(p))
		}
	}
	return out, nil
}

func (m *memory) ReadFile(path string, max int64) ([]byte, error) {
	n, err := m.at("read", path)
	switch {
	case err != nil:
	case n.Type != 0:
		err = fail("read", path, safefile.ErrNotRegular)
	case int64(len(n.data)) > max:
		err = fail("read", path, safefile.ErrTooLarge)
	default:
		return []byte(n.data), nil
	}
	return nil, err
}

func (m *memory) ReadHead(path string, max int) ([]byte, error) {
	b, err := m.ReadFile(path, 1<<40)
	return b[:min(len(b), max)], err
}

func (m *memory) Mkdir(path string, a safefile.Attr) error {
	if err := m.parent("mkdir", path); err != nil {
		return err
	}
	switch n := m.nodes[path]; {
	case n == nil:
		m.nodes[path] = &node{Info: Info{Type: fs.ModeDir, Perm: a.Perm, Links: 1, ModTime: m.now}}
	case n.Type != fs.ModeDir:
		return fail("mkdir", path, safefile.ErrNotDir)
	}
	return nil
}

func (m *memory) WriteFile(path string, data []byte, a safefile.Attr) error {
	if err := m.parent("write", path); err != nil {
		return err
	}
	if n := m.nodes[path]; n != nil && n.Type == fs.ModeDir {
		return fail("write", path, safefile.ErrNotRegular)
	}
	m.put(path, string(data), a.Perm)
	return nil
}

func (m *memory) SetAttr(path string, a safefile.Attr) error {
	n, err := m.at("chmod", path)
	if err == nil && n.Type != 0 {
		err = fail("chmod", path, safefile.ErrNotRegular)
	}
	if err == nil {
		n.Perm = a.Perm
	}
	return err
}

func (m *memory) Rename(from, to string) error {
	n, err := m.at("rename", from)
	if err != nil {
		return err
	}
	for p, v := range maps.Clone(m.nodes) {
		if strings.HasPrefix(p, from+"/") {
			delete(m.nodes, p)
			m.nodes[to+strings.TrimPrefix(p, from)] = v
		}
	}
	delete(m.nodes, from)
	m.nodes[to] = n
	return nil
}

func (m *memory) Remove(path string) error {
	n, err := m.at("remove", path)
	if err != nil {
		return err
	}
	if names, _ := m.Names(path); n.Type == fs.ModeDir && len(names) > 0 {
		return fail("remove", path, errors.New("directory not empty"))
	}
	delete(m.nodes, path)
	return nil
}

func (m *memory) May(string, string) error { return nil }

func (m *memory) Exec(_ context.Context, c Command) (Output, error) {
	if m.exec != nil {
		return m.exec(c)
	}
	return Output{}, nil
}

func (m *memory) Now() time.Time { return m.now }

// list is the tree as text, the agent's own state left out.
func (m *memory) list() map[string]string {
	out := map[string]string{}
	for p, n := range m.nodes {
		if !strings.HasPrefix(p, "/var") {
			out[p] = fmt.Sprint(n.Type|n.Perm, " ", n.data, n.to)
		}
	}
	return out
}

// dying is a System that fails from its n-th change on, as if the process had
// died before it.
type dying struct {
	System
	left int
}

func (d *dying) step() error {
	if d.left--; d.left < 0 {
		return errKilled
	}
	return nil
}

func (d *dying) Mkdir(path string, a safefile.Attr) error {
	return errors.Join(d.step(), orNil(d.left >= 0, func() error { return d.System.Mkdir(path, a) }))
}

func (d *dying) WriteFile(path string, data []byte, a safefile.Attr) error {
	return errors.Join(d.step(), orNil(d.left >= 0, func() error { return d.System.WriteFile(path, data, a) }))
}

func (d *dying) SetAttr(path string, a safefile.Attr) error {
	return errors.Join(d.step(), orNil(d.left >= 0, func() error { return d.System.SetAttr(path, a) }))
}

func (d *dying) Rename(from, to string) error {
	return errors.Join(d.step(), orNil(d.left >= 0, func() error { return d.System.Rename(from, to) }))
}

func (d *dying) Remove(path string) error {
	return errors.Join(d.step(), orNil(d.left >= 0, func() error { return d.System.Remove(path) }))
}

func orNil(do bool, f func() error) error {
	if !do {
		return nil
	}
	return f()
}

// memoryHomes works in homes of a System.
type memoryHomes struct{ sys System }

func (h memoryHomes) Do(ctx context.Context, a users.Account, r HomeRequest) (HomeAnswer, error) {
	r.User = a
	return serveOn(ctx, h.sys, r)
}

func (memoryHomes) Watch(ctx context.Context, _ users.Account, _ HomeRequest, _ func()) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestSystemsAgree runs the same calls on the real file system and on the one
// in memory.
func TestSystemsAgree(t *testing.T) {
	mem := newMemory()
	dir := t.TempDir() // of the system at hand
	for p := dir; mem.nodes[p] == nil; p = filepath.Dir(p) {
		mem.nodes[p] = &node{Info: Info{Type: fs.ModeDir, Perm: 0o755, Links: 1}}
	}
	at := func(p string) string { return filepath.Join(dir, p) }
	a := safefile.Attr{Perm: 0o640, UID: -1, GID: -1}
	calls := []struct {
		name string
		do   func(s System) (any, error)
	}{
		{"lstat of nothing", func(s System) (any, error) { i, err := s.Lstat(at("x")); return i.Type, err }},
		{"lstat below nothing", func(s System) (any, error) { i, err := s.Lstat(at("x/y")); return i.Type, err }},
		{"write below nothing", func(s System) (any, error) { return nil, s.WriteFile(at("x/y"), nil, a) }},
		{"mkdir", func(s System) (any, error) {
			return nil, s.Mkdir(at("d"), safefile.Attr{Perm: 0o700, UID: -1, GID: -1})
		}},
		{"mkdir again", func(s System) (any, error) {
			return nil, s.Mkdir(at("d"), safefile.Attr{Perm: 0o700, UID: -1, GID: -1})
		}},
		{"write", func(s System) (any, error) { return nil, s.WriteFile(at("d/f"), []byte("one"), a) }},
		{"lstat", func(s System) (any, error) {
			i, err := s.Lstat(at("d/f"))
			return fmt.Sprint(i.Type, i.Perm, i.Size), err
		}},
		{"read", func(s System) (any, error) { b, err := s.ReadFile(at("d/f"), 3); return string(b), err }},
		{"read too much", func(s System) (any, error) { b, err := s.ReadFile(at("d/f"), 2); return string(b), err }},
		{"read a head", func(s System) (any, error) { b, err := s.ReadHead(at("d/f"), 2); return string(b), err }},
		{"read a directory", func(s System) (any, error) { _, err := s.ReadFile(at("d"), 9); return nil, err }},
		{"write over a directory", func(s System) (any, error) { return nil, s.WriteFile(at("d"), nil, a) }},
		{"mkdir over a file", func(s System) (any, error) { return nil, s.Mkdir(at("d/f"), a) }},
		{"below a file", func(s System) (any, error) { _, err := s.Lstat(at("d/f/g")); return nil, err }},
		{"replace", func(s System) (any, error) { return nil, s.WriteFile(at("d/f"), []byte("two"), a) }},
		{"chmod", func(s System) (any, error) {
			return nil, s.SetAttr(at("d/f"), safefile.Attr{Perm: 0o600, UID: -1, GID: -1})
		}},
		{"chmod of a directory", func(s System) (any, error) { return nil, s.SetAttr(at("d"), a) }},
		{"names", func(s System) (any, error) { n, err := s.Names(at("d")); return fmt.Sprint(n), err }},
		{"names of a file", func(s System) (any, error) { n, err := s.Names(at("d/f")); return fmt.Sprint(n), err }},
		{"remove a full directory", func(s System) (any, error) { return nil, s.Remove(at("d")) }},
		{"rename", func(s System) (any, error) { return nil, s.Rename(at("d/f"), at("d/g")) }},
		{"read the renamed", func(s System) (any, error) { b, err := s.ReadFile(at("d/g"), 9); return string(b), err }},
		{"readlink of a file", func(s System) (any, error) { l, err := s.Readlink(at("d/g")); return l, err }},
		{"rename of nothing", func(s System) (any, error) { return nil, s.Rename(at("d/f"), at("d/h")) }},
		{"remove", func(s System) (any, error) { return nil, s.Remove(at("d/g")) }},
		{"remove nothing", func(s System) (any, error) { return nil, s.Remove(at("d/g")) }},
		{"remove the directory", func(s System) (any, error) { return nil, s.Remove(at("d")) }},
	}
	class := func(err error) string {
		for _, e := range []error{fs.ErrNotExist, safefile.ErrTooLarge, safefile.ErrNotRegular, safefile.ErrNotDir} {
			if errors.Is(err, e) {
				return e.Error()
			}
		}
		if err != nil {
			return "some error"
		}
		return ""
	}
	dirs := []string{dir, t.TempDir(), t.TempDir()}
	systems := []System{mem, Machine(dirs[1]), Home(dirs[2], -1)}
	for _, c := range calls {
		var results []string
		for i, s := range systems {
			dir = dirs[i]
			v, err := c.do(s)
			results = append(results, fmt.Sprint(v, " ", class(err)))
		}
		if results[0] != results[1] || results[0] != results[2] && !(c.name == "below a file") {
			t.Errorf("%s: %q", c.name, results)
		}
	}
}

// TestAnySequenceSettles is a model of a machine's life: others change things,
// runs die at any change, the configuration changes; one undisturbed run puts
// everything right, and an uninstall leaves what others put there.
func TestAnySequenceSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sys := newMemory()
		sys.put("/dist/pinta-hook", fakeHook, 0o755)
		sys.put("/home/u/.bashrc", "x", 0o644)
		if rapid.Bool().Draw(t, "env file before") {
			sys.put("/home/u/.copilot/"+envFileName, "MINE=1", 0o644)
		}
		if rapid.Bool().Draw(t, "hook file before") {
			sys.put("/home/u/.copilot/hooks/"+hookFileName, `{"foreign":1}`, 0o644)
		}
		d := Desired{
			Layout: settings.Layout{System: true, HookBinary: "/usr/lib/pinta-agent/pinta-hook", StateDir: "/var/lib/pinta-agent", PolicyDir: "/etc/github-copilot/policy.d"},
			Users:  []users.Account{{Name: "u", UID: -1, GID: -1, Home: "/home/u"}}, Version: "1", Hooks: Hooks{User: true, Machine: true}, Managed: true,
			Endpoints: Endpoints{"g", "t"}, Image: Image{SHA256: ""},
		}
		sys.put(d.Layout.HookBinary, fakeHook, 0o755) // by a package
		before := sys.list()
		run := func(s System) (Changes, error) {
			return Apply(context.Background(), Host{System: s, Homes: memoryHomes{s}, Sleep: func(context.Context, time.Duration) {}}, d)
		}
		settle := func() {
			c, err := run(sys)
			if err != nil || !c.OK() {
				t.Fatalf("%v\n%s", err, show(c))
			}
			if c, _ = run(sys); len(c.Steps) > 0 {
				t.Fatalf("not settled:\n%s", show(c))
			}
		}
		installed := func() { // before there is a copy, only the package brings the image back
			if n := sys.nodes[d.Layout.HookBinary]; sys.nodes["/var/lib/pinta-agent/images/"+sumOf([]byte(fakeHook))] == nil && (n == nil || n.data != fakeHook) {
				sys.put(d.Layout.HookBinary, fakeHook, 0o755)
			}
		}
		paths := []string{"/home/u/.copilot/hooks/" + hookFileName, "/home/u/.copilot/" + envFileName, d.Layout.PolicyFile(), d.Layout.HookBinary}
		for range rapid.IntRange(0, 12).Draw(t, "events") {
			sys.now = sys.now.Add(time.Second)
			path := rapid.SampledFrom(paths).Draw(t, "path")
			switch rapid.SampledFrom([]string{"crash", "run", "remove", "garbage", "cut", "chmod", "directory", "timeout"}).Draw(t, "event") {
			case "crash":
				run(&dying{sys, rapid.IntRange(0, 40).Draw(t, "step")})
			case "run":
				installed()
				settle()
			case "remove":
				sys.Remove(path)
			case "garbage":
				if n := sys.nodes[path]; n != nil && n.Type == 0 && !strings.HasSuffix(path, ".env") {
					n.data = "garbage"
				}
			case "cut": // what is left of a key in the env file is nobody's line, and stays
				if n := sys.nodes[path]; n != nil && n.Type == 0 && !strings.HasSuffix(path, ".env") {
					n.data = n.data[:len(n.data)/2]
				}
			case "chmod":
				if n := sys.nodes[path]; n != nil && n.Type == 0 {
					n.Perm = 0
				}
			case "directory":
				if n := sys.nodes[path]; n != nil && path != d.Layout.HookBinary {
					sys.nodes[path] = &node{Info: Info{Type: fs.ModeDir, Perm: 0o755, Links: 1}}
				}
			case "timeout":
				d.GuardTimeoutMs = rapid.IntRange(1, 9999).Draw(t, "timeout")
			}
		}
		installed()
		settle()
		d.Uninstall = &Removal{}
		for range rapid.IntRange(0, 3).Draw(t, "crashes of uninstall") {
			run(&dying{sys, rapid.IntRange(0, 20).Draw(t, "step")})
		}
		settle()
		after := sys.list()
		for p := range after {
			if strings.Contains(p, ".orig-") || before[p] != "" || p == "/home/u/.copilot" || p == "/home/u/.copilot/hooks" || strings.HasPrefix(p, "/etc") {
				continue // kept content of others, and the folders that hold it
			}
			t.Fatalf("%s is left over: %q", p, clip(after[p]))
		}
		if after["/home/u/.bashrc"] != before["/home/u/.bashrc"] {
			t.Fatal("another file changed")
		}
	})
}
