// Package build makes the release's programs and plain archives of them from
// a checkout, byte-reproducible. It knows nothing of package formats.
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const module = "github.com/pinta-ai/pinta-agent"

// Release is what is built, and where.
type Release struct {
	Version string    // without a leading v
	Stage   string    // throw-away folder for programs and intermediate files
	Out     string    // finished artefacts
	Time    time.Time // of every file in every artefact
	// Sign is a program that signs a file in place, called as `Sign KIND FILE`
	// with the kinds exe, macho, msi, pkg, deb and rpm. Empty: nothing is signed.
	Sign string
}

// versionForm is SemVer without build metadata: it has to fit deb, rpm and MSI.
var versionForm = regexp.MustCompile(`^(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,4})(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$`)

// CheckVersion refuses what one of the formats could not carry.
func CheckVersion(v string) error {
	if !versionForm.MatchString(v) {
		return fmt.Errorf("version %q: write MAJOR.MINOR.PATCH or MAJOR.MINOR.PATCH-rc.1", v)
	}
	var major, minor, patch int
	if _, err := fmt.Sscanf(v, "%d.%d.%d", &major, &minor, &patch); err != nil || major > 255 || minor > 255 || patch > 65535 {
		return fmt.Errorf("version %q: Windows Installer takes major and minor up to 255, patch up to 65535", v)
	}
	return nil
}

// Numeric is the version without its pre-release part, for the formats that
// know none.
func (r Release) Numeric() string {
	v, _, _ := strings.Cut(r.Version, "-")
	return v
}

// Dir is the folder of a target's programs.
func (r Release) Dir(goos, arch string) string { return filepath.Join(r.Stage, goos+"-"+arch) }

// Programs builds hook and agent for each architecture of an operating system
// into Dir. The hook comes first: the agent carries its SHA-256. On macOS both
// are universal and lie in Dir("darwin", "universal").
func (r Release) Programs(ctx context.Context, goos string, arches ...string) error {
	if goos == "darwin" {
		return r.universal(ctx, arches)
	}
	for _, arch := range arches {
		dir, suffix, kind := r.Dir(goos, arch), "", ""
		if goos == "windows" {
			suffix, kind = ".exe", "exe"
		}
		hook := filepath.Join(dir, "pinta-hook"+suffix)
		if err := errors.Join(r.compile(ctx, "pinta-hook", goos, arch, hook, ""), r.sign(ctx, kind, hook)); err != nil {
			return err
		}
		sum, err := SHA256(hook)
		if err != nil {
			return err
		}
		agent := filepath.Join(dir, "pinta-agent"+suffix)
		if err := errors.Join(r.compile(ctx, "pinta-agent", goos, arch, agent, sum), r.sign(ctx, kind, agent)); err != nil {
			return err
		}
	}
	return nil
}

func (r Release) universal(ctx context.Context, arches []string) error {
	sum := ""
	for _, name := range []string{"pinta-hook", "pinta-agent"} {
		var slices []string
		for _, arch := range arches {
			slice := filepath.Join(r.Dir("darwin", arch), name)
			if err := r.compile(ctx, name, "darwin", arch, slice, sum); err != nil {
				return err
			}
			slices = append(slices, slice)
		}
		whole := filepath.Join(r.Dir("darwin", "universal"), name)
		if err := errors.Join(Universal(whole, slices...), r.sign(ctx, "macho", whole)); err != nil {
			return err
		}
		var err error
		if sum, err = SHA256(whole); err != nil {
			return err
		}
	}
	return nil
}

func (r Release) compile(ctx context.Context, name, goos, arch, to, hookSum string) error {
	flags := "-s -w -buildid= -X " + module + "/internal/version.Version=" + r.Version
	if hookSum != "" {
		flags += " -X " + module + "/cmd/pinta-agent/daemon.hookSHA256=" + hookSum
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", to, "./cmd/"+name)
	// GOFLAGS and GOEXPERIMENT of the builder would make other bytes.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GOWORK=off")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s/%s: %w\n%s", name, goos, arch, err, out)
	}
	return nil
}

func (r Release) sign(ctx context.Context, kind, file string) error {
	if r.Sign == "" || kind == "" {
		return nil
	}
	if out, err := exec.CommandContext(ctx, r.Sign, kind, file).CombinedOutput(); err != nil {
		return fmt.Errorf("sign %s: %w\n%s", filepath.Base(file), err, out)
	}
	return nil
}

// Finish signs a file of Out and gives it the release's time.
func (r Release) Finish(ctx context.Context, kind, file string) error {
	if err := r.sign(ctx, kind, file); err != nil {
		return err
	}
	return os.Chtimes(file, r.Time, r.Time)
}

// SHA256 is a file's hash in hex.
func SHA256(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
