package installer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// errOutside: a path led out of the folder that the process may touch.
var errOutside = errors.New("leads out of the folder that it must stay in")

// errLostLink: a folder on the way is a link whose target is gone, which only
// its owner can put right.
var errLostLink = errors.New("a link to a folder that is gone: make the folder, or remove the link")

// errClosed: a folder that no user gets into holds something for all of them.
var errClosed = errors.New("lets in nobody but its owner, and every user's Copilot has to read in it")

// What an owner or administrator has forbidden even himself.
var (
	errImmutable  = errors.New("is marked immutable")
	errAppendOnly = errors.New("is marked append-only")
	errMounted    = errors.New("is a mount of its own, which nothing can replace")
)

// Item is one thing that must hold at one path. It is also what a worker is
// told, so everything in it is plain data and nothing in it is secret to the
// user whose home it is for.
type Item struct {
	Object  Object            `json:"object"`
	Path    string            `json:"path"`
	Gone    bool              `json:"gone,omitempty"` // must not be there
	Perm    fs.FileMode       `json:"perm"`
	DirPerm fs.FileMode       `json:"dirPerm"` // of folders made on the way
	UID     int               `json:"uid"`     // -1: whoever makes it
	GID     int               `json:"gid"`     // -1: as the system gives it
	Data    []byte            `json:"data,omitempty"`
	Hook    string            `json:"hook,omitempty"` // registered binary, to know a stale path
	Env     map[string]string `json:"env,omitempty"`  // env file: the managed keys
	Purge   bool              `json:"purge,omitempty"`
	// Before is what stood here before the first install, path by path:
	// "absent" or an octal mode. Uninstall goes back to it.
	Before map[string]string `json:"before,omitempty"`
}

// Step is what one item needs, or what was done for it.
type Step struct {
	User   string `json:"user,omitempty"`
	Object Object `json:"object"`
	Path   string `json:"path"`
	Kind   Kind   `json:"kind"`
	Detail string `json:"detail,omitempty"`
	Ops    []Op   `json:"ops,omitempty"`
	Error  string `json:"error,omitempty"`  // what stopped it, with the remedy
	Remedy string `json:"remedy,omitempty"` // of Error, where one is known
	// Who left it so, as far as the file tells: its owner and when it changed.
	FoundUID  int       `json:"foundUid"`
	FoundTime time.Time `json:"foundTime,omitzero"`

	err error
}

const (
	maxRegistration = 1 << 20  // hook, policy and env files; the hook reads no larger env file
	maxImage        = 64 << 20 // the hook binary is about 3 MiB
	maxKept         = 8        // foreign contents kept beside our file
)

// engine converges items over a system that records.
type engine struct {
	ctx context.Context
	rec *recorder
	sys System // rec, for reading at the call site
}

func newEngine(ctx context.Context, sys System, dry bool) *engine {
	rec := newRecorder(sys, dry)
	return &engine{ctx, rec, rec}
}

// converge makes one item hold. It returns nil if it does already.
func (e *engine) converge(it Item) *Step {
	s := &Step{Object: it.Object, Path: it.Path, FoundUID: -1}
	e.rec.ops = nil
	var err error
	switch {
	case it.Gone:
		err = e.remove(it, s)
		if machines := it.Object == PolicyFile || it.Object == HookBinary || it.Object == Folder; machines && s.Kind == "" && notDir(err) {
			err = nil // a file is where its folder was, so it is gone; a user's registration that can't be looked at is told
		}
	case it.Object == EnvFile:
		err = e.envFile(it, s)
	case it.Object == HookBinary:
		err = e.binary(it, s)
	default:
		err = e.file(it, s)
	}
	if err == nil && !it.Gone {
		err = e.reach(it, s)
	}
	s.Ops = e.rec.ops
	if err != nil {
		if s.Kind == "" {
			s.Kind = Blocked
		}
		s.fail(err)
	}
	if s.Kind == "" {
		return nil
	}
	return s
}

// fail notes what stopped the step, with the remedy.
func (s *Step) fail(err error) {
	s.err, s.Error = err, err.Error()
	if s.Remedy = remedyOf(err); s.Remedy != "" {
		s.Error += "; " + s.Remedy
	}
}

// remedyOf is what a bare system error leaves out.
func remedyOf(err error) string {
	path := "the file"
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		path = quoted(at.Path)
	}
	switch {
	case errors.Is(err, errImmutable):
		return thaw(path, false)
	case errors.Is(err, errAppendOnly):
		return thaw(path, true)
	case errors.Is(err, errMounted):
		return "umount " + path + ", or mount its whole folder instead"
	case errors.Is(err, errClosed):
		return "chmod a+rx " + path
	case errors.Is(err, fs.ErrPermission):
		return "correct owner and mode of the file and its folders, and clear an immutable flag"
	case errors.Is(err, errNoSpace):
		return "free space, nothing was changed"
	case errors.Is(err, errReadOnly):
		return "make the file system writable, nothing was changed"
	}
	return ""
}

// quoted is a path as a POSIX shell takes it for one word, for commands that
// somebody may copy.
func quoted(path string) string {
	if path != "" && strings.IndexFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-+,:@%", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) < 0 {
		return path
	}
	return posixQuote(path)
}

// found is what stands at a path.
type found struct {
	info Info
	data []byte
	kind Kind // Absent, WrongType, Unreadable, or empty
}

func (e *engine) look(path string, max int64, s *Step) (found, error) {
	var f found
	var err error
	f.info, err = e.sys.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		f.kind = Absent
		return f, nil
	}
	if err != nil {
		return f, err
	}
	s.FoundUID, s.FoundTime = f.info.UID, f.info.ModTime
	if f.info.Type != 0 {
		f.kind, s.Detail = WrongType, "found "+typeName(f.info.Type)
		return f, nil
	}
	if f.info.Links > 1 {
		f.kind, s.Detail = WrongType, "found a file with more than one name (hard link)"
		return f, nil
	}
	if f.data, err = e.sys.ReadFile(path, max); err != nil {
		f.kind, s.Detail = Unreadable, err.Error()
	}
	return f, nil
}

func typeName(t fs.FileMode) string {
	switch {
	case t&fs.ModeDir != 0:
		return "a directory"
	case t&fs.ModeSymlink != 0:
		return "a symbolic link"
	case t&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case t&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device or reparse point"
}

// attr compares owner and mode.
func (it Item) attr(i Info) Kind {
	switch {
	case it.UID >= 0 && i.UID >= 0 && i.UID != it.UID:
		return WrongOwner
	case i.UID >= 0 && i.Perm != it.Perm.Perm(): // no owner: no mode bits that mean anything either
		if it.Perm&0o111&^i.Perm != 0 {
			return NotExecutable
		}
		return WrongMode
	}
	return ""
}

func (it Item) safe() safefile.Attr {
	return safefile.Attr{Perm: it.Perm.Perm(), UID: it.UID, GID: it.GID}
}

// file makes a whole file hold: hook file, policy file, image copy, journal.
func (e *engine) file(it Item, s *Step) error {
	if dir := filepath.Dir(it.Path); it.Object == PolicyFile { // the host follows no link there, and neither do we
		if i, err := e.sys.Lstat(dir); err == nil && i.Type == fs.ModeSymlink {
			return fail("write", dir, safefile.ErrNotDir)
		}
	}
	f, err := e.look(it.Path, max(maxRegistration, int64(len(it.Data))), s)
	if err != nil {
		return err
	}
	if f.info.Type&fs.ModeSymlink != 0 && it.Object == HookFile {
		if to, ok := e.through(it); ok { // the user keeps the file elsewhere in the home
			it.Path = to
			s.Detail = ""
			if f, err = e.look(to, maxRegistration, s); err != nil {
				return err
			}
		}
	}
	switch {
	case f.kind != "":
		s.Kind = f.kind
	case !bytes.Equal(f.data, it.Data):
		s.Kind = e.difference(it, f, s)
	default:
		if s.Kind = it.attr(f.info); s.Kind == "" {
			return nil
		}
		s.Detail = fmt.Sprintf("owner %d, mode %s", f.info.UID, octal(f.info.Perm))
		if s.Kind == WrongMode {
			return e.sys.SetAttr(it.Path, it.safe())
		}
	}
	if err := e.folders(it, s); err != nil {
		return err
	}
	if err := e.rec.may("write", it.Path); err != nil { // before a copy is kept for nothing
		return err
	}
	if err := e.keep(it, f, s); err != nil {
		return err
	}
	return e.sys.WriteFile(it.Path, it.Data, it.safe())
}

// difference names how readable content differs from what it should be.
func (e *engine) difference(it Item, f found, s *Step) Kind {
	if it.Object != HookFile && it.Object != PolicyFile {
		return Altered
	}
	switch originOf(f.data, it.Data) {
	case OursNewer:
		return UnknownSchema
	case OldNode:
		return OldAdapter
	case Foreign:
		return NotOurs
	}
	if namesOtherHook(f.data, it.Hook) {
		return StalePath
	}
	s.Detail = changed(f.data, it.Data)
	return Altered
}

// changed tells in a few words what is different, without quoting content.
func changed(have, want []byte) string {
	h, w := bytes.Split(have, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(h), len(w)) {
		if !bytes.Equal(h[i], w[i]) {
			return "differs from line " + strconv.Itoa(i+1)
		}
	}
	return fmt.Sprintf("%d lines instead of %d", len(h), len(w))
}

// through follows a link at the hook file's place to a plain file of the same
// user inside the home, if that holds what we wrote. Only the user's own
// worker gets here, and a link to anything else is replaced, so that nobody
// can point our pen at another file.
func (e *engine) through(it Item) (string, bool) {
	to, err := e.sys.Readlink(it.Path)
	if err != nil {
		return "", false
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(it.Path), to)
	}
	i, err := e.sys.Lstat(to)
	if err != nil || i.Type != 0 || i.Links > 1 || it.UID >= 0 && i.UID >= 0 && i.UID != it.UID {
		return "", false
	}
	data, err := e.sys.ReadFile(to, maxRegistration)
	if err != nil {
		return "", false
	}
	o := originOf(data, it.Data)
	return to, len(data) > 0 && (o == Ours || o == OursNewer)
}

// keep saves what isn't ours before it is replaced, once for each content,
// under a name that no host loads.
func (e *engine) keep(it Item, f found, s *Step) error {
	move := f.kind == WrongType || f.kind == Unreadable
	if f.info.Links > 1 && f.info.Type == 0 {
		// A second name of our own content, or of an env file, whose lines are
		// carried over, isn't kept: a new file takes this name, the other stays.
		data, err := e.sys.ReadFile(it.Path, maxRegistration)
		o := originOf(data, it.Data)
		move = it.Object != EnvFile && (err != nil || o == Foreign || o == OldNode)
	}
	if !move && s.Kind != NotOurs && s.Kind != OldAdapter {
		return nil
	}
	names, err := e.sys.Names(filepath.Dir(it.Path))
	if err != nil {
		return err
	}
	prefix := filepath.Base(it.Path) + ".orig-"
	kept := 0
	for _, n := range names {
		if !strings.HasPrefix(n, prefix) {
			continue
		}
		kept++
		if !move {
			if old, err := e.sys.ReadFile(filepath.Join(filepath.Dir(it.Path), n), maxRegistration); err == nil && bytes.Equal(old, f.data) {
				return nil
			}
		}
	}
	if kept >= maxKept {
		s.Detail = join(s.Detail, fmt.Sprintf("not kept: %d earlier ones are there", kept))
		if move && f.info.Type&fs.ModeDir != 0 {
			return fmt.Errorf("%s: a directory is in the hook's place and %d earlier ones were kept already; remove them", it.Path, kept)
		}
		if move && f.info.Type != 0 {
			return e.sys.Remove(it.Path)
		}
		return nil
	}
	to := prefix + e.sys.Now().UTC().Format("20060102T150405Z")
	for i := 2; slices.Contains(names, to); i++ {
		to = prefix + e.sys.Now().UTC().Format("20060102T150405Z") + "-" + strconv.Itoa(i)
	}
	s.Detail = join(s.Detail, "kept as "+to)
	to = filepath.Join(filepath.Dir(it.Path), to)
	if move {
		return e.sys.Rename(it.Path, to)
	}
	// A copy, so that the path is never without a file.
	return e.sys.WriteFile(to, f.data, safefile.Attr{Perm: f.info.Perm &^ 0o022, UID: it.UID, GID: it.GID})
}

// join puts two parts of a detail together; either may be empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// missing lists the folders that don't exist on the way to path, outermost
// first.
func (e *engine) missing(path string) ([]string, error) {
	var out []string
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		i, err := e.sys.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			out = append(out, dir)
			continue
		}
		if err == nil && i.Type != fs.ModeDir && i.Type != fs.ModeSymlink {
			return nil, fail("mkdir", dir, safefile.ErrNotDir)
		}
		if err == nil && i.Type == fs.ModeSymlink {
			if _, err := e.sys.Names(dir); errors.Is(err, fs.ErrNotExist) {
				return nil, fail("mkdir", dir, errLostLink)
			}
		}
		slices.Reverse(out)
		return out, nil // an error here is the anchor's parent, or shows when we write
	}
}

func (e *engine) folders(it Item, s *Step) error {
	dirs, err := e.missing(it.Path)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if err := e.sys.Mkdir(d, safefile.Attr{Perm: it.DirPerm.Perm(), UID: it.UID, GID: it.GID}); err != nil {
			return err
		}
	}
	if len(dirs) > 0 && s.Kind == Absent {
		s.Detail = join(s.Detail, "with its folder")
	}
	return nil
}

// reach opens the folders that hold what every user's host reads or starts.
// Those that we made are ours to open; of another that hides the file the
// owner is told.
func (e *engine) reach(it Item, s *Step) error {
	kind, need := Unreadable, fs.FileMode(0o5) // the policy's folder is listed
	switch {
	case it.DirPerm&0o055 == 0:
		return nil // for one user only
	case it.Object == HookBinary:
		kind, need = NotExecutable, 0o1
	case it.Object != PolicyFile:
		return nil
	}
	for dir := filepath.Dir(it.Path); ; dir = filepath.Dir(dir) {
		made := it.Before[dir] == "absent"
		i, err := e.sys.Lstat(dir)
		if err != nil || i.Type != fs.ModeDir || i.UID < 0 || !made && dir != filepath.Dir(it.Path) {
			return nil
		}
		if i.Perm&need != need && (i.Perm>>3&need != need || i.GID == 0) { // nobody else is in root's own group
			s.Kind = cmp.Or(s.Kind, kind)
			s.Detail = join(s.Detail, fmt.Sprintf("its folder %s has mode %s", dir, octal(i.Perm)))
			if !made || i.UID != it.UID {
				return fail("reach", dir, errClosed)
			}
			if err := e.sys.Mkdir(dir, safefile.Attr{Perm: i.Perm | it.DirPerm.Perm(), UID: -1, GID: -1}); err != nil {
				return err
			}
		}
		need = 0o1
	}
}

// carried is what an env file of the wrong type gives to the one that takes
// its place: what a link leads to, else nothing.
func (e *engine) carried(path string) []byte {
	to, err := e.sys.Readlink(path)
	if err != nil {
		return nil
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	data, _ := e.sys.ReadFile(to, maxRegistration)
	return data
}

// envFile makes the managed keys hold and leaves every other byte alone.
func (e *engine) envFile(it Item, s *Step) error {
	f, err := e.look(it.Path, maxRegistration, s)
	if err != nil {
		return err
	}
	if f.kind == "" && (bytes.IndexByte(f.data, 0) >= 0 || bytes.HasPrefix(f.data, []byte("\xff\xfe")) || bytes.HasPrefix(f.data, []byte("\xfe\xff"))) {
		f.kind, s.Detail = NotOurs, "not a text file that the hook can read"
	}
	if f.kind == Absent && len(EditEnv(nil, it.Env)) == 0 {
		return nil
	}
	old := f.data
	if f.kind == NotOurs {
		old = nil
	}
	if f.info.Type&fs.ModeSymlink != 0 { // the hook follows no link, so what the user keeps elsewhere is copied here
		old = e.carried(it.Path)
	} else if f.kind == WrongType && f.info.Type == 0 { // a second name: same content, new file
		old, _ = e.sys.ReadFile(it.Path, maxRegistration)
	}
	want := EditEnv(old, it.Env)
	switch {
	case f.kind != "":
		s.Kind = f.kind
	case !bytes.Equal(f.data, want):
		s.Kind = Altered
		s.Detail = join(s.Detail, "managed keys differ")
	default:
		if s.Kind = it.attr(f.info); s.Kind == "" {
			return nil
		}
		if s.Kind == WrongMode {
			return e.sys.SetAttr(it.Path, it.safe())
		}
	}
	if err := e.folders(it, s); err != nil {
		return err
	}
	if err := e.rec.may("write", it.Path); err != nil { // before a copy is kept for nothing
		return err
	}
	if err := e.keep(it, f, s); err != nil {
		return err
	}
	return e.sys.WriteFile(it.Path, want, it.safe())
}
