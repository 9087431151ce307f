package build

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Names are the artefacts of a release, SHA256SUMS among them.
func Names(version string) (names []string) {
	for _, name := range []string{"pinta-agent_V_amd64.deb", "pinta-agent_V_arm64.deb", "pinta-agent-V-1.x86_64.rpm", "pinta-agent-V-1.aarch64.rpm",
		"pinta-agent-V-x64.msi", "pinta-agent-V-arm64.msi", "pinta-agent-V.pkg", "pinta-agent-V-x64.intunewin", "pinta-agent-V-arm64.intunewin",
		"pinta-agent_V_linux_amd64.tar.gz", "pinta-agent_V_linux_arm64.tar.gz", "pinta-agent_V_darwin_universal.tar.gz",
		"pinta-agent_V_windows_amd64.zip", "pinta-agent_V_windows_arm64.zip", "pinta-agent_V_admin.zip", "pinta-agent-V.cdx.json", "SHA256SUMS"} {
		names = append(names, strings.Replace(name, "V", version, 1))
	}
	return names
}

// Alone refuses an Out that holds anything but artefacts of this release: sums
// and attachments take the whole folder.
func (r Release) Alone() error {
	files, err := os.ReadDir(r.Out)
	for _, f := range files {
		if !slices.Contains(Names(r.Version), f.Name()) {
			return fmt.Errorf("%s holds %s, which is not of release %s: empty it or name another folder", r.Out, f.Name(), r.Version)
		}
	}
	return err
}

// Sums writes SHA256SUMS over every other file of Out.
func (r Release) Sums() error {
	files, err := os.ReadDir(r.Out)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, f := range files {
		if f.IsDir() || f.Name() == "SHA256SUMS" {
			continue
		}
		sum, err := SHA256(filepath.Join(r.Out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, f.Name())
	}
	return os.WriteFile(filepath.Join(r.Out, "SHA256SUMS"), out.Bytes(), 0o644) //nolint:gosec // public
}

// CycloneDX 1.6, as far as a Go program needs it.
type (
	bom struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   bomMetadata `json:"metadata"`
		Components []component `json:"components"`
	}
	bomMetadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type    string    `json:"type"`
		Ref     string    `json:"bom-ref"`
		Name    string    `json:"name"`
		Version string    `json:"version,omitempty"`
		PURL    string    `json:"purl,omitempty"`
		Hashes  []bomHash `json:"hashes,omitempty"`
	}
	bomHash struct {
		Alg     string `json:"alg"`
		Content string `json:"content"`
	}
)

// SBOM writes the bill of materials of all programs: what the linker put into
// them, read from the programs themselves. A module's hash is that of its go.sum
// line.
func (r Release) SBOM() error {
	modules := map[string]component{}
	programs, err := filepath.Glob(filepath.Join(r.Stage, "*", "pinta-*"))
	if err != nil {
		return err
	}
	toolchain := ""
	for _, p := range programs {
		if strings.Contains(p, "universal") {
			continue // its slices are read
		}
		info, err := buildinfo.ReadFile(p)
		if err != nil {
			return fmt.Errorf("modules of %s: %w", p, err)
		}
		toolchain = strings.TrimPrefix(info.GoVersion, "go")
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			purl := "pkg:golang/" + m.Path + "@" + m.Version
			c := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
			if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == 32 {
				c.Hashes = []bomHash{{"SHA-256", hex.EncodeToString(sum)}}
			}
			modules[purl] = c
		}
	}
	std := "pkg:golang/std@" + toolchain
	modules[std] = component{Type: "library", Ref: std, Name: "std", Version: toolchain, PURL: std}
	self := "pkg:golang/" + module + "@v" + r.Version
	out := bom{Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: bomMetadata{r.Time.UTC().Format(time.RFC3339), component{Type: "application", Ref: self, Name: "pinta-agent", Version: r.Version, PURL: self}}}
	for _, c := range modules {
		out.Components = append(out.Components, c)
	}
	slices.SortFunc(out.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, fmt.Sprintf("pinta-agent-%s.cdx.json", r.Version)), append(text, '\n'), 0o644) //nolint:gosec // public
}
