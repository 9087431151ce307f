package world

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

// Programs are the executables of one release, side by side in one folder as
// a package would install them.
type Programs struct{ Agent, Hook, Manager string }

// In returns where the programs lie in dir.
func In(dir string) Programs {
	suffix := ""
	if runtime.GOOS == "windows" {
		suffix = ".exe"
	}
	at := func(name string) string { return filepath.Join(dir, name+suffix) }
	return Programs{Agent: at("pinta-agent"), Hook: at("pinta-hook"), Manager: at("pinta-manager")}
}

func (p Programs) all() []string { return []string{p.Agent, p.Hook, p.Manager} }

// Build builds the programs into dir with the Go tool on PATH. It must run
// inside a checkout.
func Build(ctx context.Context, dir string) (Programs, error) {
	p := In(dir)
	for _, program := range p.all() {
		if err := build(ctx, program); err != nil {
			return Programs{}, err
		}
	}
	return p, nil
}

// Gather puts the programs into dir: self, an agent's executable, by copy; the
// others by copy where they lie beside it, else built as Build does, which
// building says.
func Gather(ctx context.Context, dir, self string, building func(name string)) (Programs, error) {
	p := In(dir)
	if err := Copy(self, p.Agent); err != nil {
		return Programs{}, err
	}
	for _, program := range []string{p.Hook, p.Manager} {
		name := filepath.Base(program)
		beside := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(beside); err == nil {
			if err := Copy(beside, program); err != nil {
				return Programs{}, err
			}
			continue
		}
		building(name)
		if err := build(ctx, program); err != nil {
			return Programs{}, err
		}
	}
	return p, nil
}

func build(ctx context.Context, program string) error {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	goTool, err := goTool()
	if err != nil {
		return err
	}
	list := exec.CommandContext(ctx, goTool, "list", "-m")
	if out, err := list.Output(); err != nil || strings.TrimSpace(string(out)) != module {
		return fmt.Errorf("%s is missing: run this from a release, where it lies beside pinta-agent, or inside a checkout of %s", name, module)
	}
	command := exec.CommandContext(ctx, goTool, "build", "-trimpath", "-ldflags=-s -w", "-o", program, module+"/cmd/"+name)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return nil
}

// goTool finds the Go tool on PATH: demo and tests are run by hand in a
// checkout, never by the service.
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

// Copy copies an executable to a place where nothing is.
func Copy(from, to string) error {
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
