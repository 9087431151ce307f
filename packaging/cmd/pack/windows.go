package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinta-ai/pinta-agent/packaging/build"
	"github.com/pinta-ai/pinta-agent/packaging/intunewin"
	"github.com/pinta-ai/pinta-agent/packaging/msi"
)

// windows builds the MSI of both architectures and the Intune packages of
// them, which hold the signed MSI.
func windows(ctx context.Context, r build.Release) error {
	if err := r.Programs(ctx, "windows", "amd64", "arm64"); err != nil {
		return err
	}
	for arch, name := range map[string]string{"amd64": "x64", "arm64": "arm64"} {
		base := fmt.Sprintf("pinta-agent-%s-%s", r.Version, name)
		target := filepath.Join(r.Stage, base+".msi") // its writers leave files of their own beside it if they fail
		if err := msi.Write(ctx, msi.Options{Release: r.Version, Version: r.Numeric(), Arch: arch, Bin: r.Dir("windows", arch),
			Source: "packaging/windows/pinta-agent.wxs", Out: target, Time: r.Time}); err != nil {
			return err
		}
		if err := r.Finish(ctx, "msi", target); err != nil {
			return err
		}
		data, err := os.ReadFile(target)
		if err != nil {
			return err
		}
		wrapped, err := intunewin.Write(base+".msi", data, r.Time)
		if err != nil {
			return fmt.Errorf("wrap %s for Intune: %w", base, err)
		}
		for ending, content := range map[string][]byte{".msi": data, ".intunewin": wrapped} {
			if err := os.WriteFile(filepath.Join(r.Out, base+ending), content, 0o644); err != nil { //nolint:gosec // public
				return err
			}
		}
	}
	return nil
}
