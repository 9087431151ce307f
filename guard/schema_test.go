package guard

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestSchema: the published schema names the keys, values and bounds of the code.
func TestSchema(t *testing.T) {
	type node struct {
		Properties map[string]node
		Required   []string
		Enum       []string
		Items      *node
		MaxItems   int
		MaxLength  int
		Maximum    int
		Additional any `json:"additionalProperties"`
	}
	var root node
	if err := json.Unmarshal(Schema, &root); err != nil {
		t.Fatal(err)
	}
	keys := func(n node) (list []string) {
		for k := range n.Properties {
			list = append(list, k)
		}
		slices.Sort(list)
		return list
	}
	fields := func(v any) (list []string) {
		for i := range reflect.TypeOf(v).NumField() {
			name, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ",")
			list = append(list, name)
		}
		slices.Sort(list)
		return list
	}
	rules := root.Properties["rules"]
	rule := *rules.Items
	for name, c := range map[string]struct{ schema, code []string }{
		"policy":    {keys(root), append(fields(Policy{}), "telemetry")},
		"remote":    {keys(root.Properties["remote"]), fields(Remote{})},
		"telemetry": {keys(root.Properties["telemetry"]), fields(Telemetry{})},
		"rule":      {keys(rule), fields(Rule{})},
		"rule keys": {keys(rule), slices.Clone(ruleKeys)},
		"actions":   {rule.Properties["action"].Enum, slices.Clone(actions)},
	} {
		slices.Sort(c.schema)
		slices.Sort(c.code)
		if !slices.Equal(c.schema, c.code) {
			t.Errorf("%s: schema %v, code %v", name, c.schema, c.code)
		}
	}
	if rules.MaxItems != MaxRules || rule.Properties["when"].MaxLength != maxExpression || rule.Properties["message"].MaxLength != maxText ||
		root.Properties["timeoutMs"].Maximum != maxTimeoutMs || root.Additional != false || rule.Additional != false {
		t.Error("a bound differs")
	}
}
