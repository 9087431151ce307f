package guard

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/pinta-ai/pinta-agent/guard/shell"
)

// maxPaths is more than a command of 64 KiB can name. What is beyond is not
// judged, which is an overrun.
const maxPaths = 32 << 10

// resolve fills paths and writes: the files that a call names, and those among
// them that it would change, as slash paths, made absolute where the working
// folder is known, ~ for the home folder; and each command's own targets.
func (ev *Event) resolve(ctx context.Context, tool string) {
	if ev.resolved {
		return
	}
	ev.resolved = true
	in := folder{now: ev.Cwd, before: ev.Cwd}
	add := func(to *[]string, word string) {
		switch p := slashPath(word, in.now); {
		case p == "":
		case len(*to) >= maxPaths:
			ev.limited = true
		default:
			*to = append(*to, p)
		}
	}
	for _, p := range ev.named {
		add(&ev.paths, p)
		if tool == "write" || changesByName(tool) {
			add(&ev.writes, p)
		}
	}
	if tool == "write" {
		for _, p := range patched(ev.Text) {
			add(&ev.paths, p)
			add(&ev.writes, p)
		}
	}
	for _, c := range ev.Commands(ctx) {
		begin := len(ev.writes)
		for _, p := range c.Reads {
			add(&ev.paths, p)
		}
		for _, p := range c.Writes {
			add(&ev.paths, p)
			add(&ev.writes, p)
		}
		for _, w := range c.Argv {
			if _, value, ok := strings.Cut(w, "="); ok && strings.ContainsAny(value, "/\\~.") {
				add(&ev.paths, value)
			} else if !strings.HasPrefix(w, "-") {
				add(&ev.paths, w)
			}
		}
		for _, w := range changes(c) {
			add(&ev.writes, w)
		}
		if begin < len(ev.writes) {
			c.Targets = slices.Clone(ev.writes[begin:])
		}
		in.after(c)
	}
	slices.Sort(ev.paths)
	ev.paths = slices.Compact(ev.paths)
	slices.Sort(ev.writes)
	ev.writes = slices.Compact(ev.writes)
}

// folder is where a command line's commands run, one after the other.
type folder struct {
	now, before string
	pushed      []string
}

// after follows a command that changes the folder.
func (f *folder) after(c *shell.Command) {
	to := f.now
	switch name := strings.ToLower(c.Name); name {
	case "cd", "chdir", "pushd", "push-location", "set-location", "sl":
		switch {
		case len(c.Args) > 0 && c.Args[0] == "-":
			to = f.before
		case len(c.Args) > 0:
			to = slashPath(c.Args[0], f.now)
		case name == "cd":
			to = "~"
		}
		if strings.HasPrefix(name, "push") {
			f.pushed = append(f.pushed, f.now)
		}
	case "popd", "pop-location":
		if last := len(f.pushed) - 1; last >= 0 {
			to, f.pushed = f.pushed[last], f.pushed[:last]
		}
	default:
		return
	}
	f.before, f.now = f.now, to
}

// changesByName says whether an MCP tool's name promises to change files.
func changesByName(tool string) bool {
	name, ok := strings.CutPrefix(strings.ToLower(tool), "mcp:")
	return ok && slices.ContainsFunc([]string{"write", "edit", "create", "delete", "remove", "move", "rename", "update", "append", "replace", "patch", "save"},
		func(verb string) bool { return strings.Contains(name, verb) })
}

// slashPath cleans a path and joins it to cwd if it is relative.
func slashPath(word, cwd string) string {
	if word == "" || len(word) > 4096 || strings.ContainsAny(word, "\n\x00") {
		return ""
	}
	p := word
	if strings.IndexByte(p, '\\') >= 0 {
		p = strings.ReplaceAll(p, `\`, "/")
	}
	switch p[0] {
	case '$', '%':
		for _, home := range [...]string{"$HOME", "${HOME}", "%USERPROFILE%", "%HOMEPATH%", "$env:USERPROFILE", "$env:HOME", "${env:USERPROFILE}"} {
			if len(p) >= len(home) && strings.EqualFold(p[:len(home)], home) {
				p = "~" + p[len(home):]
			}
		}
	default:
		if rest, ok := strings.CutPrefix(p, "file://"); ok {
			p = rest
		} else if strings.Contains(p, "://") {
			return ""
		}
	}
	if p == "" {
		return ""
	}
	rooted := p[0] == '/' || p[0] == '~' || p[0] == '$' || p[0] == '%' || len(p) > 1 && p[1] == ':'
	if !rooted && cwd != "" {
		p = strings.ReplaceAll(cwd, `\`, "/") + "/" + p
	}
	return path.Clean(p)
}

// patched lists the files that a patch text changes.
func patched(text string) (list []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		for _, mark := range [...]string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ", "+++ ", "--- "} {
			rest, ok := strings.CutPrefix(line, mark)
			if !ok {
				continue
			}
			rest, _, _ = strings.Cut(rest, "\t")
			if rest != "/dev/null" && len(list) < maxPaths {
				list = append(list, strings.TrimPrefix(strings.TrimPrefix(rest, "a/"), "b/"))
			}
		}
	}
	return list
}

// changes are the operands of a command that it creates, changes or removes.
func changes(c *shell.Command) []string {
	has := func(flags ...string) bool {
		return slices.ContainsFunc(flags, func(f string) bool { return slices.Contains(c.Flags, f) })
	}
	last := func() []string {
		if has("t", "target-directory") || len(c.Args) == 0 {
			return c.Args
		}
		return c.Args[len(c.Args)-1:]
	}
	switch strings.ToLower(c.Name) {
	case "rm", "rmdir", "unlink", "shred", "srm", "mv", "tee", "touch", "mkdir", "truncate", "del", "erase", "rd", "ri", "move", "ren", "rename",
		"remove-item", "move-item", "mi", "rename-item", "rni", "new-item", "ni", "set-content", "sc", "add-content", "ac", "clear-content", "clc",
		"out-file", "tee-object", "rimraf", "trash", "patch", "ex", "ed", "vi", "vim", "nano", "emacs", "sponge", "setfacl", "icacls", "attrib", "takeown",
		"set-itemproperty", "set-acl":
		return c.Args
	case "chmod", "chown", "chgrp", "chattr":
		if len(c.Args) > 1 {
			return c.Args[1:]
		}
	case "cp", "ln", "install", "rsync", "scp", "copy", "copy-item", "cpi", "xcopy", "robocopy", "link":
		return last()
	case "sed", "perl", "ruby", "gsed":
		if has("i", "in-place") || slices.ContainsFunc(c.Flags, func(f string) bool { return strings.HasPrefix(f, "i") && c.Name != "ruby" }) {
			return c.Args
		}
	case "yq", "jq", "gofmt", "prettier", "eslint", "black":
		if has("i", "w", "inplace", "in-place", "write", "fix") {
			return c.Args
		}
	case "curl", "wget", "iwr", "invoke-webrequest":
		if has("o", "O", "output", "output-document", "outfile", "T") {
			return c.Args
		}
	case "dd":
		var list []string
		for _, a := range c.Args {
			if target, ok := strings.CutPrefix(a, "of="); ok {
				list = append(list, target)
			}
		}
		return list
	case "tar", "unzip", "7z":
		for i, w := range c.Argv {
			if (w == "-C" || w == "-d") && i+1 < len(c.Argv) {
				return c.Argv[i+1 : i+2]
			}
		}
	case "git":
		if len(c.Args) > 1 && slices.Contains([]string{"rm", "mv", "checkout", "restore", "clean", "config"}, c.Args[0]) {
			return c.Args[1:]
		}
	case "find":
		if has("delete") || has("exec", "execdir", "ok", "okdir") && slices.ContainsFunc(c.Args, removes) || slices.ContainsFunc(c.To, removes) {
			return startingPoints(c)
		}
	case "ls", "fd":
		if slices.ContainsFunc(c.To, removes) {
			return orHere(c.Args)
		}
	}
	return nil
}

// removes says whether a program removes what it is given, by xargs or -exec.
func removes(name string) bool {
	switch name {
	case "rm", "rmdir", "unlink", "shred", "srm", "rimraf", "trash", "mv":
		return true
	}
	return false
}

// startingPoints are the folders that find walks: what stands before its
// expression.
func startingPoints(c *shell.Command) []string {
	options := 0 // of symbolic links
	for options < len(c.Argv) && slices.Contains([]string{"-H", "-L", "-P"}, c.Argv[options]) {
		options++
	}
	list := c.Argv[options:]
	if end := slices.IndexFunc(list, func(w string) bool { return w == "(" || w == "!" || strings.HasPrefix(w, "-") }); end >= 0 {
		list = list[:end]
	}
	return orHere(list)
}

// orHere is what a program takes that is given no path.
func orHere(list []string) []string {
	if len(list) == 0 {
		return []string{"."}
	}
	return list
}
