package guard

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"

	"github.com/pinta-ai/pinta-agent/guard/shell"
)

const (
	maxExpression = 8 << 10 // bytes of one expression
	maxCost       = 20_000_000
	maxPattern    = 4 << 10 // bytes of one regular expression
	maxProgram    = 20_000  // instructions of one regular expression
)

// variables of a condition (manager.md 3.1), and paths and writes: the files
// that a call names and those it would write, with ~ for the home folder. A
// command's targets are those of the writes that are its own.
var variables = map[string]*cel.Type{
	"kind": cel.StringType, "surface": cel.StringType, "tool": cel.StringType, "host_tool": cel.StringType,
	"input": cel.MapType(cel.StringType, cel.DynType), "text": cel.StringType,
	"commands": cel.ListType(commandType), "output": cel.StringType, "cwd": cel.StringType, "user": cel.StringType,
	"group": cel.StringType, "host": cel.StringType, "model": cel.StringType, "secrets": cel.ListType(secretType),
	"paths": cel.ListType(cel.StringType), "writes": cel.ListType(cel.StringType),
}

var (
	commandType = cel.ObjectType("pinta.Command")
	secretType  = cel.ObjectType("pinta.Secret")
	stringList  = types.NewListType(types.StringType)
)

// field is a member of an object type that a condition can read.
type field struct {
	typ *types.Type
	get func(any) any
}

var objects = map[string]map[string]field{
	"pinta.Command": {
		"name":   {types.StringType, func(v any) any { return v.(*shell.Command).Name }},
		"path":   {types.StringType, func(v any) any { return v.(*shell.Command).Path }},
		"argv":   {stringList, func(v any) any { return v.(*shell.Command).Argv }},
		"args":   {stringList, func(v any) any { return v.(*shell.Command).Args }},
		"flags":  {stringList, func(v any) any { return v.(*shell.Command).Flags }},
		"env":    {stringList, func(v any) any { return v.(*shell.Command).Env }},
		"reads":  {stringList, func(v any) any { return v.(*shell.Command).Reads }},
		"writes": {stringList, func(v any) any { return v.(*shell.Command).Writes }},
		"via":    {stringList, func(v any) any { return v.(*shell.Command).Via }},
		"from":   {stringList, func(v any) any { return v.(*shell.Command).From }},
		"to":     {stringList, func(v any) any { return v.(*shell.Command).To }},

		"targets": {stringList, func(v any) any { return v.(*shell.Command).Targets }},
	},
	"pinta.Secret": {
		"type":   {types.StringType, func(v any) any { return v.(*Secret).Type }},
		"origin": {types.StringType, func(v any) any { return v.(*Secret).Origin }},
	},
}

// Secret is what a condition sees of a finding: its kind, and whether it was in
// the input or the output.
type Secret struct{ Type, Origin string }

// object is a CEL value of one of the object types.
type object struct {
	typ   *types.Type
	value any
}

func (o object) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s can't become %v", o.typ, t)
}

func (o object) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return o.typ
	}
	return types.NewErr("%s can't become %s", o.typ.TypeName(), t.TypeName())
}

func (o object) Equal(other ref.Val) ref.Val { return types.Bool(other.Value() == o.value) }
func (o object) Type() ref.Type              { return o.typ }
func (o object) Value() any                  { return o.value }

// provider adds the object types to CEL's own.
type provider struct{ *types.Registry }

func (p provider) FindStructType(name string) (*types.Type, bool) {
	if _, ok := objects[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Registry.FindStructType(name)
}

func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	if fields, ok := objects[name]; ok {
		var names []string
		for n := range fields {
			names = append(names, n)
		}
		return names, true
	}
	return p.Registry.FindStructFieldNames(name)
}

func (p provider) FindStructFieldType(name, fieldName string) (*types.FieldType, bool) {
	if fields, ok := objects[name]; ok {
		f, ok := fields[fieldName]
		if !ok {
			return nil, false
		}
		return &types.FieldType{Type: f.typ, IsSet: func(any) bool { return true },
			GetFrom: func(v any) (any, error) { return f.get(v), nil }}, true
	}
	return p.Registry.FindStructFieldType(name, fieldName)
}

var environment = sync.OnceValue(func() *cel.Env {
	registry, err := types.NewRegistry()
	if err != nil {
		panic("guard: " + err.Error())
	}
	opts := []cel.EnvOption{
		cel.CustomTypeProvider(provider{registry}), cel.CustomTypeAdapter(registry),
		cel.CrossTypeNumericComparisons(true), ext.Strings(ext.StringsVersion(2)),
		cel.ParserExpressionSizeLimit(maxExpression), cel.ParserRecursionLimit(100),
		cel.ASTValidators(cel.ValidateComprehensionNestingLimit(4)),
	}
	for name, t := range variables {
		opts = append(opts, cel.Variable(name, t))
	}
	env, err := cel.NewEnv(opts...)
	if err != nil {
		panic("guard: " + err.Error())
	}
	return env
})

// sizes estimates the inputs that a condition's cost is limited for: a text of
// 64 KiB and a command line of 64 commands.
type sizes struct{}

func (sizes) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	path := n.Path()
	if len(path) == 0 {
		return &checker.SizeEstimate{Max: 256}
	}
	switch last := path[len(path)-1]; {
	case len(path) == 1 && (path[0] == "text" || path[0] == "output"):
		return &checker.SizeEstimate{Max: 64 << 10}
	case len(path) == 1 && (path[0] == "commands" || path[0] == "secrets" || path[0] == "paths" || path[0] == "writes"):
		return &checker.SizeEstimate{Max: 64}
	case path[0] == "input":
		return &checker.SizeEstimate{Max: 4096}
	case last == "@items":
		return &checker.SizeEstimate{Max: 256}
	case path[0] == "commands":
		return &checker.SizeEstimate{Max: 32}
	}
	return &checker.SizeEstimate{Max: 256}
}

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
