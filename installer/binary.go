package installer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// selfTestLimit is generous: a scanner may hold up the first start of an image.
const selfTestLimit = 20 * time.Second

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// binary puts the hook image at its registered path. It is tried out under
// another name first and then renamed, so the registered path always names a
// whole image that starts here. It is a new inode each time: a running hook
// keeps the old one, and macOS keeps no stale signature verdict.
func (e *engine) binary(it Item, s *Step) error {
	f, err := e.look(it.Path, maxImage, s)
	if err != nil {
		return err
	}
	switch {
	case f.kind != "":
		s.Kind = f.kind
	case len(it.Data) > 0 && !bytes.Equal(f.data, it.Data):
		s.Kind = Altered
		if len(f.data) < len(it.Data) && bytes.HasPrefix(it.Data, f.data) {
			s.Detail = "truncated"
		}
	default:
		if s.Kind = it.attr(f.info); s.Kind == "" {
			return nil
		}
		if s.Kind != WrongOwner {
			return e.sys.SetAttr(it.Path, it.safe())
		}
	}
	if len(it.Data) == 0 {
		return errors.New("no hook image is known to put there: pass --hook PATH, or reinstall the package")
	}
	if err := e.folders(it, s); err != nil {
		return err
	}
	if err := e.rec.may("write", it.Path); err != nil { // before a new image lies beside it for nothing
		return err
	}
	if f.info.Type&fs.ModeDir != 0 {
		if err := e.keep(it, f, s); err != nil {
			return err
		}
		f.kind = Absent
	}
	fresh := withSuffix(it.Path, ".new")
	if err := e.sys.WriteFile(fresh, it.Data, it.safe()); err != nil {
		return err
	}
	if err := e.selfTest(fresh); err != nil {
		return errors.Join(err, e.sys.Remove(fresh))
	}
	if renameAside && f.kind == "" { // a running image can't be replaced there, but it can be renamed
		e.sweep(it.Path)
		if err := e.sys.Rename(it.Path, withSuffix(it.Path, ".old-"+e.sys.Now().UTC().Format("20060102T150405Z"))); err != nil {
			return err
		}
	}
	return e.sys.Rename(fresh, it.Path)
}

// sweep removes images that were renamed aside earlier. One that still runs
// can't be removed; the next replacement tries again.
func (e *engine) sweep(path string) {
	names, err := e.sys.Names(filepath.Dir(path))
	if err != nil {
		return
	}
	prefix := strings.TrimSuffix(filepath.Base(path), ".exe") + ".old-"
	for _, n := range names {
		if strings.HasPrefix(n, prefix) {
			_ = e.sys.Remove(filepath.Join(filepath.Dir(path), n))
		}
	}
}

// withSuffix keeps the ending that Windows starts programs by.
func withSuffix(path, suffix string) string {
	if b, ok := strings.CutSuffix(path, ".exe"); ok {
		return b + suffix + ".exe"
	}
	return path + suffix
}

// selfTest starts an image with an empty event: the hook says so on stderr and
// exits 0 (hook.md 2).
func (e *engine) selfTest(path string) error {
	o, err := e.sys.Exec(e.ctx, Command{Path: path, Env: bareEnv(), Limit: selfTestLimit})
	if err == nil && (o.Status != 0 || len(o.Stdout) > 0) {
		err = fmt.Errorf("status %d, %d bytes on stdout", o.Status, len(o.Stdout))
	}
	if err != nil {
		return fmt.Errorf("hook image doesn't run on this machine: %w; pass one for this system with --hook PATH", err)
	}
	return nil
}

// removeBinary removes the registered image and what replacements left beside
// it.
func (e *engine) removeBinary(it Item, s *Step) error {
	names, err := e.sys.Names(filepath.Dir(it.Path))
	if err != nil {
		return notExist(err)
	}
	stem := strings.TrimSuffix(filepath.Base(it.Path), ".exe")
	for _, n := range names {
		path := filepath.Join(filepath.Dir(it.Path), n)
		if i, err := e.sys.Lstat(path); err != nil || i.Type != 0 {
			continue
		}
		if n == filepath.Base(it.Path) || strings.HasPrefix(n, stem+".new") || strings.HasPrefix(n, stem+".old-") {
			s.Kind = Unwanted
			if err := e.sys.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// Image says where the hook binary's image comes from, first wins
// (installer.md 4).
type Image struct {
	Flag   string // --hook PATH
	Beside string // pinta-hook[.exe] beside the agent's executable
	SHA256 string // of a release build, by ldflags; empty: unknown
}

// image finds the image to register. A state copy counts only under its own
// hash; the registered file itself counts when a package has just put it there:
// on the first run, or when the agent's version changed with it.
func (m *machine) image(e *engine) (data []byte, err error) {
	read := func(path string) []byte {
		if path == "" || path == m.d.Layout.HookBinary {
			return nil
		}
		b, e := safefile.ReadFile(path, maxImage)
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("read hook image: %w", e))
		}
		return b
	}
	want := m.d.Image.SHA256
	if b := read(m.d.Image.Flag); b != nil {
		return b, nil
	} else if m.d.Image.Flag != "" && m.d.Image.Flag != m.d.Layout.HookBinary {
		return nil, fmt.Errorf("hook image %s given by --hook can't be read: %w", m.d.Image.Flag, errors.Join(err, fs.ErrNotExist))
	}
	if b := read(m.d.Image.Beside); b != nil && (want == "" || sumOf(b) == want) {
		return b, nil
	}
	if want == "" && m.journal.Version == m.d.Version {
		want = m.journal.SHA256
	}
	registered, _ := e.sys.ReadFile(m.d.Layout.HookBinary, maxImage)
	if len(registered) > 0 && (want != "" && sumOf(registered) == want || want == "" && e.selfTest(m.d.Layout.HookBinary) == nil) {
		return registered, nil
	}
	for _, sum := range []string{want, m.journal.SHA256} {
		if sum == "" {
			continue
		}
		if b, err := e.sys.ReadFile(m.copyPath(sum), maxImage); err == nil && sumOf(b) == sum {
			return b, nil
		}
	}
	return nil, err
}
