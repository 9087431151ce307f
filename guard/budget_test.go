package guard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestShareOfBudget: an engine that gets to no verdict answers after exactly
// 80 % of the hook's budget, or of the config's where the hook names none.
func TestShareOfBudget(t *testing.T) {
	for budget, want := range map[time.Duration]time.Duration{
		200 * time.Millisecond: 160 * time.Millisecond, 0: 400 * time.Millisecond, 8 * time.Second: 6400 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			e := loaded(t, examplePolicy, Options{})
			for range cap(e.slots) { // all busy
				e.slots <- struct{}{}
			}
			ev, err := EventFromPayload([]byte(payload(t, "Bash", map[string]any{"command": "rm -rf /srv"}, nil)), "")
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			a := e.Evaluate(t.Context(), ev, budget)
			if took := time.Since(start); took != want || a.Decision != "ALLOW" || a.FailOpenReason != "timeout" {
				t.Errorf("budget %v: %+v after %v, want %v", budget, a, took, want)
			}
		})
	}
}

// TestAnswersWhileLoading: a config that is being loaded, however long that
// takes, is waited for by nobody.
func TestAnswersWhileLoading(t *testing.T) {
	e := loaded(t, examplePolicy, Options{})
	e.loading.Lock()
	defer e.loading.Unlock()
	if a := ask(t, e, payload(t, "Bash", map[string]any{"command": "rm -rf /srv"}, nil)); a["decision"] != "DENY" {
		t.Errorf("got %v", a)
	}
}

// TestADayAlone: with nobody to ask, every case of the built-in rules gets the
// same verdict a day later, and a year.
func TestADayAlone(t *testing.T) {
	a, err := ParsePolicy("builtin", "builtin:protection")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := a.GuardJSON()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := NewEngine(Options{Clock: func() time.Time { return now }})
	if err := e.Load(raw, 1, "g"); err != nil {
		t.Fatal(err)
	}
	first := map[string]string{}
	for _, later := range []time.Duration{0, 25 * time.Hour, 365 * 24 * time.Hour} {
		now = now.Add(later)
		for _, f := range a.Fixtures {
			ev, err := EventFromPayload(f.Event, "")
			if err != nil {
				t.Fatal(err)
			}
			ev.User = f.User
			out := e.current.Load().judge(t.Context(), ev) // a deadline would be the machine's, not this clock's
			if got := id(out); later == 0 {
				first[f.Where] = got
			} else if got != first[f.Where] {
				t.Errorf("%s %s: %q, at first %q", f.Where, f.Name, got, first[f.Where])
			}
		}
	}
	if e.Status().Version != 1 {
		t.Error("the config is no longer in force")
	}
}

// TestRemoteAlways: with when: always the second tier is asked about what is
// allowed, too; one that doesn't answer costs no more than its share of the
// budget and leaves the local answer.
func TestRemoteAlways(t *testing.T) {
	var asked atomic.Int64
	var slow sync.RWMutex // held while the tier hangs
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked.Add(1)
		slow.RLock()
		defer slow.RUnlock()
		_, _ = io.WriteString(w, `{"decision":"DENY","reason":"remote_rule"}`)
	}))
	defer server.Close()
	e := loaded(t, examplePolicy+"remote: {endpoint: "+server.URL+", timeoutMs: 200, when: always}\n", Options{HTTP: server.Client()})
	list := payload(t, "Bash", map[string]any{"command": "ls"}, nil)
	if a := ask(t, e, list); a["decision"] != "DENY" || a["reason"] != "remote_rule" || a["evaluationId"] == nil {
		t.Errorf("got %v", a)
	}
	if a := ask(t, e, payload(t, "Bash", map[string]any{"command": "rm -rf /srv"}, nil)); a["reason"] != "deny_resource_destruction" || asked.Load() != 1 {
		t.Errorf("a local denial was asked about: %v", a)
	}
	slow.Lock()
	start := time.Now()
	a := ask(t, e, list)
	took := time.Since(start)
	slow.Unlock()
	if a["decision"] != "ALLOW" || a["failOpenReason"] != nil || took > 5*time.Second {
		t.Errorf("got %v after %v", a, took)
	}
}
