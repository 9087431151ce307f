package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinta-ai/pinta-agent/packaging/build"
	"github.com/pinta-ai/pinta-agent/packaging/macpkg"
)

// Where things lie on a Mac (installer.md 4).
const (
	macFolder = "Library/Application Support/Pinta/Agent"
	macApp    = "Applications/Pinta Agent.app"
)

// darwin builds the installer package with universal programs.
func darwin(ctx context.Context, r build.Release) error {
	if err := r.Programs(ctx, "darwin", "amd64", "arm64"); err != nil {
		return err
	}
	bin := r.Dir("darwin", "universal")
	var files, scripts []macpkg.File
	add := func(list *[]macpkg.File, path, from string, mode uint16) error {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".plist") {
			data = bytes.ReplaceAll(data, []byte("@VERSION@"), []byte(r.Numeric()))
		}
		*list = append(*list, macpkg.File{Path: path, Mode: mode, Data: data})
		return nil
	}
	for _, f := range []struct {
		list       *[]macpkg.File
		path, from string
		mode       uint16
	}{
		{&files, macFolder + "/pinta-hook", filepath.Join(bin, "pinta-hook"), 0o755},
		{&files, macFolder + "/pinta-agent", filepath.Join(bin, "pinta-agent"), 0o755},
		{&files, "Library/LaunchDaemons/pinta-agent.plist", "packaging/darwin/pinta-agent.plist", 0o644},
		{&files, macApp + "/Contents/Info.plist", "packaging/darwin/Info.plist", 0o644},
		{&files, macApp + "/Contents/MacOS/status", "packaging/darwin/status", 0o755},
		{&scripts, "preinstall", "packaging/darwin/scripts/preinstall", 0o755},
		{&scripts, "postinstall", "packaging/darwin/scripts/postinstall", 0o755},
	} {
		if err := add(f.list, f.path, f.from, f.mode); err != nil {
			return err
		}
	}
	files = append(files, macpkg.File{Path: "usr/local/bin/pinta-agent", Link: "/" + macFolder + "/pinta-agent"})
	data, err := macpkg.Write(macpkg.Package{Identifier: "ai.pinta.agent", Version: r.Numeric(), Title: "Pinta Agent " + r.Version,
		Files: files, Scripts: scripts, MinOS: "12.0", Time: r.Time,
		Bundles: []macpkg.Bundle{{Path: macApp, Identifier: "ai.pinta.agent", Version: r.Numeric()}}})
	if err != nil {
		return err
	}
	target := filepath.Join(r.Out, "pinta-agent-"+r.Version+".pkg")
	if err := os.WriteFile(target, data, 0o644); err != nil { //nolint:gosec // public
		return err
	}
	return r.Finish(ctx, "pkg", target)
}
