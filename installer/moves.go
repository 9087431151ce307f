package installer

import (
	"path/filepath"
	"slices"
	"time"
)

// maxMoveAge ends the life of an old plugin root, whatever still runs.
const maxMoveAge = 30 * 24 * time.Hour

// Process is a running program that holds hook commands in memory.
type Process struct {
	PID     int
	UID     int    // -1 on Windows
	SID     string // Windows; empty if unknown
	Name    string
	Started time.Time
}

// moved notes, with the next full second, that the hook is registered at another path than the last time.
// A host that was started before read the old one and goes on using it.
func (m *machine) moved() {
	now, to := m.e.sys.Now(), m.d.Layout.HookBinary
	m.journal.Moves = slices.DeleteFunc(m.journal.Moves, func(v move) bool { return v.From == to })
	if from := m.journal.Hook; from != "" && from != to && filepath.IsAbs(from) && len(m.journal.Moves) < maxMoves {
		m.journal.Moves = append(m.journal.Moves, move{from, now.UTC().Truncate(time.Second).Add(time.Second)})
	}
}

// oldRoots keeps a working binary at each old path while a session may use it,
// and removes it afterwards.
func (m *machine) oldRoots(data []byte) {
	var stay []move
	for _, v := range m.journal.Moves {
		it := m.item(HookBinary, v.From, 0o755)
		if m.oldRootNeeded(v) {
			stay = append(stay, v)
			it.Data = data
			m.converge(it)
			continue
		}
		it.Gone = true
		m.converge(it)
		m.converge(m.folder(filepath.Dir(v.From)))
	}
	if len(stay) != len(m.journal.Moves) {
		m.journal.Moves = stay
		m.writeJournal()
	}
}

func (m *machine) folder(dir string) Item {
	it := m.item(Folder, dir, 0o755)
	it.Gone = true
	return it
}

func (m *machine) oldRootNeeded(v move) bool {
	if m.e.sys.Now().Sub(v.At) > maxMoveAge {
		return false
	}
	if m.host.Hosts == nil {
		return true
	}
	return slices.ContainsFunc(m.host.Hosts(), func(p Process) bool { return !p.Started.After(v.At) })
}
