// Command verify proves the artefacts of packaging/cmd/pack that need no
// installation: names, sums, SBOM, archives, the macOS package, the Intune
// package, the hook's hash in the agent. With a second folder it compares both
// byte by byte.
//
//	verify DIST [SAME]
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/macho"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"howett.net/plist"

	"github.com/pinta-ai/pinta-agent/packaging/build"
	"github.com/pinta-ai/pinta-agent/packaging/intunewin"
	"github.com/pinta-ai/pinta-agent/packaging/macpkg"
	"github.com/pinta-ai/pinta-agent/packaging/mdm"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: verify DIST [SAME]")
		os.Exit(2)
	}
	failed := false
	check := func(name string, f func() error) {
		if err := f(); err != nil {
			failed = true
			fmt.Printf("FAIL %s: %v\n", name, err)
			return
		}
		fmt.Println("ok  ", name)
	}
	d := dist(os.Args[1])
	check("file names", d.names)
	check("SHA256SUMS", d.sums)
	check("SBOM", d.sbom)
	check("archives; the agent knows its hook's hash", d.archives)
	check("administration: scripts and policies of this version", d.admin)
	check("pkg: payload, Bom, scripts, plists, universal programs", d.pkg)
	check("intunewin: reopened and compared", d.intune)
	check("no token in any artefact", d.noToken)
	if len(os.Args) > 2 {
		check("byte by byte like the second build", func() error { return d.same(dist(os.Args[2])) })
	}
	if failed {
		os.Exit(1)
	}
}

type dist string

func (d dist) read(name string) ([]byte, error) { return os.ReadFile(filepath.Join(string(d), name)) }

func (d dist) list() (names []string, err error) {
	files, err := os.ReadDir(string(d))
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names, err
}

// version is read off the macOS package's name.
func (d dist) version() string {
	names, _ := filepath.Glob(filepath.Join(string(d), "pinta-agent-*.pkg"))
	if len(names) != 1 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(names[0]), "pinta-agent-"), ".pkg")
}

func (d dist) names() error {
	var missing []error
	for _, name := range build.Names(d.version()) {
		if _, err := os.Stat(filepath.Join(string(d), name)); err != nil {
			missing = append(missing, err)
		}
	}
	return errors.Join(missing...)
}

func (d dist) sums() error {
	text, err := d.read("SHA256SUMS")
	if err != nil {
		return err
	}
	names, err := d.list()
	if err != nil {
		return err
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		hash, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = hash
	}
	for _, name := range names {
		if name == "SHA256SUMS" {
			continue
		}
		got, err := build.SHA256(filepath.Join(string(d), name))
		if err != nil || listed[name] != got {
			return fmt.Errorf("%s: %s, listed %s (%w)", name, got, listed[name], err)
		}
		delete(listed, name)
	}
	if len(listed) > 0 {
		return fmt.Errorf("listed, but not there: %v", listed)
	}
	return nil
}

func (d dist) sbom() error {
	data, err := d.read("pinta-agent-" + d.version() + ".cdx.json")
	if err != nil {
		return err
	}
	var bom struct {
		BomFormat, SpecVersion string
		Components             []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(data, &bom); err != nil {
		return err
	}
	has := map[string]bool{}
	for _, c := range bom.Components {
		if c.Version == "" || !strings.HasPrefix(c.Purl, "pkg:golang/") {
			return fmt.Errorf("component %+v", c)
		}
		has[c.Name] = true
	}
	if bom.BomFormat != "CycloneDX" || !has["std"] || !has["go.etcd.io/bbolt"] || !has["golang.org/x/sys"] || len(has) < 20 {
		return fmt.Errorf("%s %s with %d components", bom.BomFormat, bom.SpecVersion, len(has))
	}
	return nil
}

func (d dist) archives() error {
	for _, target := range []string{"linux_amd64.tar.gz", "linux_arm64.tar.gz", "darwin_universal.tar.gz", "windows_amd64.zip", "windows_arm64.zip"} {
		name := "pinta-agent_" + d.version() + "_" + target
		data, err := d.read(name)
		if err != nil {
			return err
		}
		files, err := unpack(data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := knowsHook(files); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(files["LICENSE"]) == 0 {
			return fmt.Errorf("%s: no licence", name)
		}
	}
	return nil
}

// knowsHook: the agent's image holds the hash of the hook beside it.
func knowsHook(files map[string][]byte) error {
	agent, hook := files["pinta-agent"], files["pinta-hook"]
	if len(agent) == 0 || len(hook) == 0 {
		return errors.New("agent or hook is missing")
	}
	if !bytes.Contains(agent, []byte(sum(hook))) {
		return errors.New("the agent does not know the hash of this hook")
	}
	return nil
}

// unpack reads an archive; the keys are base names without .exe.
func unpack(data []byte) (map[string][]byte, error) {
	files := map[string][]byte{}
	if z, err := zip.NewReader(bytes.NewReader(data), int64(len(data))); err == nil {
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				return nil, err
			}
			content, err := io.ReadAll(r)
			if err != nil {
				return nil, err
			}
			files[strings.TrimSuffix(filepath.Base(f.Name), ".exe")] = content
		}
		return files, nil
	}
	g, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	t := tar.NewReader(g)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if files[filepath.Base(h.Name)], err = io.ReadAll(t); err != nil {
			return nil, err
		}
	}
}

// admin: what an MDM takes is there, made of the keys that these programs know,
// and detection asks for this version.
func (d dist) admin() error {
	data, err := d.read("pinta-agent_" + d.version() + "_admin.zip")
	if err != nil {
		return err
	}
	files, err := unpack(data)
	if err != nil {
		return err
	}
	generated, err := mdm.Files()
	if err != nil {
		return err
	}
	for name, want := range generated {
		if !bytes.Equal(files[filepath.Base(name)], want) {
			return fmt.Errorf("%s is missing or not that of this version", name)
		}
	}
	if err := links(data); err != nil {
		return err
	}
	for _, name := range []string{"detect-enforced.ps1", "remediate.ps1", "compliance.ps1", "compliance.json", "extension-attribute.sh", "compliance-check", "intune.md", "jamf.md", "linux.md"} {
		if len(files[name]) == 0 {
			return fmt.Errorf("%s is missing", name)
		}
	}
	numeric, _, _ := strings.Cut(d.version(), "-")
	if !bytes.Contains(files["detect-installed.ps1"], []byte("[version]'"+numeric+"'")) {
		return fmt.Errorf("detect-installed.ps1 does not ask for %s", numeric)
	}
	return nil
}

// link is a Markdown link to a file.
var link = regexp.MustCompile(`\]\(([^):#]+)[^)]*\)`)

// links: every page of the archive finds what it names within the archive.
func links(archive []byte) error {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return err
	}
	for _, f := range z.File {
		if !strings.Contains(f.Name, "/docs/rollout/") {
			continue
		}
		page, err := fs.ReadFile(z, f.Name)
		if err != nil {
			return err
		}
		for _, found := range link.FindAllSubmatch(page, -1) {
			if _, err := fs.Stat(z, path.Join(path.Dir(f.Name), string(found[1]))); err != nil {
				return fmt.Errorf("%s names %s: %w", f.Name, found[1], err)
			}
		}
	}
	return nil
}

func (d dist) pkg() error {
	data, err := d.read("pinta-agent-" + d.version() + ".pkg")
	if err != nil {
		return err
	}
	c, err := macpkg.Read(data)
	if err != nil {
		return err
	}
	if err := c.Match(); err != nil {
		return err
	}
	programs := map[string][]byte{}
	for _, f := range c.Payload {
		switch base := filepath.Base(f.Path); {
		case strings.HasSuffix(base, ".plist"):
			var any map[string]any
			if _, err := plist.Unmarshal(f.Data, &any); err != nil || len(any) == 0 || bytes.Contains(f.Data, []byte("@")) {
				return fmt.Errorf("%s: %w", f.Path, err)
			}
		case !f.Dir && f.Link == "" && strings.HasPrefix(base, "pinta-"):
			fat, err := macho.NewFatFile(bytes.NewReader(f.Data))
			if err != nil || len(fat.Arches) != 2 {
				return fmt.Errorf("%s is not universal: %w", f.Path, err)
			}
			programs[base] = f.Data
		}
	}
	for _, x := range [][]byte{c.Distribution, c.PackageInfo} {
		if err := xml.Unmarshal(x, new(struct{})); err != nil {
			return err
		}
	}
	if len(c.Scripts) != 3 { // the folder, preinstall, postinstall
		return fmt.Errorf("%d entries in Scripts", len(c.Scripts))
	}
	return knowsHook(programs)
}

func (d dist) intune() error {
	for _, arch := range []string{"x64", "arm64"} {
		base := "pinta-agent-" + d.version() + "-" + arch
		pack, err := d.read(base + ".intunewin")
		if err != nil {
			return err
		}
		msi, err := d.read(base + ".msi")
		if err != nil {
			return err
		}
		name, content, err := intunewin.Read(pack)
		if err != nil || name != base+".msi" || !bytes.Equal(content, msi) {
			return fmt.Errorf("%s holds %s with %d bytes, the MSI has %d: %w", base, name, len(content), len(msi), err)
		}
	}
	return nil
}

// token is the form of an enrolment token; the prefix alone is in the programs.
var token = regexp.MustCompile(`pinta_[A-Za-z0-9]{60,}`)

func (d dist) noToken() error {
	names, err := d.list()
	for _, name := range names {
		data, err := d.read(name)
		if err != nil {
			return err
		}
		contents := map[string][]byte{name: data}
		if strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".zip") {
			if contents, err = unpack(data); err != nil {
				return err
			}
		}
		for inner, content := range contents {
			if found := token.Find(content); found != nil {
				return fmt.Errorf("%s, %s: %.20s…", name, inner, found)
			}
		}
	}
	return err
}

func (d dist) same(other dist) error {
	names, err := d.list()
	if err != nil {
		return err
	}
	var differ []error
	for _, name := range names {
		a, err := d.read(name)
		if err != nil {
			return err
		}
		b, err := other.read(name)
		if err != nil || !bytes.Equal(a, b) {
			differ = append(differ, fmt.Errorf("%s differs (%v)", name, err))
		}
	}
	return errors.Join(differ...)
}
