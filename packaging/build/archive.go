package build

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Entry is a file of an archive.
type Entry struct {
	Name string // slash-separated
	From string
	Mode int64
}

// Archive writes a .tar.gz or .zip by its name's ending.
func (r Release) Archive(to string, entries []Entry) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if strings.HasSuffix(to, ".zip") {
		return r.zip(f, entries)
	}
	return r.tar(f, entries)
}

func (r Release) tar(w io.Writer, entries []Entry) error {
	g, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(g)
	for _, e := range entries {
		data, err := os.ReadFile(e.From)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: e.Name, Mode: e.Mode, Size: int64(len(data)), ModTime: r.Time, Format: tar.FormatPAX, Uname: "root", Gname: "root"}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), g.Close())
}

func (r Release) zip(w io.Writer, entries []Entry) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, e := range entries {
		data, err := os.ReadFile(e.From)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: e.Name, Method: zip.Deflate, Modified: r.Time.UTC()}
		h.SetMode(os.FileMode(e.Mode)) //nolint:gosec // one of two constants
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			return err
		}
	}
	return z.Close()
}

// Archives writes the plain archives of what Programs built: agent, hook and
// the documents that a licence asks for.
func (r Release) Archives() error {
	for _, target := range []string{"linux/amd64", "linux/arm64", "darwin/universal", "windows/amd64", "windows/arm64"} {
		goos, arch := path.Dir(target), path.Base(target)
		ext, suffix := ".tar.gz", ""
		if goos == "windows" {
			ext, suffix = ".zip", ".exe"
		}
		name := fmt.Sprintf("pinta-agent_%s_%s_%s", r.Version, goos, arch)
		var entries []Entry
		for _, program := range []string{"pinta-agent" + suffix, "pinta-hook" + suffix} {
			entries = append(entries, Entry{name + "/" + program, filepath.Join(r.Dir(goos, arch), program), 0o755})
		}
		for _, doc := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
			entries = append(entries, Entry{name + "/" + doc, doc, 0o644})
		}
		if err := r.Archive(filepath.Join(r.Out, name+ext), entries); err != nil {
			return err
		}
	}
	return nil
}

// Administration writes the archive of what an administrator puts into an MDM
// or a directory, with the pages that tell how.
func (r Release) Administration() error {
	name := fmt.Sprintf("pinta-agent_%s_admin", r.Version)
	var entries []Entry
	for _, dir := range []string{"packaging/mdm/out", "packaging/intune", "packaging/jamf", "docs/rollout"} {
		err := filepath.WalkDir(dir, func(from string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				entries = append(entries, Entry{name + "/" + from, from, 0o644})
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	entries = append(entries, Entry{name + "/packaging/linux/compliance-check", "packaging/linux/compliance-check", 0o755},
		Entry{name + "/docs/settings.md", "docs/settings.md", 0o644}, Entry{name + "/docs/threat-model.md", "docs/threat-model.md", 0o644}, Entry{name + "/LICENSE", "LICENSE", 0o644})
	for i, e := range entries {
		if filepath.Base(e.From) != "detect-installed.ps1" {
			continue
		}
		text, err := os.ReadFile(e.From)
		if err != nil {
			return err
		}
		entries[i].From = filepath.Join(r.Stage, "detect-installed.ps1")
		if err := os.WriteFile(entries[i].From, bytes.ReplaceAll(text, []byte("@VERSION@"), []byte(r.Numeric())), 0o644); err != nil { //nolint:gosec // public
			return err
		}
	}
	return r.Archive(filepath.Join(r.Out, name+".zip"), entries)
}
