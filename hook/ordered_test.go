package hook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The cases are read into values that keep the order of members and the digits
// of numbers, because the payload's order and digits are part of the contract:
// object, []any, string, json.Number, bool, nil.

type member struct {
	key   string
	value any
}

type object []member

func (o object) get(key string) (any, bool) {
	for _, m := range o {
		if m.key == key {
			return m.value, true
		}
	}
	return nil, false
}

func (o object) str(key, def string) string {
	if s, ok := o.any(key).(string); ok {
		return s
	}
	return def
}

func (o object) any(key string) any { v, _ := o.get(key); return v }

func (o object) obj(key string) object { v, _ := o.any(key).(object); return v }

func (o object) list(key string) []any {
	switch v := o.any(key).(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}

func (o object) num(key string, def int) int {
	if n, ok := o.any(key).(json.Number); ok {
		i, err := n.Int64()
		if err == nil {
			return int(i)
		}
	}
	return def
}

func (o object) bool(key string) bool { b, _ := o.any(key).(bool); return b }

func decodeOrdered(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d)
	if err == nil && d.More() {
		err = fmt.Errorf("more than one JSON document")
	}
	return v, err
}

func decodeValue(d *json.Decoder) (any, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		out := object{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			out = append(out, member{key.(string), v})
		}
		_, err := d.Token()
		return out, err
	case json.Delim('['):
		out := []any{}
		for d.More() {
			v, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		_, err := d.Token()
		return out, err
	}
	return tok, nil
}

func encode(v any) []byte {
	var b bytes.Buffer
	encodeTo(&b, v)
	return b.Bytes()
}

func encodeTo(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case object:
		b.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			encodeTo(b, m.key)
			b.WriteByte(':')
			encodeTo(b, m.value)
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			encodeTo(b, x)
		}
		b.WriteByte(']')
	default:
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v)
		b.Truncate(b.Len() - 1)
	}
}

// expand replaces {"$repeat": ["text", n]} by the long text it means.
func expand(v any) any {
	switch v := v.(type) {
	case object:
		if args, ok := v.any("$repeat").([]any); ok && len(v) == 1 {
			n, _ := args[1].(json.Number).Int64()
			return strings.Repeat(args[0].(string), int(n))
		}
		out := make(object, len(v))
		for i, m := range v {
			out[i] = member{m.key, expand(m.value)}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = expand(x)
		}
		return out
	}
	return v
}

var placeholder = regexp.MustCompile(`\$\{([A-Z_0-9]+)\}`)

// fill replaces ${NAME} by the name's value, everywhere.
func fill(v any, names map[string]string) any {
	switch v := v.(type) {
	case string:
		return placeholder.ReplaceAllStringFunc(v, func(s string) string {
			if value, ok := names[s[2:len(s)-1]]; ok {
				return value
			}
			return s
		})
	case object:
		out := make(object, len(v))
		for i, m := range v {
			out[i] = member{fill(m.key, names).(string), fill(m.value, names)}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = fill(x, names)
		}
		return out
	}
	return v
}

// match compares a value with what a case wants, which may hold matchers.
func match(want, got any, where string) error {
	bad := func(format string, args ...any) error { return fmt.Errorf(where+": "+format, args...) }
	text, isText := got.(string)
	if o, ok := want.(object); ok && len(o) == 1 && strings.HasPrefix(o[0].key, "$") {
		switch op, arg := o[0].key, o[0].value; op {
		case "$any":
			if got == nil {
				return bad("expected some value")
			}
		case "$re":
			if !isText || !matchRE(arg.(string), text) {
				return bad("%q does not match %q", clip(got), arg)
			}
		case "$contains", "$not_contains":
			for _, a := range (object{{op, arg}}).list(op) {
				if has := isText && strings.Contains(text, a.(string)); has != (op == "$contains") {
					return bad("%q: %s %q is false", clip(got), op, a)
				}
			}
		case "$json":
			inner, err := decodeOrdered([]byte(text))
			if !isText || err != nil {
				return bad("%q is no JSON text", clip(got))
			}
			return match(arg, inner, where+"→json")
		case "$max_bytes":
			if n, _ := arg.(json.Number).Int64(); !isText || int64(len(text)) > n {
				return bad("longer than %v bytes", arg)
			}
		case "$len":
			if n, _ := arg.(json.Number).Int64(); int64(lengthOf(got)) != n {
				return bad("length %d, expected %v", lengthOf(got), arg)
			}
		default:
			return bad("unknown matcher %s", op)
		}
		return nil
	}
	switch want := want.(type) {
	case object:
		g, ok := got.(object)
		if !ok || len(g) != len(want) {
			return bad("got %s, expected %s", clip(got), clip(want))
		}
		for _, m := range want {
			v, ok := g.get(m.key)
			if !ok {
				return bad("lacks %q", m.key)
			}
			if err := match(m.value, v, where+"."+m.key); err != nil {
				return err
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			return bad("got %s, expected %s", clip(got), clip(want))
		}
		for i := range want {
			if err := match(want[i], g[i], fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
	default:
		if want != got {
			return bad("got %s, expected %s", clip(got), clip(want))
		}
	}
	return nil
}

var longRun = regexp.MustCompile(`(\w)\{(\d{4,})\}`)

// matchRE matches text with the cases' expressions. Go's refuse repetitions as
// long as a{102400}: one stand-in letter means the whole run then.
func matchRE(pattern, text string) bool {
	if m := longRun.FindStringSubmatch(pattern); m != nil {
		n, _ := strconv.Atoi(m[2])
		pattern = strings.Replace(pattern, m[0], "\uE000", 1)
		text = strings.Replace(text, strings.Repeat(m[1], n), "\uE000", 1)
	}
	return regexp.MustCompile("(?s)" + pattern).MatchString(text)
}

func lengthOf(v any) int {
	switch v := v.(type) {
	case string:
		return len([]rune(v))
	case []any:
		return len(v)
	case object:
		return len(v)
	}
	return -1
}

func clip(v any) string {
	s, ok := v.(string)
	if !ok {
		s = string(encode(v))
	}
	if len(s) > 300 {
		s = s[:200] + fmt.Sprintf("…(%d)", len(s))
	}
	return s
}
