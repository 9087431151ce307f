// Package e2e_test holds what the documents claim against the tree.
package e2e_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = ".."

// goFiles calls f with each Go file of the tree, testdata left out.
func goFiles(t *testing.T, f func(path string, file *ast.File)) {
	t.Helper()
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", path, err)
		}
		f(path, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// testNames are the tests of the tree, and the literal names of subtests by
// test: t.Run("name" and the first string of table rows.
func testNames(t *testing.T) (tests map[string]map[string]bool) {
	t.Helper()
	tests = map[string]map[string]bool{}
	goFiles(t, func(path string, file *ast.File) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		strs := map[string]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					strs[s] = true
				}
			}
			return true
		})
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				if tests[f.Name.Name] == nil {
					tests[f.Name.Name] = map[string]bool{}
				}
				maps.Copy(tests[f.Name.Name], strs)
			}
		}
	})
	return tests
}

var quoted = regexp.MustCompile("`([^`]+)`")

// TestThreatModel: each requirement S1 to S19 names tests that exist, each
// residual has its number, and hosts.md refers to residuals that exist.
func TestThreatModel(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	named := map[string]int{}
	residuals := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(line, "|")
		id := ""
		if len(cells) > 3 {
			id = strings.TrimSpace(cells[1])
		}
		if regexp.MustCompile(`^R\d+$`).MatchString(id) {
			if residuals[id] {
				t.Errorf("residual %s is there twice", id)
			}
			residuals[id] = true
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			name := m[1]
			switch {
			case strings.HasPrefix(name, "Test"):
				top, sub, _ := strings.Cut(name, "/")
				literals, ok := tests[top]
				if !ok {
					t.Errorf("%s: no test %s", id, top)
					continue
				}
				for part := range strings.SplitSeq(sub, "/") {
					if part != "" && !literals[part] && !literals[strings.ReplaceAll(part, "_", " ")] {
						t.Errorf("%s: %s has no subtest %q", id, top, part)
					}
				}
			case strings.HasPrefix(name, "packaging/"):
				file, check, _ := strings.Cut(name, ": ")
				script, err := os.ReadFile(filepath.Join(root, file))
				if err != nil || !strings.Contains(string(script), check) {
					t.Errorf("%s: %s does not check %q: %v", id, file, check, err)
				}
			default:
				continue
			}
			named[id]++
		}
	}
	for i := 1; i <= 19; i++ {
		if id := fmt.Sprintf("S%d", i); named[id] == 0 {
			t.Errorf("requirement %s names no test", id)
		}
	}
	for i := range residuals {
		if n, _ := strconv.Atoi(i[1:]); n < 1 || n > len(residuals) {
			t.Errorf("residuals are not numbered from 1 on: %s", i)
		}
	}
	hosts, err := os.ReadFile(filepath.Join(root, "docs", "hosts.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\b(R\d+)\b`).FindAllStringSubmatch(string(hosts), -1) {
		if !residuals[m[1]] {
			t.Errorf("hosts.md refers to %s, which threat-model.md does not have", m[1])
		}
	}
}

// TestFindingsExist: the ids of findings that the threat model names are those
// of doctor.
func TestFindingsExist(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	goFiles(t, func(path string, file *ast.File) {
		if !strings.HasPrefix(filepath.ToSlash(path), "../installer/") || strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				s, _ := strconv.Unquote(lit.Value)
				known[s] = true
				known["client."+s] = true // built from the gap's name
			}
			return true
		})
	})
	for _, m := range regexp.MustCompile("`((?:client|shadowed|environment|session)\\.[a-z-]+)`").FindAllStringSubmatch(string(data), -1) {
		if !known[m[1]] {
			t.Errorf("doctor has no finding %s", m[1])
		}
	}
}

// TestProgramsByAbsolutePath: what runs on an endpoint starts programs by
// absolute path, and looks none up (security.md S3). The demo and the
// end-to-end tests run by hand in a checkout, and are no part of that.
func TestProgramsByAbsolutePath(t *testing.T) {
	folders := []string{"cmd", "enroll", "guard", "hook", "installer", "internal", "manager", "sync"}
	found := 0
	goFiles(t, func(path string, file *ast.File) {
		rel, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(filepath.ToSlash(rel), "/")
		if !slices.Contains(folders, parts[0]) || strings.HasSuffix(path, "_test.go") || slices.ContainsFunc(parts, func(s string) bool {
			return s == "demo" || s == "bench" || s == "fleetsim"
		}) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := fun.X.(*ast.Ident); !ok || pkg.Name != "exec" {
				return true
			}
			arg := -1
			switch fun.Sel.Name {
			case "LookPath":
				t.Errorf("%s looks a program up", rel)
			case "Command":
				arg = 0
			case "CommandContext":
				arg = 1
			}
			if arg < 0 || len(call.Args) <= arg {
				return true
			}
			found++
			if lit, ok := call.Args[arg].(*ast.BasicLit); ok {
				program, _ := strconv.Unquote(lit.Value)
				if !strings.HasPrefix(program, "/") && !strings.Contains(program, `:\`) {
					t.Errorf("%s starts %q by name", rel, program)
				}
				if base := filepath.Base(program); base == "sh" || base == "bash" || base == "cmd.exe" {
					t.Errorf("%s starts a shell", rel)
				}
			}
			return true
		})
	})
	if found == 0 {
		t.Error("no started program was found: the check looks at the wrong place")
	}
}
