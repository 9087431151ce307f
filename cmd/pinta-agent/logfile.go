package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// maxLog bounds a log file, in bytes; one older file is kept beside it.
const maxLog = 4 << 20

// logFile is a log for service managers that keep none.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	return l, nil
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write appends p; a full file makes way first.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > maxLog {
		if err := l.turn(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *logFile) turn() error {
	if err := l.file.Close(); err != nil {
		return err
	}
	if err := os.Remove(l.path + ".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, l.open())
	}
	err := os.Rename(l.path, l.path+".1") //nolint:forbidigo // turns a log, writes none
	return errors.Join(err, l.open())
}

// Close ends the log.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
