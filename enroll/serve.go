package enroll

import (
	"context"
	"errors"
	"time"
)

// look is how often the service looks at the token's sources: a changed one is
// tried at once.
const look = 5 * time.Second

// Serve enrols in the background for as long as ctx lives: when a token is
// delivered, when another one is, when the Manager asks for it. changed is
// called after each new identity. What went wrong is kept in the state
// (Overview) and logged when it changes.
func Serve(ctx context.Context, o Options, changed func(Identity)) {
	v := server{Options: o, scrubbed: map[string]bool{}}
	v.Routes = v.Routes.prepared()
	said := ""
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		id, done, err := v.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			o.Log.Warn("enrolment waits", "cause", err)
		}
		if done {
			said = ""
			changed(id)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

type server struct {
	Options
	// scrubbed are the tokens whose sources this process has cleaned: a tool
	// that puts them back every half hour is not fought.
	scrubbed map[string]bool
}

// once looks at the sources once and enrols if it is time.
func (v *server) once(ctx context.Context) (id Identity, done bool, err error) {
	r, err := v.State.load()
	if err != nil && !errors.Is(err, ErrDamaged) {
		return id, false, err
	}
	d, err := v.Routes.Read()
	if errors.Is(err, ErrNoToken) {
		if r.Identity != nil && r.Reenrol == "" {
			err = nil
		}
		return id, false, err
	}
	if err != nil {
		v.noteSource(&r, err)
		return id, false, err
	}
	now := v.State.Clock.Now()
	w, err := r.next(d.Token, service, now)
	switch {
	case err != nil:
		return id, false, err
	case !w.enrol:
		// A kill between commit and scrubbing leaves a used token behind.
		v.scrub(d)
		return id, false, nil
	case w.before.After(now):
		return id, false, nil
	}
	if id, err = v.attempt(ctx, d.Token, service); err != nil {
		return id, false, err
	}
	v.scrub(d)
	return id, true, nil
}

func (v *server) scrub(d Delivery) {
	if !v.scrubbed[d.Token.ID] {
		v.scrubbed[d.Token.ID] = true
		d.scrub(v.Log)
	}
}

// noteSource makes a source that can't be used visible in the state.
func (v *server) noteSource(r *record, cause error) {
	if r.Attempt.Message == cause.Error() {
		return
	}
	err := v.State.change(func(r *record) error {
		r.Attempt = Attempt{At: v.State.Clock.Now(), Code: "source", Message: cause.Error()}
		return nil
	})
	if err != nil {
		v.Log.Warn("the state of the enrolment can't be kept", "error", err)
	}
}
