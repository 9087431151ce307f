package guard

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/pinta-ai/pinta-agent/guard/detect"
	"github.com/pinta-ai/pinta-agent/guard/literal"
)

// Compiled is a policy ready to judge by. It is immutable.
type Compiled struct {
	Policy
	Warnings []string

	input, output []*rule // most severe first, then in file order
	words         *literal.Set
	mcp           []string // the mcp:SERVER/TOOL names that the rules mention
}

// rule is a compiled rule.
type rule struct {
	Rule
	builtin      bool
	tools        toolSet
	when, except cel.Program
	until        time.Time
	need         need
	resolves     bool // a condition reads paths, writes or targets
	paths        bool // when does
	pathParts    need // of such a rule, by what paths are made of
	free         bool // needs no literal although its condition reads the input
	detectors    detect.Selection
	secrets      bool // a condition reads secrets
	warnings     []string
}

// RuleError says which rule can't be compiled, and why.
type RuleError struct {
	Rule string
	Err  error
}

func (e *RuleError) Error() string { return fmt.Sprintf("rule %s: %v", e.Rule, e.Err) }
func (e *RuleError) Unwrap() error { return e.Err }

// Compile checks a policy the way publishing does: values, types, cost and
// patterns of every condition. All faulty rules are named.
func Compile(p *Policy) (*Compiled, error) { return compile(p, nil) }

// compile puts the rules of base before the policy's own; a rule of the policy
// with the same id replaces one of base.
func compile(p *Policy, base []Rule) (*Compiled, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	c := &Compiled{Policy: *p}
	list := slices.DeleteFunc(slices.Clone(base), func(b Rule) bool {
		return slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.ID == b.ID })
	})
	builtin := len(list)
	list = append(list, p.Rules...)

	rules, mentions, problems := make([]*rule, len(list)), make([][]string, len(list)), make([]error, len(list))
	var next sync.Mutex
	at := 0
	var done sync.WaitGroup
	for range min(len(list), runtime.GOMAXPROCS(0)) {
		done.Go(func() {
			for {
				next.Lock()
				i := at
				at++
				next.Unlock()
				if i >= len(list) {
					return
				}
				r, mcp, err := compileRule(list[i])
				if err != nil {
					problems[i] = &RuleError{list[i].ID, err}
					continue
				}
				r.builtin = i < builtin
				rules[i], mentions[i] = r, mcp
			}
		})
	}
	done.Wait()
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	ids, words := map[string]int{}, []string(nil)
	for i, r := range rules {
		r.need.number(ids, &words)
		r.pathParts.number(ids, &words)
		c.mcp = append(c.mcp, mentions[i]...)
		c.Warnings = append(c.Warnings, r.warnings...)
		if r.free && !r.Slow {
			c.Warnings = append(c.Warnings, fmt.Sprintf("rule %s: no literal can be derived from when, so inputs over %d KiB are not judged by it (they count as an overrun); add a literal or slow: true", r.ID, freeLimit>>10))
		}
		if r.On == "tool_input" {
			c.input = append(c.input, r)
		} else {
			c.output = append(c.output, r)
		}
	}
	slices.Sort(c.mcp)
	c.mcp = slices.Compact(c.mcp)
	c.words = literal.New(words)
	severe := func(a, b *rule) int { return slices.Index(actions, a.Action) - slices.Index(actions, b.Action) }
	slices.SortStableFunc(c.input, severe)
	slices.SortStableFunc(c.output, severe)
	return c, nil
}

func compileRule(r Rule) (*rule, []string, error) {
	c := &rule{Rule: r, tools: newToolSet(r.Tools)}
	mcp := slices.DeleteFunc(slices.Clone(r.Tools), func(t string) bool { return !strings.HasPrefix(t, "mcp:") })
	if r.Until != "" {
		c.until, _ = untilTime(r.Until)
	}
	if len(r.Detect) > 0 {
		var err error
		if c.detectors, err = detect.Standard().Select(r.Detect...); err != nil {
			return nil, nil, fmt.Errorf("detect: %w", err)
		}
	}
	var conditions []ast.Expr
	if r.When != "" {
		program, checked, err := compileExpression(r.When)
		if err != nil {
			return nil, nil, fmt.Errorf("when: %w", err)
		}
		root := checked.NativeRep().Expr()
		conditions = append(conditions, root)
		c.when, c.need = program, needs(root, nil)
		c.free = c.need.free() && readsText(root)
		c.secrets = mentionsIdent(root, "secrets")
		if c.paths = readsPaths(root); c.paths {
			c.resolves, c.pathParts = true, c.need.parts()
		}
		mcp = append(mcp, mcpConstants(root)...)
	}
	if r.Except != "" {
		program, checked, err := compileExpression(r.Except)
		if err != nil {
			return nil, nil, fmt.Errorf("except: %w", err)
		}
		c.except = program
		root := checked.NativeRep().Expr()
		conditions = append(conditions, root)
		c.secrets = c.secrets || mentionsIdent(root, "secrets")
		c.resolves = c.resolves || readsPaths(root)
		mcp = append(mcp, mcpConstants(root)...)
	}
	c.warnings = c.mistakes(conditions...)
	return c, mcp, nil
}

func compileExpression(source string) (cel.Program, *cel.Ast, error) {
	env := environment()
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		e := issues.Errors()[0]
		return nil, nil, fmt.Errorf("%s (line %d of the expression, column %d)", e.Message, e.Location.Line(), e.Location.Column()+1)
	}
	if checked.OutputType() != cel.BoolType {
		return nil, nil, fmt.Errorf("gives %s; a condition gives true or false", cel.FormatCELType(checked.OutputType()))
	}
	if err := checkPatterns(checked.NativeRep().Expr()); err != nil {
		return nil, nil, err
	}
	if err := checkGrowth(checked.NativeRep().Expr()); err != nil {
		return nil, nil, err
	}
	cost, err := env.EstimateCost(checked, sizes{})
	if err != nil {
		return nil, nil, fmt.Errorf("estimate its cost: %w", err)
	}
	if cost.Max > maxCost {
		return nil, nil, fmt.Errorf("may cost %d steps for one call, at most %d are taken; nest fewer exists and shorten patterns", cost.Max, maxCost)
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.InterruptCheckFrequency(64))
	if err != nil {
		return nil, nil, err
	}
	return program, checked, nil
}

// checkPatterns refuses regular expressions that are no constants, and those
// whose program is huge: time and memory of a match grow with it.
func checkPatterns(root ast.Expr) (problem error) {
	walk(root, func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "matches" {
			return
		}
		args := e.AsCall().Args()
		pattern := args[len(args)-1]
		v, ok := types.String(""), false
		if pattern.Kind() == ast.LiteralKind {
			v, ok = pattern.AsLiteral().(types.String)
		}
		if !ok {
			problem = errors.New("the pattern of matches has to be a constant")
			return
		}
		if err := checkPattern(string(v)); err != nil {
			problem = err
		}
	})
	return problem
}

// walk visits each expression below and at e.
func walk(e ast.Expr, visit func(ast.Expr)) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(visit))
}

func mentionsIdent(root ast.Expr, names ...string) (found bool) {
	walk(root, func(e ast.Expr) {
		found = found || e.Kind() == ast.IdentKind && slices.Contains(names, e.AsIdent())
	})
	return found
}

// readsPaths says whether a condition needs what Event.resolve works out.
func readsPaths(root ast.Expr) (found bool) {
	walk(root, func(e ast.Expr) {
		found = found || e.Kind() == ast.SelectKind && e.AsSelect().FieldName() == "targets"
	})
	return found || mentionsIdent(root, "paths", "writes")
}

// readsText says whether a condition's cost grows with the input: it reads a
// text or a list for more than its size or presence.
func readsText(root ast.Expr) bool {
	reads := 0
	walk(root, func(e ast.Expr) {
		switch {
		case e.Kind() == ast.IdentKind && slices.Contains([]string{"text", "output", "commands", "input", "paths", "writes"}, e.AsIdent()):
			reads++
		case e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Equals, e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "size":
			c := e.AsCall()
			for _, a := range append(slices.Clone(c.Args()), c.Target()) {
				if a != nil && a.Kind() == ast.IdentKind && slices.Contains([]string{"text", "output", "commands", "input", "paths", "writes"}, a.AsIdent()) {
					reads--
				}
			}
		}
	})
	return reads > 0
}

func mcpConstants(root ast.Expr) (list []string) {
	walk(root, func(e ast.Expr) {
		if e.Kind() == ast.LiteralKind {
			if s, ok := e.AsLiteral().(types.String); ok && strings.HasPrefix(string(s), "mcp:") {
				list = append(list, string(s))
			}
		}
	})
	return list
}
