package installer

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// remove takes an item out again and goes back to what stood there before.
// What isn't ours stays.
func (e *engine) remove(it Item, s *Step) error {
	switch it.Object {
	case EnvFile:
		return e.unsetEnv(it, s)
	case HookData:
		return e.removeData(it, s)
	case Folder:
		return e.removeFolder(it, s)
	case HookBinary:
		return e.removeBinary(it, s)
	}
	f, err := e.look(it.Path, maxRegistration, s)
	if err != nil {
		return err
	}
	if f.kind == Absent { // a crash in putBack, between its two steps
		if from := e.original(it, &Step{}); e.isDir(from) {
			s.Kind, s.Detail = Unwanted, "back from "+filepath.Base(from)
			return e.putBack(it, from)
		}
		return nil
	}
	if f.info.Type&fs.ModeSymlink != 0 {
		if _, ok := e.through(it); !ok {
			return nil
		}
		f.kind = ""
	} else if f.kind != "" {
		return nil // a directory, a device: not what we wrote
	} else if o := originOf(f.data, nil); o != Ours && o != OursNewer {
		return nil
	}
	s.Kind = Unwanted
	if from := e.original(it, s); from != "" {
		// A copy has lost bits of its mode; what was moved aside has not.
		if i, err := e.sys.Lstat(from); err == nil && i.Type == 0 && i.Links < 2 {
			if perm, ok := modeOf(it.Before[it.Path]); ok {
				if err := e.sys.SetAttr(from, safefile.Attr{Perm: perm, UID: -1, GID: -1}); err != nil {
					return err
				}
			}
		}
		return e.putBack(it, from)
	}
	return e.sys.Remove(it.Path)
}

// putBack renames what was kept over ours: a crash leaves one or the other. A
// directory can't take a file's name, so ours goes first.
func (e *engine) putBack(it Item, from string) error {
	if e.isDir(from) {
		if err := notExist(e.sys.Remove(it.Path)); err != nil {
			return err
		}
	}
	return e.sys.Rename(from, it.Path)
}

func (e *engine) isDir(path string) bool {
	if path == "" {
		return false
	}
	i, err := e.sys.Lstat(path)
	return err == nil && i.Type == fs.ModeDir
}

// original is what stood at the item's place before the first install, kept
// beside it; empty if nothing did. A registration whose program is gone stays
// aside: with it a host would deny every tool.
func (e *engine) original(it Item, s *Step) string {
	if was := it.Before[it.Path]; was == "" || was == "absent" {
		return ""
	}
	names, err := e.sys.Names(filepath.Dir(it.Path))
	if err != nil {
		return ""
	}
	slices.Sort(names)
	for _, n := range names {
		if !strings.HasPrefix(n, filepath.Base(it.Path)+".orig-") {
			continue
		}
		from := filepath.Join(filepath.Dir(it.Path), n)
		data, err := e.sys.ReadFile(from, maxRegistration)
		if err == nil && originOf(data, nil) == OldNode && !e.nodeAlive(data) {
			s.Detail = join(s.Detail, n+" stays aside: the program that it registers is gone")
			return ""
		}
		s.Detail = join(s.Detail, "back from "+n)
		return from
	}
	return ""
}

func modeOf(s string) (fs.FileMode, bool) {
	n, err := strconv.ParseUint(s, 8, 12)
	return fs.FileMode(n).Perm(), err == nil
}

var nodeScript = regexp.MustCompile(`(?i)\bnode(?:\.exe)?['"]?\s+['"]?([^'"]*dist[/\\]+index\.js)`)

func (e *engine) nodeAlive(content []byte) bool {
	for _, c := range commandsIn(content) {
		if m := nodeScript.FindStringSubmatch(c.Text); m != nil {
			if _, err := e.sys.Lstat(m[1]); err != nil {
				return false
			}
		}
	}
	return true
}

// unsetEnv takes the managed keys out of the env file, and the file away if
// nothing is left of what we made.
func (e *engine) unsetEnv(it Item, s *Step) error {
	f, err := e.look(it.Path, maxRegistration, s)
	if err != nil || f.kind != "" {
		return err
	}
	left := EditEnv(f.data, nil)
	if from := e.original(it, s); from != "" && bytes.Equal(left, EditEnv(e.carried(from), nil)) {
		s.Kind = Unwanted // nothing was added since: what was moved aside comes back as it was
		return e.putBack(it, from)
	}
	s.Detail = ""
	made := it.Before[it.Path] == "absent"
	switch {
	case len(left) == 0 && (made || len(f.data) > 0 && it.Before[it.Path] == ""):
		s.Kind = Unwanted
		return e.sys.Remove(it.Path)
	case bytes.Equal(left, f.data):
		return nil
	}
	s.Kind, s.Detail = Unwanted, "managed keys unset"
	a := safefile.Attr{Perm: f.info.Perm, UID: it.UID, GID: it.GID}
	if perm, ok := modeOf(it.Before[it.Path]); ok {
		a.Perm = perm
	}
	return e.sys.WriteFile(it.Path, left, a)
}

// dataFiles are what the hook keeps in its data folder (hook.md 8, 9).
var dataFiles = regexp.MustCompile(`^\.?(trace\.json|failed-spans\.jsonl)[.\w-]*$|^(trace|queue|flush)\.lock$`)

const queueName = "failed-spans.jsonl"

// removeData removes the hook's own data folder. One that was there before
// (the Node adapter's) and, without purge, one that still holds undelivered
// spans stays.
func (e *engine) removeData(it Item, s *Step) error {
	if it.Before[it.Path] != "absent" && !it.Purge {
		return nil
	}
	i, err := e.sys.Lstat(it.Path)
	if err != nil || i.Type != fs.ModeDir {
		return notExist(err)
	}
	names, err := e.sys.Names(it.Path)
	if err != nil {
		return err
	}
	if q, err := e.sys.Lstat(filepath.Join(it.Path, queueName)); err == nil && q.Size > 0 && !it.Purge {
		return nil
	}
	s.Kind = Unwanted
	slices.Sort(names)
	foreign := false
	for _, n := range names {
		path := filepath.Join(it.Path, n)
		if !dataFiles.MatchString(n) || e.isDir(path) {
			foreign = true
			continue
		}
		if err := e.sys.Remove(path); err != nil {
			return err
		}
	}
	if foreign {
		s.Detail = "the folder holds other files and stays"
		return nil
	}
	return e.sys.Remove(it.Path)
}

// removeFolder removes a folder that we made, if it is empty.
func (e *engine) removeFolder(it Item, s *Step) error {
	i, err := e.sys.Lstat(it.Path)
	if err != nil || i.Type != fs.ModeDir {
		return notExist(err)
	}
	names, err := e.sys.Names(it.Path)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return nil
	}
	s.Kind = Unwanted
	return e.sys.Remove(it.Path)
}

// notDir says that the path leads through what isn't a folder.
func notDir(err error) bool {
	return errors.Is(err, safefile.ErrNotDir) || errors.Is(err, syscall.ENOTDIR)
}

func notExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
