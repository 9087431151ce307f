package installer

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// uninstall goes the other way round: entries first, then after a grace the
// binary, state last. What a running session still holds exits 0 by its
// launcher. A second run finds nothing to do.
func (m *machine) uninstall() {
	for _, p := range m.policies() {
		m.converge(p)
	}
	m.changeHomes(m.lookAtHomes())
	if m.d.Uninstall.KeepBinary {
		return
	}
	paths := []string{m.d.Layout.HookBinary}
	if h := m.journal.Hook; h != "" && h != paths[0] {
		paths = append(paths, h)
	}
	for _, v := range m.journal.Moves {
		paths = append(paths, v.From)
	}
	waited := m.dry || m.d.Uninstall.Grace <= 0
	for _, p := range paths {
		if _, err := m.e.sys.Lstat(p); err == nil && !waited {
			m.host.Sleep(m.ctx, m.d.Uninstall.Grace)
			waited = true
		}
		it := m.item(HookBinary, p, 0o755)
		it.Gone = true
		m.converge(it)
		m.converge(m.folder(filepath.Dir(p)))
	}
	m.machineFolders()
	m.state()
}

// machineFolders removes the folders that the first install made on the
// machine, where they are empty, the innermost first.
func (m *machine) machineFolders() {
	var dirs []string
	for p, was := range m.journal.Before[""] {
		if was == "absent" && p != m.d.Layout.StateDir {
			if i, err := m.e.sys.Lstat(p); err == nil && i.Type == fs.ModeDir {
				dirs = append(dirs, p)
			}
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for _, d := range dirs {
		m.converge(m.folder(d))
	}
}

// imageName is a verified copy's name, or what a killed writer left of one.
var imageName = regexp.MustCompile(`^([0-9a-f]{64}|\.[0-9a-f]{64}\.\w+\.tmp)$`)

// state removes what the installer keeps in the state folder. The folder is
// the agent's and holds more.
func (m *machine) state() {
	images := filepath.Join(m.d.Layout.StateDir, "images")
	if names, err := m.e.sys.Names(images); err == nil && m.e.isDir(images) { // not where a link leads
		slices.Sort(names)
		for _, n := range names {
			if path := filepath.Join(images, n); imageName.MatchString(n) && !m.e.isDir(path) {
				m.add(m.drop(HookImage, path))
			}
		}
		m.converge(m.folder(images))
	}
	if slices.ContainsFunc(m.out.Steps, func(s Step) bool { return s.Error != "" }) {
		return // the journal is what a second try goes by
	}
	m.add(m.drop(Journal, filepath.Join(m.d.Layout.StateDir, journalName)))
}
