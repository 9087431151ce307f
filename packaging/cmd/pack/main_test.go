package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What can't be packed is said at once, with the remedy.
func TestMistakes(t *testing.T) {
	file, stale := filepath.Join(t.TempDir(), "file"), t.TempDir()
	for _, path := range []string{file, filepath.Join(stale, "pinta-agent-0.9.0.pkg")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, path, dir string
		args, wants     []string
	}{
		{name: "nothing given", wants: []string{"usage:", "--version V --out DIR"}},
		{name: "no folder", args: []string{"--version", "1.2.3"}, wants: []string{"usage:"}},
		{name: "no version", args: []string{"--version", "latest", "--out", "x"}, wants: []string{`"latest"`, "MAJOR.MINOR.PATCH"}},
		{name: "unknown group", args: []string{"--version", "1.2.3", "--out", "x", "--only", "linux,beos"}, wants: []string{"beos", "linux, windows, darwin"}},
		{name: "no tools", path: t.TempDir(), args: []string{"--version", "1.2.3", "--out", "x"},
			wants: []string{"wixl is missing: install it with `apt-get install wixl`", "msibuild is missing: install it with `apt-get install msitools`"}},
		{name: "elsewhere", dir: t.TempDir(), args: []string{"--version", "1.2.3", "--out", "x", "--only", "linux"}, wants: []string{"repository's root"}},
		{name: "the folder is a file", args: []string{"--version", "1.2.3", "--out", file, "--only", "linux"}, wants: []string{file}},
		{name: "another release lies there", args: []string{"--version", "1.2.3", "--out", stale, "--only", "linux"}, wants: []string{"pinta-agent-0.9.0.pkg", "another folder"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.dir == "" {
				c.dir = filepath.Join("..", "..", "..")
			}
			t.Chdir(c.dir)
			if c.path != "" {
				t.Setenv("PATH", c.path)
			}
			err := pack(t.Context(), c.args)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("a folder was made")
	}
}
