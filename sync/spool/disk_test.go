package spool

import (
	"errors"
	"math/rand/v2"
	"os"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

var (
	errDead = errors.New("killed")
	errFull = errors.New("no space left")
)

// mortal is a folder whose process dies at a chosen step, in the middle of it
// if it is a write; it knows what a power cut would take away as well.
type mortal struct {
	folder
	rnd   *rand.Rand
	left  int // steps to live; below 0: for ever
	dead  bool
	files map[string]*mortalFile // written by this process
	fail  func(step, name string) error
}

type mortalFile struct {
	m              *mortal
	f              file
	name           string
	written        int64
	synced         int64
	named, removed bool
}

func (m *mortal) step(step, name string) error {
	if m.dead {
		return errDead
	}
	if m.fail != nil {
		if err := m.fail(step, name); err != nil {
			return err
		}
	}
	if m.left == 0 {
		m.dead = true
		return errDead
	}
	m.left--
	return nil
}

func (m *mortal) Create(name string) (file, error) {
	if err := m.step("create", name); err != nil {
		return nil, err
	}
	f, err := m.folder.Create(name)
	if err != nil {
		return nil, err
	}
	mf := &mortalFile{m: m, f: f, name: name}
	m.files[name] = mf
	return mf, nil
}

func (m *mortal) Open(name string) (reader, error) {
	if m.dead {
		return nil, errDead
	}
	return m.folder.Open(name)
}

func (m *mortal) Replace(name string, data []byte) error {
	if err := m.step("replace", name); err != nil {
		return err
	}
	m.sawNames()
	return safefile.WriteFile(m.path(name), data, safefile.Attr{Perm: 0o600, UID: -1, GID: -1, Volatile: true})
}

func (m *mortal) AppendTo(name string, data []byte) error {
	if err := m.step("append", name); err != nil {
		_ = m.folder.AppendTo(name, data[:m.rnd.IntN(len(data)+1)])
		return err
	}
	return m.folder.AppendTo(name, data)
}

func (m *mortal) Remove(name string) error {
	if err := m.step("remove", name); err != nil {
		return err
	}
	if f := m.files[name]; f != nil {
		f.removed = true
	}
	return m.folder.Remove(name)
}

func (m *mortal) SyncDir() error {
	if err := m.step("syncdir", ""); err != nil {
		return err
	}
	m.sawNames()
	return nil
}

func (m *mortal) sawNames() {
	for _, f := range m.files {
		f.named = true
	}
}

func (f *mortalFile) Write(b []byte) (int, error) {
	if err := f.m.step("write", f.name); err != nil {
		k := f.m.rnd.IntN(len(b) + 1)
		n, _ := f.f.Write(b[:k])
		f.written += int64(n)
		return n, err
	}
	n, err := f.f.Write(b)
	f.written += int64(n)
	return n, err
}

func (f *mortalFile) Sync() error {
	if err := f.m.step("sync", f.name); err != nil {
		return err
	}
	f.synced = f.written
	return nil
}

func (f *mortalFile) Close() error { return f.f.Close() }

// powerCut takes away what was never synced, or a part of it.
func (m *mortal) powerCut() error {
	for _, f := range m.files {
		switch {
		case f.removed:
		case !f.named && m.rnd.IntN(2) == 0:
			if err := os.Remove(m.path(f.name)); err != nil {
				return err
			}
		default:
			keep := f.synced + m.rnd.Int64N(f.written-f.synced+1)
			if err := os.Truncate(m.path(f.name), keep); err != nil {
				return err
			}
		}
	}
	return nil
}

// kill ends a Spool as the end of its process would.
func (s *Spool) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, g := range s.segs {
		if g.file != nil {
			_ = g.file.Close()
		}
	}
	s.free()
}
