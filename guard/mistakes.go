package guard

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// mistakes are tool names by which a rule never matches, although they look as
// if it did: a canonical name in other letters, and a host's name that tool is
// compared to.
func (r *rule) mistakes(conditions ...ast.Expr) (list []string) {
	for _, t := range r.Tools {
		if lower := strings.ToLower(t); lower != t && canonical[t] == "" && isCanonical(lower) {
			list = append(list, fmt.Sprintf("rule %s: no host has a tool %s; the canonical name is %s", r.ID, cut(t, 40), lower))
		}
	}
	for _, root := range conditions {
		walk(root, func(e ast.Expr) {
			if e.Kind() != ast.CallKind {
				return
			}
			c := e.AsCall()
			if f := c.FunctionName(); f != operators.Equals && f != operators.In {
				return
			}
			a, b := c.Args()[0], c.Args()[1]
			if c.FunctionName() == operators.Equals && isTool(b) {
				a, b = b, a
			}
			if !isTool(a) {
				return
			}
			values := []ast.Expr{b}
			if b.Kind() == ast.ListKind {
				values = b.AsList().Elements()
			}
			for _, v := range values {
				s, ok := constantText(v)
				name := cmp.Or(canonical[s], strings.ToLower(s))
				if ok && name != s && isCanonical(name) && !isCanonical(s) {
					list = append(list, fmt.Sprintf("rule %s: tool is never %s, for it is canonical (%s); host_tool is what the host says", r.ID, cut(s, 40), name))
				}
			}
		})
	}
	return list
}

func isTool(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "tool" }

func isCanonical(name string) bool {
	switch name {
	case "shell", "read", "write", "search", "fetch", "agent":
		return true
	}
	return false
}
