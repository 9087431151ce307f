package copilot_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// mcpArg makes the test binary a small MCP server: a tool that is there on
// every machine that can run the tests.
const mcpArg = "serve-mcp"

// resultsEnv names the file into which the outcomes go: the radar compares them
// between versions of the CLI.
const resultsEnv = "PINTA_E2E_RESULTS"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == mcpArg {
		serveMCP(os.Stdin, os.Stdout)
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

// serveMCP speaks the Model Context Protocol over stdio: one tool, echo, which
// says what it was given.
func serveMCP(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ProtocolVersion string            `json:"protocolVersion"`
				Arguments       map[string]string `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &request) != nil || request.ID == nil {
			continue
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": request.ID}
		switch request.Method {
		case "initialize":
			answer["result"] = map[string]any{"protocolVersion": request.Params.ProtocolVersion,
				"capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "e2e", "version": "1"}}
		case "tools/list":
			answer["result"] = map[string]any{"tools": []any{map[string]any{"name": "echo", "description": "says what it is given",
				"inputSchema": map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}, "required": []string{"text"}}}}}
		case "tools/call":
			text := request.Params.Arguments["text"]
			if path, ok := strings.CutPrefix(text, "file "); ok {
				data, err := os.ReadFile(path)
				text = fmt.Sprint(string(data), err)
			}
			if path, ok := strings.CutPrefix(text, "touch "); ok {
				text = fmt.Sprint(os.WriteFile(path, nil, 0o644))
			}
			answer["result"] = map[string]any{"content": []any{map[string]any{"type": "text", "text": "echo: " + text}}}
		default:
			answer["error"] = map[string]any{"code": -32601, "message": "no such method"}
		}
		line, err := json.Marshal(answer)
		if err != nil {
			return
		}
		fmt.Fprintf(out, "%s\n", line)
	}
}
