package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/daemon"
	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/installer"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/sync/device"
)

// machine reads what is known of this machine, the last good config included.
// It works without the service.
func (a *app) machine(ctx context.Context, state *enroll.State) (daemon.Machine, error) {
	m := daemon.Machine{Layout: a.layout, Settings: a.settings, State: state}
	err := device.New(device.Options{State: state, Log: a.logger(), Callbacks: device.Callbacks{
		Apply: func(_ context.Context, c *api.GuardConfig) error { m.Config = c; return nil },
	}}).Restore(ctx)
	if err != nil && !errors.Is(err, enroll.ErrNotEnrolled) {
		return m, err
	}
	return m, nil
}

// syncOnce does what the service would: fetch the config, keep it, report.
// What the config means for the guard is checked as the service checks it.
func (a *app) syncOnce(ctx context.Context, state *enroll.State) error {
	client := enroll.NewClient(state, a.settings.Network(), a.logger())
	defer client.Close()
	return device.New(device.Options{State: state, Client: client, Log: a.logger(), Callbacks: device.Callbacks{
		Apply:  func(_ context.Context, c *api.GuardConfig) error { return checkGuard(c) },
		Report: func() api.Report { return api.Report{} },
	}}).SyncOnce(ctx)
}

// applyHooks makes the installer's desired state hold once.
func (a *app) applyHooks(ctx context.Context, state *enroll.State) (installer.Changes, error) {
	desired, err := a.desired(ctx, state)
	if err != nil {
		return installer.Changes{}, err
	}
	return installer.Apply(ctx, installer.Real(a.layout), desired)
}

// errNothingWanted is no fault: this machine has nothing to keep right.
var errNothingWanted = errors.New("not enrolled, and no hooks were installed by hand: run `pinta-agent enroll` or `pinta-agent hooks install`")

func (a *app) desired(ctx context.Context, state *enroll.State) (installer.Desired, error) {
	m, err := a.machine(ctx, state)
	if err != nil {
		return installer.Desired{}, err
	}
	desired, wanted, err := m.Desired(ctx)
	if err == nil && !wanted {
		err = errNothingWanted
	}
	return desired, err
}

// tellService asks a running service to do something; daemon.ErrNotRunning if
// there is none.
func (a *app) tellService(ctx context.Context, what string) error {
	return daemon.Ask(ctx, a.layout, http.MethodPost, "/"+what, nil)
}
