package guard

import "strings"

// canonical maps every host's own tool names to what they do (host.md): the
// runtime's, Claude's as PascalCase events carry them, and VS Code's.
var canonical = map[string]string{
	"bash": "shell", "Bash": "shell", "powershell": "shell", "PowerShell": "shell", "run_in_terminal": "shell", "runInTerminal": "shell",
	"write_bash": "shell", "write_powershell": "shell", "local_shell": "shell", "shell": "shell", "run_terminal_cmd": "shell",
	"exec_command": "shell", "send_to_terminal": "shell",

	"view": "read", "Read": "read", "read_file": "read", "readFile": "read", "NotebookRead": "read", "read_notebook_cell_output": "read",
	"list_dir": "read", "listDirectory": "read", "LS": "read", "view_image": "read", "copilot_getNotebookSummary": "read",

	"create": "write", "edit": "write", "Write": "write", "Edit": "write", "MultiEdit": "write", "NotebookEdit": "write", "str_replace": "write",
	"str_replace_editor": "write", "insert": "write", "apply_patch": "write", "applyPatch": "write", "create_file": "write", "createFile": "write",
	"insert_edit_into_file": "write", "replace_string_in_file": "write", "multi_replace_string_in_file": "write", "edit_file": "write",
	"edit_files": "write", "editFiles": "write", "create_directory": "write", "edit_notebook_file": "write", "create_new_jupyter_notebook": "write", "write": "write",

	"grep": "search", "Grep": "search", "glob": "search", "Glob": "search", "rg": "search", "grep_search": "search", "file_search": "search",
	"semantic_search": "search", "textSearch": "search", "fileSearch": "search", "codebase": "search", "search": "search", "test_search": "search",

	"web_fetch": "fetch", "WebFetch": "fetch", "web_search": "fetch", "WebSearch": "fetch", "fetch_webpage": "fetch", "fetch": "fetch",
	"open_simple_browser": "fetch", "github_repo": "fetch",

	"task": "agent", "Task": "agent", "Agent": "agent", "runSubagent": "agent", "run_subagent": "agent", "agent": "agent",
}

// powershellTools run their text in PowerShell.
var powershellTools = map[string]bool{"powershell": true, "PowerShell": true, "write_powershell": true}

// canonicalTool is the tool name that rules use. An MCP tool comes as
// server-tool, server/tool or mcp__server__tool; where a name could be cut in
// several places, the names that the rules mention decide, else the last hyphen.
func canonicalTool(host string, mentioned []string) string {
	if c, ok := canonical[host]; ok {
		return c
	}
	for _, cut := range [...]func(host, server, tool string) string{cutExactly, cutByServer, cutByTool} {
		for _, m := range mentioned {
			server, tool := mcpPattern(m)
			if name := cut(host, server, tool); name != "" {
				return name
			}
		}
	}
	if rest, ok := strings.CutPrefix(host, "mcp__"); ok {
		if server, tool, ok := strings.Cut(rest, "__"); ok {
			return "mcp:" + server + "/" + tool
		}
	}
	if rest, ok := strings.CutPrefix(host, "mcp_"); ok {
		if server, tool, ok := strings.Cut(rest, "_"); ok {
			return "mcp:" + server + "/" + tool
		}
	}
	if server, tool, ok := strings.Cut(host, "/"); ok && server != "" && tool != "" {
		return "mcp:" + server + "/" + tool
	}
	if i := strings.LastIndexByte(host, '-'); i > 0 && i+1 < len(host) {
		return "mcp:" + host[:i] + "/" + host[i+1:]
	}
	return host
}

// mcpPattern takes mcp:SERVER/TOOL apart; mcp:SERVER is every tool of the server.
func mcpPattern(name string) (server, tool string) {
	server, tool, _ = strings.Cut(strings.TrimPrefix(name, "mcp:"), "/")
	if tool == "" {
		tool = "*"
	}
	return server, tool
}

// mcpForms are how hosts join server and tool.
var mcpForms = [...]struct{ before, between string }{{"", "/"}, {"", "-"}, {"mcp__", "__"}, {"mcp_", "_"}}

// The cuts give the canonical name of host if a pattern says where to cut it:
// both parts of it, its server, or its tool.
func cutExactly(host, server, tool string) string {
	for _, f := range mcpForms {
		if host == f.before+server+f.between+tool {
			return "mcp:" + server + "/" + tool
		}
	}
	return ""
}

func cutByServer(host, server, tool string) string {
	for _, f := range mcpForms {
		if rest, ok := strings.CutPrefix(host, f.before+server+f.between); ok && rest != "" && tool == "*" {
			return "mcp:" + server + "/" + rest
		}
	}
	return ""
}

func cutByTool(host, server, tool string) string {
	for _, f := range mcpForms[:3] { // an underscore may be anywhere in a tool's name
		rest, ok := strings.CutPrefix(host, f.before)
		if rest, ends := strings.CutSuffix(rest, f.between+tool); ok && ends && rest != "" && server == "*" {
			return "mcp:" + rest + "/" + tool
		}
	}
	return ""
}

func joined(host string) string { return strings.ReplaceAll(host, "/", "-") }

// CanonicalTool is the canonical name of a host's tool where no rule says how an
// MCP name is cut: shell, read, write, search, fetch, agent, mcp:SERVER/TOOL, or
// the name itself.
func CanonicalTool(host string) string { return canonicalTool(host, nil) }

// toolSet is the tools of a rule: canonical names, exact host names,
// mcp:SERVER/TOOL with * for either part. Empty is every tool.
type toolSet []string

func newToolSet(names []string) toolSet { return toolSet(names) }

func (s toolSet) has(tool, host string) bool {
	if len(s) == 0 {
		return true
	}
	for _, n := range s {
		if n == tool || n == host {
			return true
		}
		if strings.HasPrefix(tool, "mcp:") && joined(n) == joined(host) { // server-tool and server/tool are one tool
			return true
		}
		if strings.HasPrefix(n, "mcp:") && strings.HasPrefix(tool, "mcp:") {
			server, name := mcpPattern(n)
			isServer, isName := mcpPattern(tool)
			if (server == "*" || server == isServer) && (name == "*" || name == isName) {
				return true
			}
			// Another rule may have it cut elsewhere.
			if cutExactly(host, server, name)+cutByServer(host, server, name)+cutByTool(host, server, name) != "" {
				return true
			}
		}
	}
	return false
}
