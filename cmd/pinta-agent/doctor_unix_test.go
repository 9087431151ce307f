//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/daemon"
	"github.com/pinta-ai/pinta-agent/installer"
	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

// TestDoctorOfTheService: each thing that a running service says of itself has
// its finding, with a remedy.
func TestDoctorOfTheService(t *testing.T) {
	healthy := func() daemon.Status { return daemon.Status{Serving: true, Unprivileged: true} }
	for name, test := range map[string]struct {
		managed bool
		answer  func() any // nil: no service, an error: that is what it says
		want    []string
	}{
		"healthy":                 {true, func() any { return healthy() }, nil},
		"none, without a Manager": {false, nil, nil},
		"none":                    {true, nil, []string{"agent.not-running"}},
		"an answer that is none":  {true, func() any { return "?" }, []string{"agent.no-answer"}},
		"endpoint down":           {true, func() any { s := healthy(); s.Serving = false; return s }, []string{"endpoint.down"}},
		"endpoint privileged":     {true, func() any { s := healthy(); s.Unprivileged = false; return s }, []string{"endpoint.privileged"}},
		"config refused":          {true, func() any { s := healthy(); s.Endpoint.Refused = "rule x: bad"; return s }, []string{"config.refused"}},
		"loopback down":           {true, func() any { s := healthy(); s.Endpoint.Loopback = "address in use"; return s }, []string{"loopback.down"}},
		"relay held": {true, func() any {
			s := healthy()
			s.Endpoint.Export.State, s.Endpoint.Export.Detail, s.Endpoint.Export.Destination = "held", "401", "https://c.example.com"
			return s
		}, []string{"relay.held"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{root: t.TempDir()}
			if err := a.open(); err != nil {
				t.Fatal(err)
			}
			if test.answer != nil {
				address := strings.TrimSuffix(a.layout.Endpoint, ".sock") + "-control.sock"
				if err := os.MkdirAll(filepath.Dir(address), 0o755); err != nil {
					t.Fatal(err)
				}
				l, err := serve.Listen(address, serve.Options{})
				if err != nil {
					t.Fatal(err)
				}
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					json.NewEncoder(w).Encode(test.answer())
				})}
				go server.Serve(l)
				t.Cleanup(func() { server.Close() })
			}
			var d diagnosis
			var got []string
			a.diagnoseService(t.Context(), test.managed, &d, func(_ installer.Severity, id, detail, remedy string) {
				got = append(got, id)
				if detail == "" || remedy == "" {
					t.Errorf("%s: detail %q, remedy %q", id, detail, remedy)
				}
			})
			if !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

// TestDoctorsOwnFindingsAreDocumented: docs/drift.md lists each id that this
// package gives.
func TestDoctorsOwnFindingsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/drift.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"agent.not-enrolled", "agent.not-running", "agent.no-answer", "endpoint.down", "endpoint.privileged", "config.refused", "loopback.down", "relay.held", "manager.unreachable"} {
		if !strings.Contains(string(doc), "`"+id+"`") {
			t.Errorf("%s isn't in docs/drift.md", id)
		}
	}
}
