package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/e2e/copilot"
	"github.com/pinta-ai/pinta-agent/e2e/provider"
)

// realCLI runs the real Copilot CLI in the demo's home: one call that the
// policy denies, one whose output holds a secret.
func (r *run) realCLI(ctx context.Context, path string) (string, string, error) {
	cli, err := copilot.Find(path)
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	version, err := copilot.Version(ctx, cli)
	if err != nil {
		return "", "", err
	}
	repo := filepath.Join(r.host.home, "cli-repo")
	keep := filepath.Join(repo, "keep")
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return version, "", err
	}
	secret := secretOf("ghp_")
	if err := writeFile(filepath.Join(repo, "config.ini"), "token = "+secret+"\n"); err != nil {
		return version, "", err
	}
	bash := func(id, command string) provider.Turn {
		return provider.Turn{ToolCalls: []provider.ToolCall{
			provider.Call(id, "bash", map[string]any{"command": command, "description": "a step of the script"})}}
	}
	result, err := copilot.Session{CLI: cli, Home: r.host.home, Repo: repo, Turns: []provider.Turn{
		bash("call_deny", "rm -rf keep"),
		bash("call_mask", "cat config.ini"),
		{Text: "The script is done."},
	}}.Run(ctx)
	if err != nil {
		return version, result.Stderr, err
	}
	denied, _ := result.Model.ToolResult("call_deny")
	masked, _ := result.Model.ToolResult("call_mask")
	detail := fmt.Sprintf("the model was told: %s\nand given: %s", strings.TrimSpace(denied), strings.TrimSpace(masked))
	switch {
	case !strings.Contains(denied, denyText):
		return version, detail, fmt.Errorf("the denied call was not refused with the policy's text (exit %d): %s", result.Exit, result.Stderr)
	case strings.Contains(masked, secret) || !strings.Contains(masked, "[REDACTED:"):
		return version, detail, fmt.Errorf("the secret did not arrive masked")
	}
	if _, err := os.Stat(keep); err != nil {
		return version, detail, fmt.Errorf("the denied command ran: %w", err)
	}
	for _, request := range result.Model.Requests() {
		if strings.Contains(string(request.Body), secret) {
			return version, detail, fmt.Errorf("a request to the model holds the secret")
		}
	}
	return version, detail, nil
}
