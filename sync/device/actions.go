package device

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/internal/api"
)

const actionsName = "actions"

// done is an action that was begun. It is kept until the action can't come
// again, and reported until the Manager has taken the report.
type done struct {
	ID        string    `json:"id"`
	ExpiresAt time.Time `json:"expiresAt"`
	Finished  bool      `json:"finished"`
	OK        bool      `json:"ok"`
	Detail    string    `json:"detail,omitempty"`
	Told      bool      `json:"told"`
}

type doneList struct {
	Actions []done `json:"actions"`
}

// doActions does each action at most once, in the order in which they came. One
// that can't be believed is told in the log and otherwise as if it had not come.
func (d *Device) doActions(ctx context.Context, c *api.Client, all []string) error {
	for _, jws := range all {
		id, err := d.State.Identity()
		if err != nil {
			return err
		}
		var a api.Action
		if _, err = d.verify(ctx, c, &id, jws, &a); err == nil {
			err = checkAction(a, id, d.Clock.Now())
		}
		if err != nil {
			d.Log.Warn("action refused", "error", err)
			continue
		}
		if err := d.doAction(ctx, c, a); err != nil {
			return err
		}
	}
	return nil
}

func checkAction(a api.Action, id enroll.Identity, now time.Time) error {
	switch {
	case a.DeviceID != id.DeviceID || a.Aud != id.Audience:
		return errors.New("it is another device's")
	case a.ID == "" || !now.Before(a.ExpiresAt):
		return errors.New("it has expired, or has no id")
	}
	switch a.Kind {
	case api.ActionKindResync, api.ActionKindRepair, api.ActionKindDiagnostics, api.ActionKindRotateKey, api.ActionKindLogLevel, api.ActionKindUnenroll:
		return nil
	}
	return fmt.Errorf("%q is no action that this agent knows", a.Kind)
}

// doAction notes the action before it begins: a kill in between makes it a
// failed one, never one that is done twice.
func (d *Device) doAction(ctx context.Context, c *api.Client, a api.Action) error {
	fresh := false
	err := d.changeActions(func(l *doneList) {
		if fresh = !slices.ContainsFunc(l.Actions, func(x done) bool { return x.ID == a.ID }); fresh {
			l.Actions = append(l.Actions, done{ID: a.ID, ExpiresAt: a.ExpiresAt})
		}
	})
	if err != nil || !fresh {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, actionTime)
	defer cancel()
	detail, failure := d.perform(bounded, a)
	if failure != nil {
		detail = failure.Error()
	}
	if len(detail) > 500 {
		detail = detail[:500]
	}
	d.Log.Info("action", "kind", a.Kind, "id", a.ID, "ok", failure == nil, "detail", detail)
	err = d.changeActions(func(l *doneList) {
		for i := range l.Actions {
			if x := &l.Actions[i]; x.ID == a.ID {
				x.Finished, x.OK, x.Detail = true, failure == nil, detail
			}
		}
	})
	if err != nil {
		return err
	}
	if a.Kind == api.ActionKindUnenroll && failure == nil {
		return d.leave(ctx, c, a)
	}
	d.Changed()
	return nil
}

func (d *Device) perform(ctx context.Context, a api.Action) (string, error) {
	switch a.Kind {
	case api.ActionKindResync:
		return "", d.poll(ctx, 0, true)
	case api.ActionKindRotateKey:
		return "", d.Client.RotateKey(ctx)
	}
	if d.Action == nil {
		return "", errors.New("this agent can't do that")
	}
	return d.Action(ctx, a)
}

// leave tells the Manager that the device is gone and drops the identity; that
// the last word gets lost changes nothing.
func (d *Device) leave(ctx context.Context, c *api.Client, a api.Action) error {
	if r, err := d.fillReport(); err == nil {
		if err := api.Done(c.ReportDevice(ctx, r)); err != nil {
			d.Log.Warn("the manager does not know yet that this device is unenrolled", "error", err)
		}
	}
	return d.State.Unenroll("action " + a.ID)
}

// unacknowledged are the actions to report. One that was begun by an earlier
// process and never finished has failed.
func (d *Device) unacknowledged() ([]api.ActionDone, error) {
	var l doneList
	if err := d.State.Load(actionsName, &l); err != nil {
		return nil, err
	}
	var list []api.ActionDone
	for _, a := range l.Actions {
		if a.Told {
			continue
		}
		if !a.Finished {
			a.Detail = "the agent was ended while it did this"
		}
		list = append(list, api.ActionDone{ID: a.ID, Ok: a.OK, Detail: a.Detail})
	}
	return list, nil
}

func (d *Device) acknowledged(told []api.ActionDone) error {
	if len(told) == 0 {
		return nil
	}
	return d.changeActions(func(l *doneList) {
		for i := range l.Actions {
			if slices.ContainsFunc(told, func(t api.ActionDone) bool { return t.ID == l.Actions[i].ID }) {
				l.Actions[i].Told = true
			}
		}
	})
}

// changeActions also forgets what was told and can't come again.
func (d *Device) changeActions(fn func(*doneList)) error {
	var l doneList
	now := d.Clock.Now()
	return d.State.Update(actionsName, &l, func() error {
		l.Actions = slices.DeleteFunc(l.Actions, func(a done) bool { return a.Told && now.After(a.ExpiresAt) })
		fn(&l)
		return nil
	})
}

// afterRetirement takes back what was installed, once, and forgets the config.
func (d *Device) afterRetirement(ctx context.Context) error {
	o, err := d.State.Overview()
	if err != nil || o.Retired == nil {
		return err
	}
	var k kept
	if err := d.State.Load(keptName, &k); err != nil || k.Retired == o.Retired.DeviceID {
		return err
	}
	if d.Retired != nil {
		if err := d.Retired(ctx, *o.Retired); err != nil {
			return err
		}
	}
	d.setCurrent(nil)
	return d.State.Update(keptName, &k, func() error {
		k = kept{Root: k.Root, Group: k.Group, Highest: k.Highest, Overrides: k.Overrides, Retired: o.Retired.DeviceID}
		return nil
	})
}
