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
	if err != nil || f.kind == Absent {
		return err
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
		if perm, ok := modeOf(it.Before[it.Path]); ok {
			if err := e.sys.SetAttr(from, safefile.Attr{Perm: perm, UID: -1, GID: -1}); err != nil && !errors.Is(err, safefile.ErrNotRegular) {
				return err
			}
		}
		return e.sys.Rename(from, it.Path) // over ours: a crash leaves one or the other
	}
	return e.sys.Remove(it.Path)
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
var dataFiles = regexp.MustCompile(`^\.?(trace\.json|failed-spans\.jsonl)[.\w-]*$`)

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
		if !dataFiles.MatchString(n) {
			foreign = true
			continue
		}
		if err := e.sys.Remove(filepath.Join(it.Path, n)); err != nil {
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

func notExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
