package macpkg

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"time"
)

// payload is a gzipped cpio archive in the odc form (octal fields), owned by
// root and wheel.
func payload(files []File, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	entry := func(ino int, name string, mode uint16, links int, mtime int64, data []byte) error {
		_, err := fmt.Fprintf(z, "070707%06o%06o%06o%06o%06o%06o%06o%011o%06o%011o%s\x00", 0, ino, mode, 0, 0, links, 0, mtime, len(name)+1, len(data), name)
		if err == nil {
			_, err = z.Write(data)
		}
		return err
	}
	for i, f := range files {
		name, links := "./"+f.Path, 1
		if f.Path == "." {
			name = "."
		}
		if f.Dir {
			links = 2
		}
		if err := entry(i+1, name, f.mode(), links, at.Unix(), f.content()); err != nil {
			return nil, err
		}
	}
	if err := entry(0, "TRAILER!!!", 0, 1, 0, nil); err != nil {
		return nil, err
	}
	err = z.Close()
	return out.Bytes(), err
}
