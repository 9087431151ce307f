package enroll

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/pinta-ai/pinta-agent/enroll/enrolltest"
	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// killed is what a process dies of in these tests.
type killed struct{ at string }

// fate counts the points at which a kill, or the loss of a message, makes a
// difference: each step of the state file, each step of safefile, each request
// before it is sent and after its answer was made.
type fate struct {
	kill  int // the process dies at this point; below 0: never
	lose  int // this exchange fails: even before the Manager saw it, odd after
	point int
	sent  int
	seen  []string
}

func (f *fate) at(what string) {
	f.seen = append(f.seen, what)
	f.point++
	if f.point-1 == f.kill {
		panic(killed{what})
	}
}

// Before makes safefile's steps points as well.
func (f *fate) Before(op safefile.Op, _ string, data []byte) (int, error) {
	f.at("file " + string(op))
	return len(data), nil
}

// world is one machine, one Manager, and what happens to both.
type world struct {
	m     *enrolltest.Manager
	dir   string
	state *State
	fate  *fate
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	n := w.fate.sent
	w.fate.sent++
	w.fate.at("send " + r.URL.Path)
	if n*2 == w.fate.lose {
		return nil, errors.New("connection refused")
	}
	res, err := w.m.RoundTrip(r)
	w.fate.at("answered " + r.URL.Path)
	if n*2+1 == w.fate.lose {
		return nil, errors.New("connection reset")
	}
	return res, err
}

// run does one thing in a process of its own, which may be killed in it.
func (w *world) run(t *rapid.T, f *fate, do func(*State)) (died bool) {
	w.fate = f
	defer safefile.Inject(f)()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case killed:
			died = true
		default:
			panic(p)
		}
	}()
	s, err := Open(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	s.store.step = f.at
	w.state = s
	do(s)
	return false
}

var never = func() *fate { return &fate{kill: -1, lose: -1} }

func (w *world) enrol(s *State, tok token.Token) (Identity, error) {
	o := Options{State: s, Via: w, Log: slog.New(slog.DiscardHandler)}
	return o.attempt(context.Background(), tok, person)
}

func (w *world) client(s *State) *Client {
	c := NewClient(s, settings.Network{}, slog.New(slog.DiscardHandler))
	c.Via = w
	return c
}

func (w *world) call(s *State) error {
	a, err := w.client(s).API()
	if err != nil {
		return err
	}
	return api.Done(a.ReportDevice(context.Background(), api.Report{State: api.ConfigStateApplied}))
}

// Whatever is done, wherever it is killed or loses a message: the machine has
// one identity that works, or none; a one-time token is used by one device at
// most; and the same token given again ends in exactly one enrolment.
func TestModelKilledAnywhere(t *testing.T) {
	base := t.TempDir()
	n := 0
	points := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		n++
		w := &world{m: enrolltest.Offline(t, "https://manager.example.com"), dir: fmt.Sprintf("%s/%d", base, n)}
		defer os.RemoveAll(w.dir)
		var tokens []token.Token
		tok := func() token.Token { return tokens[len(tokens)-1] }
		tokens = append(tokens, w.m.Token(t, 1))
		retired := map[string]bool{}

		steps := rapid.IntRange(1, 6).Draw(t, "steps")
		for range steps {
			f := &fate{kill: rapid.IntRange(-1, 30).Draw(t, "kill"), lose: rapid.IntRange(-1, 9).Draw(t, "lose")}
			what := rapid.SampledFrom([]string{"enrol", "enrol", "new token", "rotate", "rotate", "call", "retire", "ask"}).Draw(t, "what")
			w.run(t, f, func(s *State) {
				switch what {
				case "enrol":
					_, _ = w.enrol(s, tok())
				case "new token":
					tokens = append(tokens, w.m.Token(t, 1))
					_, _ = w.enrol(s, tok())
				case "rotate":
					_ = w.client(s).RotateKey(context.Background())
				case "call":
					_ = w.call(s)
				case "retire":
					if id, err := s.Identity(); err == nil {
						w.m.Devices[id.DeviceID].Retired = true
						retired[id.DeviceID] = true
						_ = w.call(s)
					}
				case "ask":
					_ = s.AskReenrol(api.EnrolReasonClone)
				}
			})
			for _, p := range f.seen {
				points[p] = true
			}
			w.check(t, tokens, retired)
		}

		// And now without faults.
		end := w.m.Token(t, 1)
		w.run(t, &fate{kill: rapid.IntRange(0, 30).Draw(t, "last kill"), lose: -1}, func(s *State) { _, _ = w.enrol(s, end) })
		w.run(t, never(), func(s *State) {
			r, err := w.enrol(s, end)
			if err != nil {
				t.Fatalf("the last enrolment: %v", err)
			}
			if len(w.m.Tokens[end.ID].Devices) != 1 || w.m.Devices[r.DeviceID] == nil {
				t.Fatalf("enrolled as %s, the Manager has %v", r.DeviceID, w.m.Tokens[end.ID].Devices)
			}
			if err := w.call(s); err != nil {
				t.Fatal(err)
			}
		})
	})
	for _, p := range []string{"begin", "commit", "committed", "created", "in place", "send /api/v1/enroll", "answered /api/v1/enroll", "send /api/v1/device/key"} {
		if !points[p] {
			t.Errorf("no run ever came past %q", p)
		}
	}
}

// check is the invariant after each process.
func (w *world) check(t *rapid.T, tokens []token.Token, retired map[string]bool) {
	for _, tok := range tokens {
		if n := len(w.m.Tokens[tok.ID].Devices); n > 1 {
			t.Fatalf("one token, %d devices", n)
		}
	}
	w.run(t, never(), func(s *State) {
		id, err := s.Identity()
		if errors.Is(err, ErrNotEnrolled) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if w.m.Devices[id.DeviceID] == nil {
			t.Fatalf("an identity that the Manager never gave: %s", id.DeviceID)
		}
		err = w.call(s)
		switch {
		case retired[id.DeviceID]:
			if _, err := s.Identity(); !errors.Is(err, ErrNotEnrolled) {
				t.Fatalf("retired, but %v", err)
			}
		case err != nil:
			t.Fatalf("the identity doesn't work: %v", err)
		}
	})
}
