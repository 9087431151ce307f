package enroll

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinta-ai/pinta-agent/enroll/enrolltest"
	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// serving is the service's enrolment in a bubble of time.
type serving struct {
	*bench
	m       *enrolltest.Manager
	l       settings.Layout
	changed []string
}

func serve(t *testing.T, test func(t *testing.T, s *serving)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &serving{bench: newBench(t), m: enrolltest.Offline(t, "https://manager.example.com"), l: place(t)})
	})
}

// during lets the service run for a time and ends it; each call is a new
// process.
func (s *serving) during(d time.Duration, then ...func()) {
	s.restart()
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	o := Options{State: s.state, Routes: Routes{Layout: s.l}, Via: s.m, Log: s.logger()}
	go func() {
		defer close(done)
		Serve(ctx, o, func(id Identity) { s.changed = append(s.changed, id.DeviceID) })
	}()
	time.Sleep(d)
	for _, f := range then {
		f()
	}
	cancel()
	<-done
}

func (s *serving) deliver(tok token.Token) { put(s.t, s.l.TokenFile, tok.Reveal()+"\n", 0o600) }

func (s *serving) asked() int { return len(s.m.Requests()) }

func TestServiceEnrolsWhenATokenArrives(t *testing.T) {
	serve(t, func(t *testing.T, s *serving) {
		s.during(time.Minute, func() {
			s.deliver(s.m.Token(t, 1))
			time.Sleep(look + time.Second)
		})
		if len(s.changed) != 1 || s.identity().Reason != api.EnrolReasonFirst {
			t.Errorf("%v", s.changed)
		}
		if _, err := os.Stat(s.l.TokenFile); err == nil {
			t.Error("the token is still there")
		}
		n := s.asked()
		s.during(2 * time.Hour)
		if s.asked() != n {
			t.Error("it enrols again and again")
		}
	})
}

func TestServiceTriesARefusedTokenSlowlyAndAnotherAtOnce(t *testing.T) {
	serve(t, func(t *testing.T, s *serving) {
		bad := s.m.Token(t, 1)
		s.m.Tokens[bad.ID].Refuse = api.ProblemCodeTokenExpired
		s.deliver(bad)
		s.during(6*time.Hour, func() {
			if n := s.asked(); n < 24 || n > 120 {
				t.Errorf("%d tries in six hours", n)
			}
			o, err := s.state.Overview()
			if err != nil || o.Attempt.Code != "token_expired" || !strings.Contains(o.Attempt.Message, "token create") || o.Attempt.NotBefore.IsZero() {
				t.Errorf("not visible: %+v %v", o, err)
			}
			s.deliver(s.m.Token(t, 1))
			time.Sleep(look + time.Second)
			s.identity()
		})
		if n := strings.Count(s.log.String(), "enrolment waits"); n > 3 {
			t.Errorf("%d warnings about one thing", n)
		}
	})
}

func TestServiceBackoffOutlivesRestarts(t *testing.T) {
	serve(t, func(t *testing.T, s *serving) {
		s.m.Down = true
		s.deliver(s.m.Token(t, 1))
		s.during(2 * time.Hour) // the pauses are long by now
		n := s.asked()
		for range 60 {
			s.during(10 * time.Second) // a service that dies and is started again
		}
		if more := s.asked() - n; more > 8 {
			t.Errorf("%d tries in ten minutes of restarts", more)
		}
		s.m.Down = false
		s.during(20 * time.Minute)
		s.identity()
	})
}

func TestServiceHonoursThePauseThatTheManagerAsksFor(t *testing.T) {
	serve(t, func(t *testing.T, s *serving) {
		s.m.Before = func(w http.ResponseWriter, _ *http.Request) bool {
			api.NewProblem(api.ProblemCodeBusy, "").After(time.Hour).Write(w)
			return true
		}
		s.deliver(s.m.Token(t, 1))
		for range 10 { // a restart is no way around it
			s.during(5 * time.Minute)
		}
		if s.asked() != 1 {
			t.Errorf("asked %d times within an hour", s.asked())
		}
	})
}

func TestServiceSurvivesAClockThatIsSetBack(t *testing.T) {
	serve(t, func(t *testing.T, s *serving) {
		tok := s.m.Token(t, 1)
		s.deliver(tok)
		if err := s.state.change(func(r *record) error {
			later := time.Now().Add(10 * 365 * 24 * time.Hour)
			r.Attempt = Attempt{TokenID: tok.ID, Failures: 3, At: later, NotBefore: later.Add(time.Minute)}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		s.during(time.Minute)
		s.identity()
	})
}

func TestServiceScrubsWhatAKillLeftBehind(t *testing.T) {
	serve(t, func(t *testing.T, s *serving) {
		tok := s.m.Token(t, 1)
		s.deliver(tok)
		s.during(time.Second)
		s.deliver(tok) // as if the process had died between commit and scrubbing
		n := s.asked()
		s.during(time.Minute)
		if _, err := os.Stat(s.l.TokenFile); err == nil || s.asked() != n {
			t.Errorf("the token is still there (%v), or it enrolled again", err)
		}
	})
}

func TestServiceDoesNotFightAToolThatPutsTheTokenBack(t *testing.T) {
	serve(t, func(t *testing.T, s *serving) {
		tok := s.m.Token(t, 0)
		s.deliver(tok)
		s.during(time.Second, func() {
			first := s.identity().DeviceID
			s.deliver(tok)
			time.Sleep(time.Hour)
			if s.identity().DeviceID != first {
				t.Error("it enrolled again")
			}
			if _, err := os.Stat(s.l.TokenFile); err != nil {
				t.Error("it keeps removing what is put back")
			}
		})
	})
}

func TestServiceEnrolsAnewWhenAskedTo(t *testing.T) {
	serve(t, func(t *testing.T, s *serving) {
		tok := s.m.Token(t, 0)
		s.deliver(tok)
		s.during(time.Second)
		first := s.identity().DeviceID
		if err := s.state.AskReenrol(api.EnrolReasonClone); err != nil {
			t.Fatal(err)
		}
		s.during(time.Minute) // no token: it waits, and keeps what it has
		if s.identity().DeviceID != first || !strings.Contains(s.log.String(), "no enrolment token") {
			t.Error("not visible, or the identity is gone")
		}
		s.deliver(tok)
		s.during(time.Minute)
		if id := s.identity(); id.DeviceID == first || id.Reason != api.EnrolReasonClone {
			t.Errorf("%+v", id)
		}
	})
}

func TestServiceTakesAChangedToken(t *testing.T) {
	serve(t, func(t *testing.T, s *serving) {
		s.deliver(s.m.Token(t, 1))
		s.during(time.Second)
		s.deliver(s.m.Token(t, 1))
		s.during(time.Second)
		if id := s.identity(); id.Reason != api.EnrolReasonTokenChanged {
			t.Errorf("%+v", id)
		}
	})
}

func TestServiceDoesNotBringARetiredDeviceBackByItsOldToken(t *testing.T) {
	serve(t, func(t *testing.T, s *serving) {
		tok := s.m.Token(t, 0)
		s.deliver(tok)
		s.during(time.Second)
		if err := s.state.Unenroll("administrator"); err != nil {
			t.Fatal(err)
		}
		s.deliver(tok)
		s.during(time.Hour)
		if _, err := s.state.Identity(); !errors.Is(err, ErrNotEnrolled) {
			t.Errorf("%v", err)
		}
		s.deliver(s.m.Token(t, 1))
		s.during(time.Minute)
		s.identity()
	})
}

func TestServiceLeavesAnEnrolmentAloneWhereASourceIsGarbage(t *testing.T) {
	serve(t, func(t *testing.T, s *serving) {
		s.deliver(s.m.Token(t, 1))
		s.during(time.Second)
		id := s.identity().DeviceID
		put(t, s.l.TokenFile, "%TOKEN%", 0o600)
		s.during(time.Hour)
		o, err := s.state.Overview()
		if err != nil || o.Identity == nil || o.Identity.DeviceID != id || o.Attempt.Code != "source" || !strings.Contains(o.Attempt.Message, "placeholder") {
			t.Errorf("%+v %v", o, err)
		}
	})
}

func TestBackoffIsFullJitter(t *testing.T) {
	b := Backoff{Base: time.Second, Max: time.Minute}
	for n, window := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 7: time.Minute, 1000: time.Minute} {
		low, high := window, time.Duration(0)
		for range 2000 {
			d := b.Delay(n, 0)
			if d < 0 || d >= window {
				t.Fatalf("failure %d: %s is outside of %s", n, d, window)
			}
			low, high = min(low, d), max(high, d)
		}
		if low > window/20 || high < window*19/20 {
			t.Errorf("failure %d: %s to %s is not all of %s", n, low, high, window)
		}
		if d := b.Delay(n, time.Hour); d < time.Hour || d > time.Hour+window {
			t.Errorf("failure %d: %s although an hour was asked for", n, d)
		}
	}
}
