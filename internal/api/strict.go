package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// maxDepth caps the nesting of a document before any recursive parser sees it.
const maxDepth = 64

// Strict decodes a signed document: one object, no unknown field, no key twice (in whatever case), every required field
// there, nothing behind it. The errors name fields, never values.
func Strict(data []byte, v any) error {
	if err := scan(data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		var te *json.UnmarshalTypeError
		switch {
		case errors.As(err, &te):
			return fmt.Errorf("field %s has the wrong type", te.Field)
		case strings.HasPrefix(err.Error(), "json: unknown field"):
			return errors.New(strings.TrimPrefix(err.Error(), "json: "))
		}
		return errors.New("is no JSON object of its kind")
	}
	return complete(data, reflect.TypeOf(v))
}

// scan walks the tokens: depth, repeated keys, trailing data.
func scan(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type level struct {
		keys map[string]bool // nil in an array
		key  bool            // a key comes next
	}
	var stack []level
	for first := true; ; first = false {
		t, err := d.Token()
		if err == io.EOF && !first && len(stack) == 0 {
			return nil
		}
		if err != nil {
			return errors.New("is no JSON")
		}
		if !first && len(stack) == 0 {
			return errors.New("has something behind it")
		}
		if first && t != json.Delim('{') {
			return errors.New("is no JSON object")
		}
		if len(stack) > 0 {
			if top := &stack[len(stack)-1]; top.keys != nil {
				if name, isKey := t.(string); top.key && isKey {
					folded := strings.ToLower(name)
					if top.keys[folded] {
						return errors.New("has a key twice")
					}
					top.keys[folded], top.key = true, false
					continue
				}
				top.key = true
			}
		}
		switch t {
		case json.Delim('{'):
			stack = append(stack, level{keys: map[string]bool{}, key: true})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
		if len(stack) > maxDepth {
			return fmt.Errorf("is nested deeper than %d", maxDepth)
		}
	}
}

// complete checks that the fields without omitempty are there and spelled exactly so, on the top level: encoding/json
// takes an absent field and another case in silence.
func complete(data []byte, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var have map[string]json.RawMessage
	if err := json.Unmarshal(data, &have); err != nil {
		return errors.New("is no JSON object")
	}
	known := map[string]bool{}
	for i := range t.NumField() {
		name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[name] = true
		if raw, ok := have[name]; (!ok || string(raw) == "null") && !strings.Contains(opts, "omitempty") {
			return fmt.Errorf("lacks field %s", name)
		}
	}
	for name := range have {
		if !known[name] {
			return errors.New("spells a field in another case")
		}
	}
	return nil
}
