package spool

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// disk is what a Spool asks of its folder. Each method is one step that a kill
// can fall before, after or (writes) into.
type disk interface {
	Create(name string) (file, error) // new, append-only
	Open(name string) (reader, error)
	Names() ([]string, error)
	ReadAll(name string) ([]byte, error) // fs.ErrNotExist if there is none
	Replace(name string, data []byte) error
	AppendTo(name string, data []byte) error
	Remove(name string) error
	SyncDir() error
}

type file interface {
	io.WriteCloser
	Sync() error
}

type reader interface {
	io.ReaderAt
	io.Closer
}

type folder string

func (d folder) path(name string) string { return filepath.Join(string(d), name) }

func (d folder) Create(name string) (file, error) {
	f, err := safefile.Open(d.path(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d folder) Open(name string) (reader, error) {
	f, err := safefile.Open(d.path(name), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d folder) Names() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (d folder) ReadAll(name string) ([]byte, error) {
	return safefile.ReadFile(d.path(name), 64<<20)
}

func (d folder) Replace(name string, data []byte) error {
	return safefile.WriteFile(d.path(name), data, safefile.Private)
}

func (d folder) AppendTo(name string, data []byte) error {
	f, err := safefile.Open(d.path(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func (d folder) Remove(name string) error {
	err := os.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// SyncDir makes the names of new segments durable. Windows has no such call;
// NTFS journals them.
func (d folder) SyncDir() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
