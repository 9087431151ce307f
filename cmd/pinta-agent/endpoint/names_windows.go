package endpoint

import "github.com/pinta-ai/pinta-agent/internal/local/serve"

// names: on Windows the pipe's client token carries the account.
type names struct{ homes string }

func (n *names) set(map[string]string) {}

func (n *names) of(p serve.Peer) string { return p.User }
