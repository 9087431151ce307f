package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinta-ai/pinta-agent/packaging/build"
)

// linux builds deb and rpm.
func linux(ctx context.Context, r build.Release) error {
	if err := r.Programs(ctx, "linux", "amd64", "arm64"); err != nil {
		return err
	}
	if err := scripts(r); err != nil {
		return err
	}
	packer := filepath.Join(r.Stage, "nfpm")
	command := exec.CommandContext(ctx, "go", "build", "-C", "packaging/nfpm", "-buildvcs=false", "-o", packer, ".")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build packaging/nfpm: %w\n%s", err, out)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU()) // xz takes most of the time, on one core
	for _, p := range []struct{ format, arch, name string }{
		{"deb", "amd64", "pinta-agent_%s_amd64.deb"},
		{"deb", "arm64", "pinta-agent_%s_arm64.deb"},
		{"rpm", "amd64", "pinta-agent-%s-1.x86_64.rpm"},
		{"rpm", "arm64", "pinta-agent-%s-1.aarch64.rpm"},
	} {
		group.Go(func() error {
			target := filepath.Join(r.Out, fmt.Sprintf(p.name, r.Version))
			command := exec.CommandContext(ctx, packer, "packaging/linux/nfpm.yaml", p.format, target)
			command.Env = append(os.Environ(), "ARCH="+p.arch, "VERSION="+r.Version, "BIN="+r.Dir("linux", p.arch), "STAGE="+r.Stage,
				"SOURCE_DATE_EPOCH="+strconv.FormatInt(r.Time.Unix(), 10))
			if out, err := command.CombinedOutput(); err != nil {
				return fmt.Errorf("pack %s: %w\n%s", filepath.Base(target), err, out)
			}
			return r.Finish(ctx, p.format, target)
		})
	}
	return group.Wait()
}

// scripts puts the maintainer scripts together, the shared parts included, and
// writes what else depends on the version.
func scripts(r build.Release) error {
	const from = "packaging/linux"
	for _, format := range []string{"deb", "rpm"} {
		if err := os.MkdirAll(filepath.Join(r.Stage, format), 0o755); err != nil { //nolint:gosec // public
			return err
		}
		names, err := filepath.Glob(filepath.Join(from, format, "*"))
		if err != nil {
			return err
		}
		for _, name := range names {
			text, err := include(name)
			if err == nil {
				err = os.WriteFile(filepath.Join(r.Stage, format, filepath.Base(name)), text, 0o755) //nolint:gosec // scripts
			}
			if err != nil {
				return err
			}
		}
	}
	changes := fmt.Sprintf("- semver: %s\n  date: %s\n  packager: Pinta <support@pinta.ai>\n  deb: {urgency: medium, distributions: [stable]}\n  changes:\n    - note: See CHANGELOG.md in the release's archive.\n", r.Version, r.Time.UTC().Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(r.Stage, "changelog.yaml"), []byte(changes), 0o644); err != nil { //nolint:gosec // public
		return err
	}
	return os.Rename(filepath.Join(r.Stage, "deb", "copyright"), filepath.Join(r.Stage, "copyright"))
}

// include replaces lines `#include NAME` by the file packaging/linux/NAME.
func include(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for line := range strings.Lines(string(data)) {
		part, ok := strings.CutPrefix(strings.TrimSpace(line), "#include ")
		if !ok {
			out.WriteString(line)
			continue
		}
		shared, err := os.ReadFile(filepath.Join("packaging/linux", part))
		if err != nil {
			return nil, err
		}
		out.Write(shared)
	}
	return out.Bytes(), nil
}
