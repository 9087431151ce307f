package guard

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

// TestSlowQuestionsOfOneUser: whoever fills his share of the memory with large
// bodies that don't end keeps nobody else from an answer; his own large
// questions are overruns meanwhile, and small ones are answered.
func TestSlowQuestionsOfOneUser(t *testing.T) {
	for onOverrun, want := range map[string]string{"allow": "ALLOW", "deny": "DENY"} {
		t.Run(onOverrun, func(t *testing.T) {
			verdicts := make(chan Verdict, 100)
			e := loaded(t, "onOverrun: "+onOverrun+"\nrules: []\n", Options{OnVerdict: func(v Verdict) { verdicts <- v }})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				e.Handler().ServeHTTP(w, r.WithContext(serve.WithPeer(r.Context(), serve.Peer{UID: -1, User: r.Header.Get("User")})))
			}))
			defer server.Close()
			ask := func(user string, padding int, budget string) string {
				body := string(question(t, payload(t, "Bash", map[string]any{"command": "ls"}, nil))) + strings.Repeat(" ", padding)
				r, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("User", user)
				r.Header.Set("X-Pinta-Guard-Budget-Ms", budget)
				res, err := server.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				text, _ := io.ReadAll(res.Body)
				return string(text)
			}
			for range userRoomBytes / MaxQuestion {
				c, err := net.Dial("tcp", server.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nUser: mallory\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", MaxQuestion)
				if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
					t.Fatalf("%q %v", line, err)
				}
			}
			if got := ask("mallory", smallQuestion, "300"); !strings.Contains(got, `"decision":"`+want+`"`) || !strings.Contains(got, "overrun") && !strings.Contains(got, "timeout") {
				t.Errorf("a large one of the same user: %s", got)
			}
			if v := <-verdicts; !v.Overrun || v.Decision != want {
				t.Errorf("recorded %+v", v)
			}
			for _, c := range []struct {
				user    string
				padding int
			}{{"mallory", 0}, {"dev", 0}, {"dev", 4 << 20}} {
				if got := ask(c.user, c.padding, "8000"); !strings.Contains(got, `"decision":"ALLOW"`) || strings.Contains(got, "timeout") {
					t.Errorf("%+v: %s", c, got)
				}
			}
		})
	}
}

// TestRoomIsGivenBack: users are forgotten with their last request.
func TestRoomIsGivenBack(t *testing.T) {
	r := newRoom()
	now, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	give, ok := r.take(t.Context(), "a", userRoomBytes)
	if !ok {
		t.Fatal("no room at first")
	}
	if _, ok := r.take(now, "a", 1); ok {
		t.Error("a user has more than his share")
	}
	other, ok := r.take(t.Context(), "b", userRoomBytes)
	if !ok {
		t.Fatal("no room for another")
	}
	give()
	other()
	if len(r.users) != 0 {
		t.Errorf("%d users are left", len(r.users))
	}
	if give, ok = r.take(t.Context(), "", roomBytes); !ok {
		t.Fatal("not all is given back")
	}
	give()
}
