// Package vscode holds the contract tests of VS Code's own agent ("VS Code
// Local"). The editor is not run: its tests start the registered commands as
// its sources say it does (host.md), in dash, with payloads that are
// constructed, not captured. What the editor makes of an answer is not tested.
package vscode
