package build

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
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
