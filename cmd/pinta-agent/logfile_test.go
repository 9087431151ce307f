package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.log")
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range 3 * maxLog / len(line) {
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + ".1"} {
		info, err := os.Stat(name)
		if err != nil || info.Size() == 0 || info.Size() > maxLog {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 2 {
		t.Errorf("%d files, %v", len(files), err)
	}
	again, err := openLog(path)
	if err != nil || again.size == 0 {
		t.Errorf("a log is not continued: %v", err)
	}
	if err == nil {
		again.Close()
	}
}
