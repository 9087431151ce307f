package settings

// managedValues: on Linux /etc/pinta-agent/agent.yaml is the managed source.
func managedValues(Layout) (map[string]string, string, error) { return nil, "", nil }
