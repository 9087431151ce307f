package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// settingsAudit covers what a file watch can't see: the registry, managed
// preferences, a folder that appears later.
const settingsAudit = 30 * time.Second

// watchSettings takes a changed agent.yaml into account: the plugin root and
// which hooks are wanted at once, the rest at the next start.
func (d *Daemon) watchSettings(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	tick := time.NewTicker(settingsAudit)
	defer tick.Stop()
	for {
		d.watchNearest(w)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case err := <-w.Errors:
			d.o.Log.Debug("watch the configuration", "error", err)
		case <-w.Events:
			d.settle(ctx, w)
		}
		d.readSettings()
	}
}

// watchNearest watches the folder of agent.yaml, or the nearest one above that
// exists, to see it appear. Adding a path twice does nothing.
func (d *Daemon) watchNearest(w *fsnotify.Watcher) {
	for dir := filepath.Dir(d.o.Layout.ConfigFile); ; dir = filepath.Dir(dir) {
		if w.Add(dir) == nil || dir == filepath.Dir(dir) || dir == d.o.Layout.Root {
			return
		}
	}
}

// settle waits until an editor has finished.
func (d *Daemon) settle(ctx context.Context, w *fsnotify.Watcher) {
	for {
		d.watchNearest(w)
		select {
		case <-ctx.Done():
			return
		case <-w.Events:
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

func (d *Daemon) readSettings() {
	fresh, err := settings.Load(d.o.Layout)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			d.o.Log.Warn("the changed configuration is not used", "error", err)
		}
		return
	}
	d.mu.Lock()
	before := d.settings
	changed := !before.Equal(fresh)
	d.settings = fresh
	d.layout = d.o.Layout.WithHookDir(fresh.Text(settings.KeyHookDir))
	d.mu.Unlock()
	if changed {
		d.o.Log.Info("configuration changed")
		d.pull()
	}
}
