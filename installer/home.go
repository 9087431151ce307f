package installer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/pinta-ai/pinta-agent/installer/users"
)

// Homes does work in users' homes, each as its user.
type Homes interface {
	// Do answers a request for one home. An error is a reason to skip it.
	Do(ctx context.Context, a users.Account, r HomeRequest) (HomeAnswer, error)
	// Watch calls changed when something that the request names may have
	// changed, until ctx ends.
	Watch(ctx context.Context, a users.Account, r HomeRequest, changed func()) error
}

// HomeRequest is what a worker is told.
type HomeRequest struct {
	Verb  Verb          `json:"verb"`
	User  users.Account `json:"user"`
	Home  string        `json:"home"` // Copilot home: the anchor if it lies outside of the user's home
	Items []Item        `json:"items,omitempty"`
	Check *Check        `json:"check,omitempty"`
}

// Verb is what a worker shall do.
type Verb string

// The verbs.
const (
	PlanHome   Verb = "plan"   // what apply would do, and what stands there now
	ApplyHome  Verb = "apply"  // make the items hold
	DoctorHome Verb = "doctor" // look for what keeps hooks from working
	WatchHome  Verb = "watch"  // tell about changes
)

// HomeAnswer is what a worker says it did. The parent believes none of it
// beyond showing it: a user can make a worker of his own say anything.
type HomeAnswer struct {
	Steps    []Step            `json:"steps,omitempty"`
	Before   map[string]string `json:"before,omitempty"`
	Findings []Finding         `json:"findings,omitempty"`
	Facts    *Facts            `json:"facts,omitempty"`
	// CopilotHome is where the user's settings set COPILOT_HOME to.
	CopilotHome string `json:"copilotHome,omitempty"`
}

// serveHome does a request in this process.
func serveHome(ctx context.Context, r HomeRequest) (HomeAnswer, error) {
	anchor := r.User.Home
	if rel, err := filepath.Rel(anchor, r.Home); err != nil || !filepath.IsLocal(rel) {
		anchor = r.Home
	}
	return serveOn(ctx, Home(anchor, r.User.UID), r)
}

// serveOn does a request over a system, which the tests replace.
func serveOn(ctx context.Context, sys System, r HomeRequest) (HomeAnswer, error) {
	var ans HomeAnswer
	if _, err := sys.Names(r.User.Home); err != nil && r.Home == filepath.Join(r.User.Home, ".copilot") {
		return ans, fmt.Errorf("home can't be opened: %w", err)
	}
	switch r.Verb {
	case PlanHome, ApplyHome:
		if r.Verb == PlanHome {
			ans.Before = map[string]string{}
			for _, it := range r.Items {
				note(sys, it, ans.Before)
			}
			if main := filepath.Join(r.User.Home, ".copilot"); r.Home == main && r.User.CopilotHome == "" {
				if h := knownCopilotHome(sys, r.User.Home); h != main {
					ans.CopilotHome = h
				}
			}
		}
		e := newEngine(ctx, sys, r.Verb == PlanHome)
		for _, it := range r.Items {
			if s := e.converge(it); s != nil {
				ans.Steps = append(ans.Steps, *s)
			}
		}
		return ans, nil
	case DoctorHome:
		if r.Check == nil {
			return ans, errors.New("nothing to check")
		}
		ans.Findings, ans.Facts = examineHome(ctx, sys, r)
		return ans, nil
	}
	return ans, fmt.Errorf("unknown request %q", r.Verb)
}

// RunWorker is the worker command: it does one request from stdin as the user
// that it runs as. The exit status is for the parent.
func RunWorker(stdin io.Reader, stdout io.Writer) int {
	return users.Serve(stdin, stdout, func(ctx context.Context, request []byte, emit func(any) error) (any, error) {
		var r HomeRequest
		if err := json.Unmarshal(request, &r); err != nil {
			return nil, fmt.Errorf("request can't be read: %w", err)
		}
		if r.Verb == WatchHome {
			return HomeAnswer{}, watchHome(ctx, r, func() {
				_ = emit(changedLine{true}) // the parent is gone: so are we, presently
			})
		}
		return serveHome(ctx, r)
	})
}

type changedLine struct {
	Changed bool `json:"changed"`
}

// RealHomes works in this process where it has no more rights than the
// account, and by workers otherwise.
type RealHomes struct{ Spawner users.Spawner }

// Do implements Homes.
func (h RealHomes) Do(ctx context.Context, a users.Account, r HomeRequest) (HomeAnswer, error) {
	r.User = a
	if a.InProcess() {
		return h.bounded(ctx, func() (HomeAnswer, error) { return serveHome(ctx, r) })
	}
	line, err := h.Spawner.Run(ctx, a, r)
	if err != nil {
		return HomeAnswer{}, err
	}
	return decodeAnswer(line, r)
}

// bounded gives up on a home that hangs; the goroutine ends when the system
// call does.
func (h RealHomes) bounded(ctx context.Context, f func() (HomeAnswer, error)) (HomeAnswer, error) {
	limit := h.Spawner.Limit
	if limit == 0 {
		limit = users.RunLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type result struct {
		a   HomeAnswer
		err error
	}
	done := make(chan result, 1)
	go func() {
		a, err := f()
		done <- result{a, err}
	}()
	select {
	case r := <-done:
		return r.a, r.err
	case <-ctx.Done():
		return HomeAnswer{}, fmt.Errorf("no answer within %s: is the home away? %w", limit, ctx.Err())
	}
}

// Watch implements Homes.
func (h RealHomes) Watch(ctx context.Context, a users.Account, r HomeRequest, changed func()) error {
	r.User, r.Verb = a, WatchHome
	if a.InProcess() {
		return watchHome(ctx, r, changed)
	}
	return h.Spawner.Stream(ctx, a, r, func(line []byte) bool {
		var c changedLine
		if strict(line, &c) == nil && c.Changed {
			changed()
		}
		return true
	})
}

const (
	maxSteps    = 64
	maxFindings = 256
	maxOps      = 64
)

// decodeAnswer reads a worker's answer: strictly, within bounds, and only about
// what was asked.
func decodeAnswer(line []byte, r HomeRequest) (HomeAnswer, error) {
	var a HomeAnswer
	if err := strict(line, &a); err != nil {
		return a, fmt.Errorf("answer of the worker can't be read: %w", err)
	}
	if len(a.Steps) > maxSteps || len(a.Findings) > maxFindings || len(a.Before) > maxSteps {
		return HomeAnswer{}, errors.New("answer of the worker is out of bounds")
	}
	paths := map[string]bool{}
	for _, it := range r.Items {
		for p := it.Path; p != filepath.Dir(p); p = filepath.Dir(p) {
			paths[p] = true
		}
		paths[filepath.Join(filepath.Dir(filepath.Dir(it.Path)), dataDirName)] = true
	}
	for p, v := range a.Before {
		if _, isMode := modeOf(v); !paths[p] || v != "absent" && !isMode {
			return HomeAnswer{}, errors.New("answer of the worker names what wasn't asked")
		}
	}
	for i := range a.Steps {
		s := &a.Steps[i]
		if len(s.Ops) > maxOps || !slices.Contains(Kinds, s.Kind) || !slices.ContainsFunc(r.Items, func(it Item) bool { return it.Object == s.Object && it.Path == s.Path }) {
			return HomeAnswer{}, errors.New("answer of the worker names what wasn't asked")
		}
		s.Detail, s.Error, s.Remedy = users.Clean(s.Detail), users.Clean(s.Error), users.Clean(s.Remedy)
		for j := range s.Ops {
			o := &s.Ops[j]
			o.Verb, o.Path, o.To, o.Perm, o.SHA256 = users.Clean(o.Verb), users.Clean(o.Path), users.Clean(o.To), users.Clean(o.Perm), users.Clean(o.SHA256)
		}
	}
	for i := range a.Findings {
		a.Findings[i].clean()
	}
	if a.Facts != nil {
		a.Facts.clean()
	}
	if h := a.CopilotHome; h != "" && (!filepath.IsAbs(h) || filepath.Clean(h) != h || users.Clean(h) != h) {
		a.CopilotHome = ""
	}
	return a, nil
}
