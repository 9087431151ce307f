package manager

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// show is a device as administrators see it; whole adds the last report.
func (s adminSurface) show(tx store.Tx, d *deviceRecord, whole bool) (api.Device, error) {
	rec, err := orZero(reports.Get(tx, d.DeviceID))
	if err != nil {
		return api.Device{}, err
	}
	rec = s.seen.merge(d.DeviceID, rec)
	out, rep := d.Device, rec.Report
	out.LastSeen, out.ConfigVersion, out.ConfigState, out.ConfigReason, out.Stale = rec.LastSeen, rep.ConfigVersion, rep.State, rep.Reason, rep.Stale
	set(&rep.Agent.Version, out.AgentVersion)
	out.AgentVersion = rep.Agent.Version
	out.Enforced = enforced(rep)
	if !whole {
		return out, nil
	}
	if rep.State != "" {
		out.Report = rep
	}
	now := s.opt.Now()
	for _, o := range d.Orders {
		if o.State == api.ActionStateStatePending && !now.Before(o.ExpiresAt) {
			o.State = api.ActionStateStateExpired
		}
		out.Actions = append(out.Actions, o.ActionState)
	}
	if d.MachineHint == "" {
		return out, nil
	}
	for o, err := range devices.Scan(tx, store.Range{Before: d.DeviceID}) {
		if err != nil {
			return out, err
		}
		if o.MachineHint == d.MachineHint && o.State != api.DeviceStateRetired {
			out.Replaces = append(out.Replaces, o.DeviceID)
		}
	}
	return out, nil
}

// enforced: a config is applied, and of every user who has the hook a real event was seen.
func enforced(r api.Report) bool {
	if r.State != api.ConfigStateApplied || r.ConfigVersion == 0 || len(r.Users) == 0 {
		return false
	}
	return !slices.ContainsFunc(r.Users, func(u api.ReportUser) bool {
		return u.LastEvent.IsZero() || u.Hook != api.ReportUserHookOk && u.Hook != api.ReportUserHookRepaired
	})
}

func (s adminSurface) ListDevices(w http.ResponseWriter, r *http.Request, c adminCaller, params api.ListDevicesParams) {
	limit := params.Limit
	set(&limit, 100)
	p := api.DevicePage{Devices: []api.Device{}}
	err := s.view(r.Context(), func(tx store.Tx) error {
		for d, err := range devices.Scan(tx, store.Range{After: params.After}) {
			if err != nil {
				return err
			}
			if !c.scope.sees(d.Group) || params.Group != "" && d.Group != params.Group {
				continue
			}
			if len(p.Devices) == limit {
				p.Next = p.Devices[limit-1].DeviceID
				break
			}
			out, err := s.show(tx, &d, false)
			if err != nil {
				return err
			}
			p.Devices = append(p.Devices, out)
		}
		return nil
	})
	s.answer(w, r, http.StatusOK, p, err)
}

// getDevice reads a device that the caller sees.
func getDevice(tx store.Tx, c adminCaller, id string) (deviceRecord, error) {
	d, err := devices.Get(tx, id)
	if err == nil && !c.scope.sees(d.Group) {
		err = store.ErrNotFound
	}
	return d, err
}

func (s adminSurface) GetDevice(w http.ResponseWriter, r *http.Request, c adminCaller, id api.ID) {
	var out api.Device
	err := s.view(r.Context(), func(tx store.Tx) error {
		d, err := getDevice(tx, c, id)
		if err != nil {
			return err
		}
		out, err = s.show(tx, &d, true)
		return err
	})
	s.answer(w, r, http.StatusOK, out, err)
}

// edit changes a device, audits it, wakes its poll and answers with it.
func (s adminSurface) edit(w http.ResponseWriter, r *http.Request, c adminCaller, id, action, detail string, fn func(store.Tx, *deviceRecord) error) {
	var out api.Device
	err := s.change(r, c, action, id, detail, func(tx store.Tx) error {
		d, err := getDevice(tx, c, id)
		if err != nil {
			return err
		}
		if err := fn(tx, &d); err != nil {
			return err
		}
		if err := devices.Put(tx, id, d); err != nil {
			return err
		}
		out, err = s.show(tx, &d, true)
		return err
	})
	if err == nil {
		s.hub.poke(id)
	}
	s.answer(w, r, http.StatusOK, out, err)
}

func (s adminSurface) MoveDevice(w http.ResponseWriter, r *http.Request, c adminCaller, id api.ID) {
	in, p := decode[api.DeviceMove](r)
	if p == nil && !c.scope.sees(in.Group) {
		p = api.NewProblem(api.ProblemCodeNotFound, "no such group")
	}
	if p != nil {
		p.Write(w)
		return
	}
	s.edit(w, r, c, id, "device.move", "to group "+in.Group, func(tx store.Tx, d *deviceRecord) error {
		if d.State == api.DeviceStateRetired {
			return api.NewProblem(api.ProblemCodeConflict, "the device is retired")
		}
		if d.Group != in.Group {
			// The device takes later moves only, and this clock may have been set back.
			d.Group, d.MovedAt = in.Group, later(s.opt.Now().UTC(), d.MovedAt)
		}
		return groupIsThere(tx, in.Group)
	})
}

// later is now, or just after before if that isn't earlier.
func later(now, before time.Time) time.Time {
	if now.After(before) {
		return now
	}
	return before.Add(time.Nanosecond)
}

// RetireDevice ends a device, which is answered with a signed retirement from now on. Retiring again changes nothing.
func (s adminSurface) RetireDevice(w http.ResponseWriter, r *http.Request, c adminCaller, id api.ID) {
	s.edit(w, r, c, id, "device.retire", "", func(tx store.Tx, d *deviceRecord) error {
		if d.State == api.DeviceStateRetired {
			return nil
		}
		d.State, d.RetiredAt, d.Retirement = api.DeviceStateRetired, s.opt.Now().UTC(), s.ids.next()
		return nil
	})
}

const (
	orderLife  = 24 * time.Hour
	keepOrders = 50
	maxPending = 20
)

var actionKinds = []api.ActionKind{api.ActionKindResync, api.ActionKindRepair, api.ActionKindDiagnostics, api.ActionKindRotateKey, api.ActionKindLogLevel, api.ActionKindUnenroll}

var logLevels = []api.LogLevel{api.LogLevelDebug, api.LogLevelInfo, api.LogLevelWarn, api.LogLevelError}

// OrderAction signs an action for one device.
func (s adminSurface) OrderAction(w http.ResponseWriter, r *http.Request, c adminCaller, id api.ID) {
	in, p := decode[api.ActionOrder](r)
	switch {
	case p != nil:
	case !slices.Contains(actionKinds, in.Kind):
		p = api.NewProblem(api.ProblemCodeMalformed, "field kind has to be resync, repair, diagnostics, rotate-key, log-level or unenroll")
	case (in.Kind == api.ActionKindLogLevel) != slices.Contains(logLevels, in.LogLevel):
		p = api.NewProblem(api.ProblemCodeMalformed, "field logLevel (debug, info, warn, error) goes with kind log-level, and with that only")
	case in.TTLSeconds < 0 || in.TTLSeconds > 604800:
		p = api.NewProblem(api.ProblemCodeMalformed, "field ttlSeconds is 7 days at most")
	}
	if p != nil {
		p.Write(w)
		return
	}
	life := time.Duration(in.TTLSeconds) * time.Second
	set(&life, orderLife)
	now := s.opt.Now().UTC()
	o := orderRecord{ActionState: api.ActionState{ID: s.ids.next(), Kind: in.Kind, State: api.ActionStateStatePending, OrderedAt: now, OrderedBy: c.key.Name,
		ExpiresAt: now.Add(life)}}
	var err error
	o.JWS, err = s.keys.sign(&api.Action{Schema: api.Schema, ID: o.ID, DeviceID: id, Aud: s.audience, Kind: in.Kind, LogLevel: in.LogLevel, IssuedAt: now, ExpiresAt: o.ExpiresAt})
	if err == nil {
		err = s.change(r, c, "action.order", id, string(in.Kind)+" "+o.ID, func(tx store.Tx) error {
			d, err := getDevice(tx, c, id)
			if err != nil {
				return err
			}
			if d.State == api.DeviceStateRetired {
				return api.NewProblem(api.ProblemCodeConflict, "the device is retired")
			}
			d.Orders = append(d.Orders, o)
			return errors.Join(d.trimOrders(now), devices.Put(tx, id, d))
		})
	}
	s.answer(w, r, http.StatusCreated, o.ActionState, err)
}

// trimOrders keeps the last orders and bounds those that wait.
func (d *deviceRecord) trimOrders(now time.Time) error {
	pending := 0
	for _, o := range d.Orders {
		if o.State == api.ActionStateStatePending && now.Before(o.ExpiresAt) {
			pending++
		}
	}
	if pending > maxPending {
		return api.NewProblem(api.ProblemCodeConflict, "the device has too many actions to do already")
	}
	d.Orders = slices.Clone(d.Orders[max(0, len(d.Orders)-keepOrders):])
	return nil
}
