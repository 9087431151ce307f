package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestEventsStayApart: judged at the same time, with memory used again and
// configs swapped meanwhile, no event's text shows in another's answer, record
// or redactions.
func TestEventsStayApart(t *testing.T) {
	const policy = `
rules:
  - {id: RULE, on: tool_input, when: "commands.exists(c, c.name == 'rm' && c.targets.exists(p, p.startsWith('/srv')))", action: deny, message: No.}
  - {id: mask, on: tool_output, detect: [secrets], action: mask, message: Hidden.}
`
	var mu sync.Mutex
	records := map[string]Verdict{} // by session
	e := loaded(t, strings.ReplaceAll(policy, "RULE", "first"), Options{OnVerdict: func(v Verdict) {
		mu.Lock()
		defer mu.Unlock()
		records[v.Session] = v
	}})
	var done sync.WaitGroup
	for worker := range 6 {
		done.Go(func() {
			for i := range 60 {
				id := fmt.Sprintf("w%dx%d", worker, i)
				secret := "ghp_" + strings.Repeat("aB3dE6", 5) + fmt.Sprintf("%03d%03d", worker, i)
				input, output := map[string]any{"command": strings.Repeat("touch /tmp/"+id+" && ", i*7) + "rm -rf /srv/" + id}, any(nil)
				if i%2 == 0 {
					input, output = map[string]any{"command": "cat " + id}, strings.Repeat(id+"\n", i*50)+secret
				}
				p := strings.Replace(payload(t, "Bash", input, output), `"session_id":"s"`, `"session_id":"`+id+`"`, 1)
				r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(question(t, p)))
				r.Header.Set("X-Pinta-Guard-Budget-Ms", "8000")
				w := httptest.NewRecorder()
				e.Handler().ServeHTTP(w, r)
				var a struct {
					Decision, Reason, EvaluationID string
					Redactions                     []Redaction
				}
				if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Decision != "DENY" {
					t.Errorf("%s: %s", id, w.Body)
					return
				}
				mu.Lock()
				v := records[id]
				mu.Unlock()
				if why, ok := e.Why(a.EvaluationID); !ok || why.Session != id || v.EvaluationID != a.EvaluationID || v.Rule != a.Reason {
					t.Errorf("%s: %+v, why %+v", id, v, why)
				}
				if i%2 == 0 {
					if len(a.Redactions) != 1 || a.Redactions[0].Value != secret {
						t.Errorf("%s: %+v", id, a.Redactions)
					}
				} else if !strings.Contains(v.Excerpt, id) && i < 5 {
					t.Errorf("%s: excerpt %q", id, v.Excerpt)
				}
				for _, word := range strings.FieldsFunc(v.Excerpt, func(r rune) bool { return strings.ContainsRune(" /\n…&", r) }) {
					if strings.HasPrefix(word, "w") && strings.Contains(word, "x") && !strings.HasPrefix(id, word) && word != id {
						t.Errorf("%s: %q in %q", id, word, v.Excerpt)
					}
				}
			}
		})
	}
	for v := range int64(20) {
		raw, err := authored(t, strings.ReplaceAll(policy, "RULE", []string{"first", "second"}[v%2])).GuardJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Load(raw, v+2, "g"); err != nil {
			t.Error(err)
		}
	}
	done.Wait()
}
