//go:build unix

package daemon

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/queue"
	"github.com/pinta-ai/pinta-agent/internal/local"
	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

// TestDrain: what hooks had to queue in a user's two homes goes to the relay in
// order; what the relay can't take now stays, what it never takes goes.
func TestDrain(t *testing.T) {
	dir, err := os.MkdirTemp("", "drain") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := serve.Listen(socket, serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	status := func(string) int { return http.StatusOK }
	server := &http.Server{ConnContext: serve.ConnContext, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if p, ok := serve.PeerFrom(r.Context()); !ok || p.UID != os.Geteuid() || r.URL.Path != "/v1/traces" {
			t.Errorf("%s by %+v", r.URL, p)
		}
		code := status(string(body))
		if code == http.StatusOK {
			for n := range 9 {
				if strings.Contains(string(body), fmt.Sprintf(`"span-%d"`, n)) {
					got = append(got, fmt.Sprint(n))
				}
			}
		}
		w.WriteHeader(code)
	})}
	go server.Serve(l)
	defer server.Close()
	homes := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "none")}
	fill := func(home string, numbers ...int) {
		t.Helper()
		for _, n := range numbers {
			body := fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"span-%d"}]}]}]}`, n)
			if _, err := queue.Append(home, []byte(body), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	request := drainRequest{Dirs: homes, URL: local.URL(socket, "/v1/traces")}
	fill(homes[0], 1, 2)
	fill(homes[1], 3)

	status = func(string) int { return http.StatusServiceUnavailable }
	if a := drainHere(request); a.Sent != 0 || a.Error == "" {
		t.Errorf("while the relay can't: %+v", a)
	}
	status = func(string) int { return http.StatusOK }
	if a := drainHere(request); a.Sent != 3 || a.Error != "" || !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("%+v, delivered %q", a, got)
	}
	if a := drainHere(request); a != (drained{}) || len(got) != 3 {
		t.Errorf("an empty queue: %+v, delivered %q", a, got)
	}
	fill(homes[0], 4)
	status = func(string) int { return http.StatusBadRequest }
	drainHere(request)
	status = func(string) int { return http.StatusOK }
	if a := drainHere(request); a.Sent != 0 {
		t.Errorf("what was refused was sent again: %+v", a)
	}
	if a := drainHere(drainRequest{Dirs: homes, URL: "https://collector.example.com/v1/traces"}); a.Error == "" {
		t.Error("a queue may go to the agent's own socket only")
	}
}
