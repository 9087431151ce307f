// Command pack builds every artefact of a release on Linux:
//
//	go run ./packaging/cmd/pack --version 1.2.3 --out dist
//
// It needs Go, wixl and msibuild. Equal sources make equal bytes. Signing is a
// program of the caller's (--sign), called as `PROGRAM KIND FILE` with the kinds
// exe, macho, msi, pkg, deb and rpm; it signs in place.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/packaging/build"
	"github.com/pinta-ai/pinta-agent/packaging/msi"
)

// firstDay is the time in all files unless SOURCE_DATE_EPOCH says another.
const firstDay = 1767225600 // 2026-01-01

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := pack(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// kinds are the groups of artefacts, for --only.
var kinds = []string{"linux", "windows", "darwin"}

func pack(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("pack", flag.ContinueOnError)
	version := flags.String("version", "", "version of the release")
	out := flags.String("out", "", "folder for the artefacts")
	sign := flags.String("sign", "", "program that signs: PROGRAM KIND FILE")
	only := flags.String("only", "", "build these only, separated by commas: "+strings.Join(kinds, ", ")+" (no archives, no SBOM then)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *version == "" || *out == "" || flags.NArg() > 0 {
		return errors.New("usage: go run ./packaging/cmd/pack --version V --out DIR [--sign PROGRAM] [--only KINDS]")
	}
	r := build.Release{Version: strings.TrimPrefix(*version, "v"), Out: *out, Sign: *sign}
	if err := build.CheckVersion(r.Version); err != nil {
		return err
	}
	if r.Time, err = epoch(); err != nil {
		return err
	}
	wanted := kinds
	if *only != "" {
		wanted = strings.Split(*only, ",")
	}
	for _, kind := range wanted {
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("--only %s: known are %s", kind, strings.Join(kinds, ", "))
		}
	}
	if slices.Contains(wanted, "windows") {
		if err := msi.Tools(); err != nil {
			return err
		}
	}
	if _, err := os.Stat("packaging/linux/nfpm.yaml"); err != nil {
		return errors.New("run this in the repository's root")
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil { //nolint:gosec // public
		return err
	}
	if err := r.Alone(); err != nil {
		return err
	}
	if r.Stage, err = os.MkdirTemp("", "pinta-pack-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.Stage)) }()
	steps := map[string]func(context.Context, build.Release) error{"linux": linux, "windows": windows, "darwin": darwin}
	for _, kind := range wanted {
		start := time.Now()
		if err := steps[kind](ctx, r); err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", kind, time.Since(start).Round(time.Second))
	}
	if *only == "" {
		if err := errors.Join(r.Archives(), r.Administration(), r.SBOM()); err != nil {
			return err
		}
	}
	return r.Sums()
}

func epoch() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Unix(firstDay, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
