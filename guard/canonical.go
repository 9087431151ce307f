package guard

// CanonicalTool is the canonical name of a host's tool where no rule says how an MCP name is cut: shell, read, write,
// search, fetch, agent, mcp:SERVER/TOOL, or the name itself.
func CanonicalTool(host string) string { return canonicalTool(host, nil) }
