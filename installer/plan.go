package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/installer/users"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// Host is what the engine works on: the machine's own paths, and the homes.
type Host struct {
	System System
	Homes  Homes
	// Hosts lists running Copilot and editor processes, to know which sessions
	// are older than a change.
	Hosts func() []Process
	// Lock keeps two runs apart (service and command) by a file in the state
	// folder; nil: nothing to keep apart.
	Lock func() (unlock func(), err error)
	// Sleep waits; tests replace it.
	Sleep func(context.Context, time.Duration)
}

// Real is this machine, or what of it lies below the layout's --root.
func Real(l settings.Layout) Host {
	return Host{
		System: Machine(l.Root),
		Homes:  RealHomes{},
		Hosts:  Processes,
		Sleep:  sleep,
		Lock: func() (func(), error) {
			if l.Root != "" && !reallyInside(l.Root, l.StateDir) {
				return nil, fail("lock", l.StateDir, errOutside)
			}
			return safefile.Lock(filepath.Join(l.StateDir, lockName), 20*time.Second)
		},
	}
}

const lockName = "installer.lock"

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Accounts lists the users to register hooks for: the folders below --root,
// the machine's interactive accounts, or in user mode the caller.
func Accounts(ctx context.Context, l settings.Layout) ([]users.Account, error) {
	switch {
	case l.Root != "":
		if !reallyInside(l.Root, l.Homes) {
			return nil, fail("list", l.Homes, errOutside)
		}
		return users.Below(l.Homes).Accounts(ctx)
	case l.System:
		return users.OS().Accounts(ctx)
	}
	return users.Self().Accounts(ctx)
}

// Changes is what has to be done, or what was done: the same steps.
type Changes struct {
	Steps   []Step `json:"steps"`
	Skipped []Skip `json:"skipped,omitempty"`
	// Users tells for each home how its registration stands afterwards.
	Users []UserState `json:"users,omitempty"`
	// Partial: only the machine and the homes that changed were looked at.
	Partial bool `json:"-"`

	host Host
	d    Desired
}

// Skip is a home that couldn't be worked in, and why. It blocks no other.
type Skip struct {
	User   string `json:"user"`
	Home   string `json:"home"`
	Reason string `json:"reason"`
}

// UserState is a line of the report to the Manager (manager.md 4).
type UserState struct {
	Name        string `json:"name"`
	CopilotHome string `json:"copilotHome"`
	Hook        string `json:"hook"` // ok, repaired, absent, foreign
	Detail      string `json:"detail,omitempty"`
}

// OK says that everything we own is right after the run. A skipped home isn't
// ours to reach, and doesn't count.
func (c Changes) OK() bool {
	return !slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Error != "" })
}

// Plan finds out what has to change for d to hold, and changes nothing. An
// error is a fault in d; what can't be read or done shows in the steps.
func Plan(ctx context.Context, h Host, d Desired) (Changes, error) {
	return run(ctx, h, d, true)
}

// Apply makes the plan's desired state hold. It looks again first, so a plan
// can't do harm by being old; on an unchanged machine it does exactly the
// plan's steps. What was done, and what failed, is in the result.
func (c Changes) Apply(ctx context.Context) (Changes, error) {
	return Apply(ctx, c.host, c.d)
}

// Apply makes d hold: install, repair and uninstall are this call.
func Apply(ctx context.Context, h Host, d Desired) (Changes, error) {
	return run(ctx, h, d, false)
}

// machine is one run.
type machine struct {
	ctx     context.Context
	host    Host
	d       Desired
	dry     bool
	e       *engine
	journal journal

	mu  sync.Mutex // guards journal and out while homes run side by side
	out Changes
}

func run(ctx context.Context, h Host, d Desired, dry bool) (Changes, error) {
	if err := d.validate(); err != nil {
		return Changes{}, err
	}
	m := &machine{ctx: ctx, host: h, d: d, dry: dry, e: newEngine(ctx, h.System, dry), out: Changes{Steps: []Step{}, Partial: d.partial, host: h, d: d}}
	var made []string // folders of the state folder's path that aren't there yet
	if d.Uninstall == nil {
		made, _ = m.e.missing(filepath.Join(d.Layout.StateDir, journalName))
		if s := m.add(m.stateFolder()); s != nil && s.err != nil {
			return m.out, ctx.Err() // without it nothing could be taken back later
		}
	}
	if h.Lock != nil && !dry {
		unlock, err := h.Lock()
		switch {
		case err == nil:
			defer unlock()
		case d.Uninstall == nil || !errors.Is(err, fs.ErrNotExist) && !notDir(err):
			if errors.Is(err, safefile.ErrLocked) {
				err = fmt.Errorf("another run of the installer goes on: %w", err)
			}
			return m.out, err
		}
	}
	m.journal = readJournal(h.System, d.Layout.StateDir)
	if m.journal.Before[""] == nil {
		m.journal.Before[""] = map[string]string{}
	}
	for _, dir := range made {
		m.journal.Before[""][dir] = "absent"
	}
	if d.Uninstall != nil {
		m.uninstall()
	} else {
		m.install()
	}
	return m.out, ctx.Err()
}

// converge makes one of the machine's own items hold.
func (m *machine) converge(it Item) *Step {
	if m.d.hold != nil && m.d.hold(it.Object, it.Path) {
		return nil
	}
	return m.add(m.e.converge(it))
}

func (m *machine) add(s *Step) *Step {
	if s != nil {
		m.out.Steps = append(m.out.Steps, *s)
	}
	return s
}

// item is the frame of the machine's own items, which belong to the account
// that the agent runs as: root, SYSTEM, or in user mode the user.
func (m *machine) item(o Object, path string, perm fs.FileMode) Item {
	it := Item{Object: o, Path: path, Perm: perm, DirPerm: 0o755, UID: os.Geteuid(), GID: -1, Before: m.journal.Before[""]}
	if !m.d.Layout.System {
		it.DirPerm = 0o700 // nobody else has to get in
	}
	return it
}

// install goes binary first, then what names it (security.md S12). What is
// about to be changed is noted in the journal before.
func (m *machine) install() {
	d := m.d
	data, err := m.image(m.e)
	bin := m.item(HookBinary, d.Layout.HookBinary, 0o755)
	bin.Data = data
	policies := m.policies()
	m.moved()
	if len(data) > 0 {
		m.journal.SHA256, m.journal.Version = sumOf(data), d.Version
	}
	m.journal.Hook = d.Layout.HookBinary
	for _, it := range append(policies, bin) {
		note(m.e.sys, it, m.journal.Before[""])
	}
	homes := m.lookAtHomes()
	m.writeJournal()

	if len(data) > 0 {
		m.keepCopy(data)
	}
	s := m.converge(bin)
	if s != nil && s.err != nil && err != nil {
		s.fail(err)
		m.out.Steps[len(m.out.Steps)-1] = *s
	}
	if s == nil || s.err == nil {
		m.oldRoots(data)
	}
	if s != nil && s.err != nil {
		if i, err := m.e.sys.Lstat(bin.Path); err != nil || i.Type != 0 {
			m.blocked("the hook binary isn't in place: " + s.Error)
			return
		}
	}
	for _, it := range policies {
		m.converge(it)
	}
	m.changeHomes(homes)
}

// blocked: nothing is registered that would point to nothing.
func (m *machine) blocked(why string) {
	for _, a := range m.d.Users {
		for _, h := range copilotHomes(a) {
			m.out.Skipped = append(m.out.Skipped, Skip{a.Name, h, why})
			m.out.Users = append(m.out.Users, UserState{a.Name, h, "absent", why})
		}
	}
}

// stateFolder makes the state folder, or takes surplus rights from it.
func (m *machine) stateFolder() *Step {
	it := m.item(Folder, m.d.Layout.StateDir, 0o700)
	i, err := m.e.sys.Lstat(it.Path)
	s := &Step{Object: Folder, Path: it.Path, FoundUID: -1}
	m.e.rec.ops = nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Kind = Absent
		err = m.e.folders(it, s)
		if err == nil {
			err = m.e.sys.Mkdir(it.Path, safefile.Attr{Perm: 0o700, UID: -1, GID: -1})
		}
	case err != nil:
	case i.Type != fs.ModeDir:
		s.Kind = WrongType
		err = fail("mkdir", it.Path, safefile.ErrNotDir)
	default:
		if s.Kind = it.attr(i); s.Kind == "" {
			return nil
		}
		if i.Perm&^0o700 == 0 && i.UID == it.UID { // narrower than we make it, and ours: well then
			return nil
		}
		err = m.e.sys.Mkdir(it.Path, safefile.Attr{Perm: 0o700, UID: -1, GID: -1})
	}
	s.Ops = m.e.rec.ops
	if err != nil {
		s.fail(err)
	}
	if s.Kind == "" {
		s.Kind = Blocked
	}
	return s
}

func (m *machine) copyPath(sum string) string {
	return filepath.Join(m.d.Layout.StateDir, "images", sum)
}

// keepCopy keeps the verified copy by which the registered one is restored,
// and no older ones.
func (m *machine) keepCopy(data []byte) {
	it := m.item(HookImage, m.copyPath(sumOf(data)), 0o700)
	it.DirPerm, it.Data = 0o700, data
	m.converge(it)
	names, err := m.e.sys.Names(filepath.Dir(it.Path))
	if err != nil {
		return
	}
	slices.Sort(names)
	for _, n := range names {
		if path := filepath.Join(filepath.Dir(it.Path), n); imageName.MatchString(n) && path != it.Path && !m.e.isDir(path) {
			m.add(m.drop(HookImage, path))
		}
	}
}

// drop removes a file of our own state.
func (m *machine) drop(o Object, path string) *Step {
	if _, err := m.e.sys.Lstat(path); err != nil {
		return nil
	}
	s := &Step{Object: o, Path: path, Kind: Unwanted, FoundUID: -1}
	m.e.rec.ops = nil
	if err := m.e.sys.Remove(path); err != nil {
		s.fail(err)
	}
	s.Ops = m.e.rec.ops
	return s
}

func (m *machine) writeJournal() {
	it := m.item(Journal, filepath.Join(m.d.Layout.StateDir, journalName), 0o600)
	it.Data = m.journal.encode()
	m.converge(it)
}

// policies are the machine's registration in its place, and none in another:
// two would judge every call twice. Empty in user mode.
func (m *machine) policies() []Item {
	var out []Item
	for i, path := range m.policyPaths() {
		if path == "" {
			continue
		}
		it := m.item(PolicyFile, path, 0o644)
		it.Hook = m.d.Layout.HookBinary
		if it.Gone = i > 0 || !m.d.Hooks.Machine || m.d.Uninstall != nil; !it.Gone {
			var err error
			if it.Data, err = m.d.registration("machine").policyFile(runtime.GOOS == "windows"); err != nil {
				m.out.Skipped = append(m.out.Skipped, Skip{Home: path, Reason: err.Error()})
				continue
			}
		}
		out = append(out, it)
	}
	return out
}

// untrusted tells why the host ignores the folder of machine policies: it is a
// link, or somebody else controls it or the folder that it would be made in.
// Empty if it is fine.
func untrusted(l settings.Layout) string {
	dir := l.PolicyDir
	const others = "somebody else may change the folder of machine policies, so Copilot ignores what is in it"
	if fi, err := os.Lstat(dir); err == nil {
		switch i := infoOf(fi); {
		case i.Type == fs.ModeSymlink:
			return "the folder of machine policies is a link, so Copilot ignores what is in it"
		case i.UID >= 0 && i.Perm&0o022 != 0: // also for root's own group: Copilot doesn't ask who is in it
			return others
		}
	}
	for {
		err := safefile.CheckDirBelow(l.Root, dir)
		if notDir(err) {
			return "something else is in the place of the folder of machine policies or of one above it"
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			if err != nil {
				return others
			}
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// parallelHomes is how many homes are worked in at a time: enough that one
// that hangs doesn't stop the others, few enough for a small machine.
const parallelHomes = 4

// home is one Copilot home and what is to be done there.
type home struct {
	user  users.Account
	dir   string
	ask   HomeRequest
	steps []Step
	err   error
}

// lookAtHomes asks each home, as its user, what would change there and what
// stands there now, and notes the latter in the journal.
func (m *machine) lookAtHomes() []*home {
	found := make([][]*home, len(m.d.Users))
	m.each(len(m.d.Users), func(i int) {
		a := m.d.Users[i]
		todo := copilotHomes(a)
		for n := 0; n < len(todo); n++ {
			h := &home{user: a, dir: todo[n]}
			found[i] = append(found[i], h)
			ans := m.lookAt(h)
			if ans.CopilotHome != "" && a.CopilotHome == "" {
				a.CopilotHome = ans.CopilotHome
				todo = copilotHomes(a)
			}
		}
	})
	return slices.Concat(found...)
}

func (m *machine) lookAt(h *home) HomeAnswer {
	before := m.before(h.user)
	var items []Item
	if items, h.err = m.d.homeItems(h.user, h.dir, before); h.err != nil {
		return HomeAnswer{}
	}
	if m.d.hold != nil {
		items = slices.DeleteFunc(items, func(it Item) bool { return m.d.hold(it.Object, it.Path) })
	}
	h.ask = HomeRequest{Verb: PlanHome, Home: h.dir, Items: items}
	ans, err := m.host.Homes.Do(m.ctx, h.user, h.ask)
	h.steps, h.err = ans.Steps, err
	if err != nil || m.d.Uninstall != nil || len(ans.Steps) == 0 {
		return ans
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.journal.Before[h.user.Name] == nil {
		m.journal.Before[h.user.Name] = map[string]string{}
	}
	for p, was := range ans.Before {
		if _, ok := before[p]; !ok {
			m.journal.Before[h.user.Name][p] = was
		}
	}
	return ans
}

// before is what the journal says about a user's home.
func (m *machine) before(a users.Account) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := maps.Clone(m.journal.Before[a.Name]); b != nil {
		return b
	}
	return map[string]string{}
}

// changeHomes has done what lookAtHomes found.
func (m *machine) changeHomes(homes []*home) {
	m.each(len(homes), func(i int) {
		h := homes[i]
		if m.dry || h.err != nil || len(h.steps) == 0 {
			return
		}
		h.ask.Verb = ApplyHome
		ans, err := m.host.Homes.Do(m.ctx, h.user, h.ask)
		h.steps, h.err = ans.Steps, err
	})
	for _, h := range homes {
		for _, s := range h.steps {
			s.User = h.user.Name
			m.out.Steps = append(m.out.Steps, s)
		}
		if h.err != nil {
			m.out.Skipped = append(m.out.Skipped, Skip{h.user.Name, h.dir, users.Clean(h.err.Error())})
		}
		m.out.Users = append(m.out.Users, stateOf(h.user.Name, h.dir, h.steps, h.err))
	}
}

// each runs f for 0 to n-1, several at a time.
func (m *machine) each(n int, f func(int)) {
	var wg sync.WaitGroup
	turn := make(chan struct{}, parallelHomes)
	for i := range n {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			f(i)
		})
	}
	wg.Wait()
}

func stateOf(name, dir string, steps []Step, err error) UserState {
	u := UserState{Name: name, CopilotHome: dir, Hook: "ok"}
	if err != nil {
		u.Hook, u.Detail = "absent", err.Error()
		return u
	}
	for _, s := range steps {
		switch {
		case s.Object == HookFile && s.Error != "" && (s.Kind == NotOurs || s.Kind == OldAdapter):
			u.Hook, u.Detail = "foreign", s.Error
		case s.Error != "":
			u.Hook, u.Detail = "absent", s.Error
		case s.Kind == Unwanted && u.Hook == "ok":
			u.Hook = "absent"
		case u.Hook == "ok" && s.Object == HookFile:
			u.Hook, u.Detail = "repaired", string(s.Kind)
		}
	}
	return u
}
