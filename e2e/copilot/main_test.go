package copilot_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/pinta-ai/pinta-agent/e2e/mcp"
)

// mcpArg makes the test binary a small MCP server: a tool that is there on
// every machine that can run the tests.
const mcpArg = "serve-mcp"

// resultsEnv names the file into which the outcomes go: the radar compares them
// between versions of the CLI.
const resultsEnv = "PINTA_E2E_RESULTS"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == mcpArg {
		mcp.Serve(os.Stdin, os.Stdout)
		return
	}
	code := m.Run()
	if shared.cleanup != nil {
		shared.cleanup()
	}
	if path := os.Getenv(resultsEnv); path != "" {
		data, err := json.MarshalIndent(outcomes.all, "", "  ")
		if err == nil {
			err = os.WriteFile(path, data, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// outcomes are what the host made of the hook, by the scenario's key.
var outcomes = struct {
	sync.Mutex
	all map[string]string
}{all: map[string]string{}}

// note records an outcome.
func note(t testing.TB, key, outcome string) {
	t.Helper()
	outcomes.Lock()
	defer outcomes.Unlock()
	if old, ok := outcomes.all[key]; ok && old != outcome {
		outcome = old + "; " + outcome
	}
	outcomes.all[key] = outcome
	t.Logf("%s: %s", key, outcome)
}

func noteAll(t testing.TB, all map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		note(t, key, all[key])
	}
}
