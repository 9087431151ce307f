// Package mcp is a small server of the Model Context Protocol, so that tests have
// an MCP tool on every machine. It is for tests only.
package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// Serve speaks the protocol over stdio until in ends. Its one tool, echo, says
// the text that it was given; "file PATH" says what is in the file, "touch PATH"
// makes it, "fail" fails.
func Serve(in io.Reader, out io.Writer) {
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
			answer["result"] = map[string]any{"isError": text == "fail", "content": []any{map[string]any{"type": "text", "text": "echo: " + text}}}
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
