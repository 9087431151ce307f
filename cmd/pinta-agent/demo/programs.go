package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

const module = "github.com/pinta-ai/pinta-agent"

// programs are the executables of one release, side by side in one folder as
// a package would install them.
type programs struct{ agent, hook, manager string }

// gather puts the three programs into dir. The agent is this very executable;
// the others lie beside it, or are built when run inside the checkout.
func gather(ctx context.Context, dir string, p printer) (programs, error) {
	self, err := os.Executable()
	if err != nil {
		return programs{}, fmt.Errorf("find the own executable: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return programs{}, fmt.Errorf("find the own executable: %w", err)
	}
	suffix := ""
	if runtime.GOOS == "windows" {
		suffix = ".exe"
	}
	at := func(name string) string { return filepath.Join(dir, name+suffix) }
	all := programs{agent: at("pinta-agent"), hook: at("pinta-hook"), manager: at("pinta-manager")}
	if err := copyProgram(self, all.agent); err != nil {
		return programs{}, err
	}
	for _, name := range []string{"pinta-hook", "pinta-manager"} {
		beside := filepath.Join(filepath.Dir(self), name+suffix)
		if _, err := os.Stat(beside); err == nil {
			if err := copyProgram(beside, at(name)); err != nil {
				return programs{}, err
			}
			continue
		}
		p.note("%s is not beside this program: building it with the Go tool", name)
		if err := build(ctx, name, at(name)); err != nil {
			return programs{}, err
		}
	}
	return all, nil
}

func build(ctx context.Context, name, to string) error {
	goTool, err := goTool()
	if err != nil {
		return err
	}
	list := exec.CommandContext(ctx, goTool, "list", "-m")
	if out, err := list.Output(); err != nil || strings.TrimSpace(string(out)) != module {
		return fmt.Errorf("%s is missing: run the demo from a release, where it lies beside pinta-agent, or inside a checkout of %s", name, module)
	}
	command := exec.CommandContext(ctx, goTool, "build", "-trimpath", "-ldflags=-s -w", "-o", to, module+"/cmd/"+name)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return nil
}

// goTool finds the Go tool on PATH: the demo is run by hand in a checkout,
// never by the service.
func goTool() (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		for _, name := range []string{"go", "go.exe"} {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path, nil
			}
		}
	}
	return "", errors.New("a program is missing beside pinta-agent and no Go tool is on PATH to build it")
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return out.Close()
}
