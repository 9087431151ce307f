// Command pinta-hook is what Copilot runs for every hook event: one event on
// stdin, at most one line on stdout, exit status 0. Package hook tells the
// whole story.
package main

import (
	"github.com/pinta-ai/pinta-agent/hook"
	_ "github.com/pinta-ai/pinta-agent/hook/remote" // other machines, TLS, proxies
)

func main() { hook.Run(hook.System()) }
