// Package daemon is the service: it wires enrolment, the Manager's config,
// the installer's watch and the guard and relay process together by callbacks.
// Each of them works without it; nothing is decided here that is one of theirs
// to decide.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/endpoint"
	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/installer"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/local/serve"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/sync/device"
)

// Options of the service.
type Options struct {
	Layout   settings.Layout
	Settings *settings.Settings
	EnvToken settings.Secret // PINTA_ENROLLMENT_TOKEN
	Log      *slog.Logger
	// Level is the log level, which a signed action may change.
	Level  *slog.LevelVar
	Stderr io.Writer
	// Diagnostics writes a diagnostics bundle to a file.
	Diagnostics func(ctx context.Context, path string) error
	// Recent are the last lines of the log, for diagnostics.
	Recent func() []string
	// Ready is called once hooks are answered.
	Ready func()
}

// Daemon is the running service.
type Daemon struct {
	o       Options
	state   *enroll.State
	client  *enroll.Client
	device  *device.Device
	parent  *endpoint.Parent
	trigger chan struct{} // asks the installer for a run
	denied  chan string   // users whose queue holds a span since just now
	started time.Time

	mu       sync.Mutex
	layout   settings.Layout
	settings *settings.Settings
	config   *api.GuardConfig
	changes  installer.Changes
	auditErr error
	findings []installer.Finding
	facts    map[string]installer.Facts // by user
	repairs  []installer.Repair         // since the last report
	repaired int
	totals   *totals
}

// Run is the service until ctx ends. It returns when everything has ended, at
// most 6 s later.
func Run(ctx context.Context, o Options) error {
	d := &Daemon{o: o, layout: o.Layout, settings: o.Settings, trigger: make(chan struct{}, 1), denied: make(chan string, 64), started: time.Now()}
	if err := d.open(); err != nil {
		return err
	}
	listener, err := serve.Listen(d.layout.Endpoint, d.listenOptions())
	if err != nil {
		return fmt.Errorf("listen for hooks at %s: %w", d.layout.Endpoint, err)
	}
	defer listener.Close()
	d.parent = endpoint.New(endpoint.Options{Layout: d.layout, Listener: listener, Setup: d.setup(),
		Device: d.client, Log: o.Log, Stderr: o.Stderr})
	control, err := d.listenControl()
	if err != nil {
		return err
	}
	defer control.Close()
	d.device = device.New(device.Options{State: d.state, Client: d.client, Log: o.Log, Callbacks: d.callbacks()})
	if err := d.identify(ctx); err != nil && !errors.Is(err, enroll.ErrNotEnrolled) {
		o.Log.Warn("guard and relay don't know this device's identity", "error", err)
	}
	// The first child starts with the last good config: no hook is answered
	// without it, and nothing is installed by less than it says.
	if err := d.device.Restore(ctx); err != nil && !errors.Is(err, enroll.ErrNotEnrolled) {
		o.Log.Warn("the last good config can't be used; hooks are judged by the built-in rules until the next one", "error", err)
	}

	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return d.parent.Run(ctx) })
	all.Go(func() error { return d.serveControl(ctx, control) })
	all.Go(func() error { return d.device.Run(ctx) })
	all.Go(func() error { d.enrol(ctx); return nil })
	all.Go(func() error { return d.watchHooks(ctx) })
	all.Go(func() error { return d.watchSettings(ctx) })
	all.Go(func() error { d.drainQueues(ctx); return nil })
	all.Go(func() error { d.watchStats(ctx); return nil })
	all.Go(func() error { endpoint.KeepSmall(ctx); return nil })
	all.Go(func() error {
		select {
		case <-d.parent.Started():
			o.Log.Info("serving hooks", "endpoint", d.layout.Endpoint)
			if o.Ready != nil {
				o.Ready()
			}
		case <-ctx.Done():
		}
		return nil
	})
	err = all.Wait()
	d.saveTotals()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (d *Daemon) open() (err error) {
	if d.state, err = enroll.Open(d.layout.StateDir); err != nil {
		return err
	}
	if err := safefile.MkdirAll(d.spoolDir(), 0o700); err != nil {
		return fmt.Errorf("spool folder: %w", err)
	}
	if d.layout.Root != "" { // a new tree has no /run yet
		if err := os.MkdirAll(filepath.Dir(d.layout.RunDir), 0o755); err != nil {
			return fmt.Errorf("folder of the socket: %w", err)
		}
	}
	d.client = enroll.NewClient(d.state, d.settings.Network(), d.o.Log)
	d.client.Base = d.settings.Text(settings.KeyManagerURL)
	d.totals = loadTotals(d.state)
	return nil
}

func (d *Daemon) spoolDir() string { return filepath.Join(d.layout.StateDir, "spool") }

func (d *Daemon) listenOptions() serve.Options { return serve.Options{Everyone: d.layout.System} }

func (d *Daemon) setup() endpoint.Setup {
	host, _ := os.Hostname()
	network := d.settings.Network()
	age, err := time.ParseDuration(d.settings.Text(settings.KeySpoolMaxAge))
	if err != nil {
		age = 0 // the spool's default
	}
	return endpoint.Setup{
		Host: host, Homes: d.layout.Homes, LogLevel: d.o.Level.Level().String(),
		Proxy: network.Proxy.Reveal(), CAFile: network.CAFile,
		Loopback: d.settings.Text(settings.KeyLoopbackListen),
		SpoolDir: d.spoolDir(), SpoolMax: int64(d.settings.Int(settings.KeySpoolMaxMiB)) << 20, SpoolAge: age,
	}
}

// machine is the state of now for the installer.
func (d *Daemon) machine() Machine {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Machine{Layout: d.layout, Settings: d.settings, State: d.state, Config: d.config}
}

// pull asks the installer for a run.
func (d *Daemon) pull() {
	select {
	case d.trigger <- struct{}{}:
	default:
	}
}

func (d *Daemon) enrol(ctx context.Context) {
	routes := enroll.Routes{Env: d.o.EnvToken, Layout: d.layout}
	enroll.Serve(ctx, enroll.Options{State: d.state, Routes: routes, ManagerURL: d.settings.Text(settings.KeyManagerURL),
		Network: d.settings.Network(), Log: d.o.Log}, func(id enroll.Identity) {
		d.o.Log.Info("enrolled", "manager", id.Manager, "device", id.DeviceID, "group", id.Group)
		if err := d.identify(ctx); err != nil {
			d.o.Log.Warn("guard and relay don't know the new identity yet", "error", err)
		}
		d.reload()
	})
}

// reload takes a changed identity or configuration into account at once.
func (d *Daemon) reload() {
	d.device.Wake()
	d.pull()
}

// callbacks are what the Manager's side asks of this machine.
func (d *Daemon) callbacks() device.Callbacks {
	return device.Callbacks{
		Apply:  d.apply,
		Report: d.report,
		Reported: func(r api.Report) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.repairs = d.repairs[min(len(r.Repairs), len(d.repairs)):]
		},
		Action:  d.act,
		Retired: d.retired,
	}
}

// apply puts a checked config in force: guard and relay first, which may
// refuse it, then the hooks.
func (d *Daemon) apply(ctx context.Context, c *api.GuardConfig) error {
	if err := d.serve(ctx, c); err != nil {
		return err
	}
	d.mu.Lock()
	d.config = c
	d.mu.Unlock()
	d.pull()
	return nil
}

// identify tells guard and relay who this device is. Hooks are registered as
// soon as it is enrolled, so a span that comes before the first config carries
// the device too; it waits in the spool until a config names its destination.
func (d *Daemon) identify(ctx context.Context) error {
	return d.serve(ctx, d.machine().Config)
}

// serve has guard and relay work for this device by c; nil is none yet.
func (d *Daemon) serve(ctx context.Context, c *api.GuardConfig) error {
	identity, err := d.state.Identity()
	if err != nil {
		return err
	}
	wanted := endpoint.Config{DeviceID: identity.DeviceID, Group: identity.Group}
	if c != nil {
		wanted.Manager, wanted.Version, wanted.Issued, wanted.Guard, wanted.Discard = identity.Manager, c.Version, c.IssuedAt, c.Guard, !c.Telemetry.Enabled
		if c.Telemetry.Endpoint != "" && c.Telemetry.Endpoint != "manager" {
			wanted.Collector, wanted.Headers = c.Telemetry.Endpoint, c.Telemetry.Headers
		}
	}
	return d.parent.Serve(ctx, wanted)
}

// retired takes back what was installed, and stops judging by a config that is
// nobody's any more.
func (d *Daemon) retired(ctx context.Context, r enroll.Retirement) error {
	d.o.Log.Warn("this device was retired by its Manager: hooks are removed", "device", r.DeviceID)
	if err := d.removeHooks(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	d.config = nil
	d.mu.Unlock()
	return d.parent.Serve(ctx, endpoint.Config{})
}

// removeHooks takes every registration out. The binary stays for what running
// sessions still hold; `uninstall` removes it.
func (d *Daemon) removeHooks(ctx context.Context) error {
	m := d.machine()
	desired, _, err := m.Desired(ctx)
	if err != nil {
		return err
	}
	desired.Uninstall = &installer.Removal{KeepBinary: true}
	changes, err := installer.Apply(ctx, installer.Real(m.Layout), desired)
	if err != nil {
		return err
	}
	if !changes.OK() {
		return errors.New("some hooks could not be removed: doctor lists them")
	}
	return nil
}

func (d *Daemon) watchHooks(ctx context.Context) error {
	return installer.Watch(ctx, installer.Real(d.layout), installer.WatchOptions{
		Trigger: d.trigger,
		Desired: d.desired,
		Repaired: func(r installer.Repair) {
			installer.LogRepair(d.layout, r)
			d.o.Log.Warn("repaired", "object", r.Object, "user", r.User, "path", r.Path, "cause", r.Reason, "detail", r.Detail, "error", r.Error)
			d.mu.Lock()
			d.repairs = append(d.repairs, r)
			if len(d.repairs) > maxRepairsHeld {
				d.repairs = d.repairs[len(d.repairs)-maxRepairsHeld:]
			}
			d.repaired++
			n := d.repaired
			d.mu.Unlock()
			d.parent.SetRepairs(int64(n))
			d.device.Changed()
		},
		Audited: func(c installer.Changes, err error) {
			d.mu.Lock()
			d.changes, d.auditErr = c, err
			d.mu.Unlock()
			d.nameUsers(ctx)
			if err != nil {
				d.o.Log.Warn("looking after the hooks", "error", err)
			}
		},
		Found: func(list []installer.Finding, facts map[string]installer.Facts) {
			d.mu.Lock()
			d.findings, d.facts = list, facts
			d.mu.Unlock()
			d.device.Changed()
		},
	})
}

// nameUsers tells the endpoint who the machine's accounts are.
func (d *Daemon) nameUsers(ctx context.Context) {
	accounts, err := installer.Accounts(ctx, d.layout)
	if err != nil {
		return
	}
	tokens, err := d.machine().tokens()
	if err != nil {
		d.o.Log.Warn("the loopback listener admits nobody", "error", err)
	}
	names, callers := map[string]string{}, map[string]string{}
	for _, a := range accounts {
		if tokens != nil {
			callers[tokens(a).Reveal()] = a.Name
		}
		uid := strconv.Itoa(a.UID)
		if other, taken := names[uid]; taken && other != a.Name {
			names[uid] = "uid:" + uid // two names for one number: neither is sure
			continue
		}
		names[uid] = a.Name
	}
	d.parent.SetUsers(names, callers)
}

const maxRepairsHeld = 256

// errNotWanted keeps the installer's hands off a machine that nobody asked it
// to register hooks on.
var errNotWanted = errors.New("not enrolled and no hooks installed: nothing to look after")

func (d *Daemon) desired(ctx context.Context) (installer.Desired, error) {
	desired, wanted, err := d.machine().Desired(ctx)
	if err == nil && !wanted {
		err = errNotWanted
	}
	return desired, err
}
