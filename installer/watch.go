package installer

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/pinta-ai/pinta-agent/installer/users"
)

// Times of the watch. A change is repaired within debounce plus one run, far
// below the two seconds of installer.md 5; a missed one by the next audit.
const (
	debounce   = 250 * time.Millisecond
	auditEvery = 45 * time.Second
	// watchRetry is how long a watch that failed waits; the audit covers it.
	watchRetry = 30 * time.Second
	// maxWatchers bounds the worker processes that watch homes; further homes
	// are covered by the audit.
	maxWatchers = 64
)

// Repair is one change that the watch undid, for the log, status and the
// report to the Manager.
type Repair struct {
	At     time.Time `json:"at"`
	User   string    `json:"user,omitempty"`
	Object Object    `json:"object"`
	Path   string    `json:"path"`
	Reason Kind      `json:"reason"`
	Detail string    `json:"detail,omitempty"`
	What   []string  `json:"what,omitempty"` // the operations
	Error  string    `json:"error,omitempty"`
	// Who left it so, as far as the file tells.
	FoundUID  int       `json:"foundUid"`
	FoundTime time.Time `json:"foundTime,omitzero"`
	// Count is how often this object was repaired within the last minute.
	Count int `json:"count"`
	// Until is set when something fights us: no repair of the object before.
	Until time.Time `json:"until,omitzero"`
}

// WatchOptions are what Watch needs to know and whom it tells.
type WatchOptions struct {
	// Desired gives the wanted state of now; it is called for each run, so new
	// accounts and new configuration count at once.
	Desired func(ctx context.Context) (Desired, error)
	// Repaired is called for each repair, for LogRepair and the report; for one
	// that fails again and again for the same cause, only the first time and
	// when it is left alone for a while. Not concurrently.
	Repaired func(Repair)
	// Audited is called after each run with its outcome; Users holds every
	// home's last state. Not concurrently.
	Audited func(Changes, error)
	// Found is called with everything that is reported rather than repaired
	// (shadowed, duplicated, skipped) and the facts of each user, when the list
	// or somebody's number of unguarded clients has changed. Not concurrently.
	Found func([]Finding, map[string]Facts)
	// Trigger asks for a run at once, for example after a new configuration.
	Trigger <-chan struct{}
	// AuditEvery overrides the interval of the audit.
	AuditEvery time.Duration
}

// Watch keeps the desired state until ctx ends: it repairs what changes, and
// looks at everything once in AuditEvery. It returns ctx's error.
func Watch(ctx context.Context, h Host, o WatchOptions) error {
	if o.AuditEvery == 0 {
		o.AuditEvery = auditEvery
	}
	w := &watcher{h: h, o: o, kick: make(chan struct{}, 1), dirty: map[string]bool{}, calm: map[string]bool{}, homes: map[string]context.CancelFunc{}, quiet: quiet{}, known: map[string]homeState{}}
	defer w.wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	audit := time.NewTicker(o.AuditEvery)
	defer audit.Stop()
	for whole := true; ; {
		next := w.run(ctx, whole)
		var retry <-chan time.Time
		if next > 0 {
			retry = time.After(next)
		}
		whole = true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-audit.C:
		case <-retry:
		case <-o.Trigger:
		case <-w.kick:
			whole = false
			// Let a burst end: each change after the first is the same repair.
			select {
			case <-time.After(debounce):
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case <-w.kick:
			default:
			}
		}
	}
}

type watcher struct {
	h     Host
	o     WatchOptions
	kick  chan struct{}
	wg    sync.WaitGroup
	mu    sync.Mutex
	dirty map[string]bool               // whose homes changed since the last look
	calm  map[string]bool               // names of those with something held back: their changes wait for retry or audit
	homes map[string]context.CancelFunc // running watches by what they watch
	quiet quiet
	stuck map[string]string    // why a repair failed, as told, by quietKey; "" if it did not
	known map[string]homeState // last state and findings, by userKey; "" is the machine
	told  []Finding
	count map[string]int // of unguarded clients, as told
}

type homeState struct {
	users    []UserState
	findings []Finding
	facts    Facts
}

// run is one look at everything, or at the machine and the homes that changed.
// It returns when to look again at what is held back, or 0.
func (w *watcher) run(ctx context.Context, whole bool) time.Duration {
	w.mu.Lock()
	dirty := w.dirty
	w.dirty = map[string]bool{}
	w.mu.Unlock()
	d, err := w.o.Desired(ctx)
	if err != nil {
		w.audited(ctx, Changes{}, err)
		return 0
	}
	w.watch(ctx, d)
	if !whole {
		d.Users = slices.DeleteFunc(slices.Clone(d.Users), func(a users.Account) bool { return !dirty[userKey(a)] })
		d.partial = true
	}
	plan, err := Plan(ctx, w.h, d)
	if err != nil || ctx.Err() != nil {
		w.audited(ctx, plan, err)
		return 0
	}
	now := w.h.System.Now()
	w.mu.Lock()
	delete(w.calm, "")
	for _, a := range d.Users {
		delete(w.calm, a.Name)
	}
	for _, s := range plan.Steps {
		if w.quiet.held(s, now) {
			w.calm[s.User] = true
		}
	}
	w.mu.Unlock()
	held := false
	todo := false
	for _, s := range plan.Steps {
		if w.quiet.held(s, now) {
			held = true
		} else {
			todo = true
		}
	}
	next := time.Duration(0)
	if held {
		next = w.quiet.next(now)
	}
	defer w.examine(ctx, d, whole)
	if !todo {
		if whole && !held {
			w.stuck = nil
		}
		w.audited(ctx, plan, nil)
		return next
	}
	d.hold = func(o Object, path string) bool { return w.quiet.held(Step{Object: o, Path: path}, now) }
	done, err := Apply(ctx, w.h, d)
	stuck := map[string]string{}
	if !whole {
		maps.Copy(stuck, w.stuck)
	}
	for _, s := range done.Steps {
		if s.Object == Journal || s.Object == HookImage {
			continue
		}
		count, until := w.quiet.note(s, now)
		key, cause := quietKey(s), ""
		if s.Error != "" {
			cause = string(s.Kind) + "\x00" + cmp.Or(s.Remedy, s.Error)
		}
		known := cause != "" && w.stuck[key] == cause
		stuck[key] = cause
		if w.o.Repaired != nil && (!known || !until.IsZero()) {
			w.o.Repaired(s.repair(now, count, until))
		}
	}
	w.stuck = stuck
	w.audited(ctx, done, err)
	return next
}

// audited keeps each home's last state and tells the outcome.
func (w *watcher) audited(ctx context.Context, c Changes, err error) {
	if err != nil && ctx.Err() != nil {
		return // the end of the watch is no fault
	}
	if err == nil {
		for _, a := range c.d.Users {
			k := w.known[userKey(a)]
			k.users = slices.DeleteFunc(slices.Clone(c.Users), func(u UserState) bool { return u.Name != a.Name })
			w.known[userKey(a)] = k
		}
		if c.Partial {
			c.Users = nil
			for _, key := range slices.Sorted(maps.Keys(w.known)) {
				c.Users = append(c.Users, w.known[key].users...)
			}
		}
	}
	if w.o.Audited != nil {
		w.o.Audited(c, err)
	}
}

// examine looks for what is reported rather than repaired, without running
// anything.
func (w *watcher) examine(ctx context.Context, d Desired, whole bool) {
	if w.o.Found == nil || ctx.Err() != nil {
		return
	}
	d.hold = nil
	diagnosis, err := diagnose(ctx, w.h, d, false)
	if err != nil {
		return
	}
	if whole {
		w.known = map[string]homeState{}
	}
	for _, a := range d.Users {
		k := w.known[userKey(a)]
		k.users = slices.DeleteFunc(slices.Clone(diagnosis.Users), func(u UserState) bool { return u.Name != a.Name })
		k.findings = slices.DeleteFunc(slices.Clone(diagnosis.Findings), func(f Finding) bool { return f.User != a.Name || f.Fixable })
		k.facts = diagnosis.Facts[a.Name]
		w.known[userKey(a)] = k
	}
	w.known[""] = homeState{findings: slices.DeleteFunc(diagnosis.Findings, func(f Finding) bool { return f.User != "" || f.Fixable || !whole && f.ID == "users.none" })}
	var all []Finding
	facts, count := map[string]Facts{}, map[string]int{}
	for _, key := range slices.Sorted(maps.Keys(w.known)) {
		k := w.known[key]
		all = append(all, k.findings...)
		if name, _, _ := strings.Cut(key, "\x00"); name != "" {
			facts[name] = merge(facts[name], k.facts)
			count[name] = facts[name].Unguarded
		}
	}
	if !slices.Equal(all, w.told) || !maps.Equal(count, w.count) {
		w.told, w.count = all, count
		w.o.Found(slices.Clone(all), facts)
	}
}

func (s Step) repair(now time.Time, count int, until time.Time) Repair {
	r := Repair{At: now.UTC(), User: s.User, Object: s.Object, Path: s.Path, Reason: s.Kind, Detail: s.Detail, Error: s.Error,
		FoundUID: s.FoundUID, FoundTime: s.FoundTime, Count: count, Until: until}
	for _, o := range s.Ops {
		r.What = append(r.What, o.String())
	}
	return r
}

// watch starts what isn't watched yet and ends what is wanted no longer.
func (w *watcher) watch(ctx context.Context, d Desired) {
	want := map[string]func(context.Context) error{}
	machine := machineWatch(d)
	want["machine"+machine.key()] = func(ctx context.Context) error { return watchPaths(ctx, machine, func() { w.changed("") }) }
	if d.Hooks.User && d.Uninstall == nil {
		for _, a := range d.Users {
			for _, dir := range copilotHomes(a) {
				if len(want) > maxWatchers {
					break
				}
				req := HomeRequest{Verb: WatchHome, Home: dir}
				want[userKey(a)+"\x00"+dir] = func(ctx context.Context) error {
					return w.h.Homes.Watch(ctx, a, req, func() { w.changed(userKey(a)) })
				}
			}
		}
	}
	for k, cancel := range w.homes {
		if _, ok := want[k]; !ok {
			cancel()
			delete(w.homes, k)
		}
	}
	for k, f := range want {
		if _, ok := w.homes[k]; ok {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		w.homes[k] = cancel
		w.wg.Add(1)
		go func() {
			defer w.wg.Done()
			for ctx.Err() == nil {
				_ = f(ctx) // it ends when its home goes away; the audit covers it meanwhile
				select {
				case <-time.After(watchRetry):
				case <-ctx.Done():
				}
			}
		}()
	}
}

// userKey tells accounts of equal names apart.
func userKey(a users.Account) string { return a.Name + "\x00" + a.SID + "\x00" + a.Home }

// changed asks for a look at the machine and at this user's homes. While a
// rival of the user's is waited out, his changes cause none: each look costs a
// process, and he can make as many as he likes.
func (w *watcher) changed(user string) {
	name, _, _ := strings.Cut(user, "\x00")
	w.mu.Lock()
	w.dirty[user] = true
	calm := w.calm[name]
	w.mu.Unlock()
	if calm {
		return
	}
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// paths is what to watch: folders, and in each the names that matter, or nil
// for all. The folders need not exist.
type paths map[string][]string

func (p paths) key() string {
	var out []string
	for d, n := range p {
		out = append(out, d+"\x00"+filepath.Join(n...))
	}
	slices.Sort(out)
	return filepath.Join(out...)
}

// add watches path and the way to it, down from the folder top.
func (p paths) add(top, path string) {
	for path != top && path != filepath.Dir(path) {
		dir := filepath.Dir(path)
		if !slices.Contains(p[dir], filepath.Base(path)) {
			p[dir] = append(p[dir], filepath.Base(path))
		}
		path = dir
	}
}

// machineWatch is the machine's own paths, from two folders above each: those
// above are the system's.
func machineWatch(d Desired) paths {
	p := paths{}
	for _, f := range []string{d.Layout.HookBinary, d.Layout.PolicyFile()} {
		if f != "" {
			p.add(filepath.Dir(filepath.Dir(filepath.Dir(f))), f)
		}
	}
	return p
}

// watchHome watches one Copilot home as its user.
func watchHome(ctx context.Context, r HomeRequest, changed func()) error {
	p := paths{}
	top := r.User.Home
	if rel, err := filepath.Rel(top, r.Home); err != nil || !filepath.IsLocal(rel) {
		top = filepath.Dir(r.Home)
	}
	p.add(top, filepath.Join(r.Home, "hooks", hookFileName))
	p.add(top, filepath.Join(r.Home, envFileName))
	p.add(top, filepath.Join(r.Home, "settings.json"))
	p[filepath.Join(r.Home, "hooks")] = nil // every name: another registration counts too
	return watchPaths(ctx, p, changed)
}

// watchPaths calls changed when one of the paths changes, appears or goes,
// until ctx ends or nothing of it can be watched. Folders that come back are
// watched again.
func watchPaths(ctx context.Context, p paths, changed func()) error {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = n.Close() }()
	watched := map[string]os.FileInfo{}
	arm := func() (fresh bool) {
		for dir := range p {
			fi, err := os.Stat(dir)
			if err != nil {
				if watched[dir] != nil {
					_ = n.Remove(dir)
					delete(watched, dir)
				}
				continue
			}
			if old := watched[dir]; old != nil && os.SameFile(old, fi) {
				continue
			} else if old != nil {
				_ = n.Remove(dir) // another folder stands there now
			}
			if n.Add(dir) == nil {
				watched[dir], fresh = fi, true
			}
		}
		return fresh
	}
	arm()
	if len(watched) == 0 {
		return fs.ErrNotExist
	}
	changed() // what happened before the watch began
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-n.Events:
			if !ok {
				return errors.New("watch ended")
			}
			dir, name := filepath.Split(e.Name)
			dir = filepath.Clean(dir)
			_, self := p[e.Name]
			if self && e.Op&(fsnotify.Remove|fsnotify.Rename) != 0 {
				_ = n.Remove(e.Name)
				delete(watched, e.Name)
			}
			if names, ok := p[dir]; self || ok && names == nil || slices.Contains(names, name) {
				for arm() { // a folder that appeared may hold another by now
				}
				changed()
			}
		case _, ok := <-n.Errors: // an overflow: something changed
			if !ok {
				return errors.New("watch ended")
			}
			arm()
			changed()
		}
	}
}
