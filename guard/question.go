package guard

import (
	"bytes"
	"slices"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// attribute is one of a span's or resource's: strings as they are quoted,
// numbers and booleans as they stand. Lists and maps are strings of JSON, as the
// hook sends a tool's input.
type attribute struct {
	key, kind string // kind as OTLP names it: stringValue, intValue
	value     []byte
}

// questionReader says what is to be done with the parts of a guard question.
type questionReader struct {
	other     func(key string) // each member of the whole
	more      func()           // each span, scope or resource after the first
	resource  func(attribute)
	span      func()
	member    func(key string, value []byte) // each member of the span but its attributes
	attribute func(attribute)
}

// readQuestion reads OTLP JSON that is valid and not too deep; of each array the
// first element counts, for a hook asks by one span.
func readQuestion(body []byte, q questionReader) {
	c := &cursor{data: body}
	first := func(read func()) {
		n := 0
		c.array(func() {
			if n++; n > 1 {
				q.more()
				c.skip()
				return
			}
			read()
		})
	}
	member := func(name string, read func()) func(string) {
		return func(key string) {
			if key != name {
				c.skip()
				return
			}
			read()
		}
	}
	span := func() {
		q.span()
		c.object(func(key string) {
			if key == "attributes" {
				attributes(c, q.attribute)
				return
			}
			q.member(key, c.skip())
		})
	}
	c.object(func(key string) {
		q.other(key)
		if key != "resourceSpans" {
			c.skip()
			return
		}
		first(func() {
			c.object(func(key string) {
				switch key {
				case "resource":
					c.object(member("attributes", func() { attributes(c, q.resource) }))
				case "scopeSpans":
					first(func() { c.object(member("spans", func() { first(span) })) })
				default:
					c.skip()
				}
			})
		})
	})
}

func attributes(c *cursor, do func(attribute)) {
	c.array(func() {
		var a attribute
		c.object(func(member string) {
			switch member {
			case "key":
				a.key, _ = rawjson.Unquote(c.skip())
			case "value":
				c.object(func(kind string) {
					switch kind {
					case "stringValue", "intValue", "doubleValue", "boolValue":
						a.kind, a.value = kind, c.skip()
					case "kvlistValue", "arrayValue":
						a.kind, a.value = "stringValue", rawjson.AppendQuote(nil, string(appendAny(nil, c, kind)))
					default:
						c.skip()
					}
				})
			default:
				c.skip()
			}
		})
		if a.key != "" && a.value != nil {
			do(a)
		}
	})
}

// appendAny appends an OTLP value of a kind as plain JSON.
func appendAny(dst []byte, c *cursor, kind string) []byte {
	one := func() { // {"stringValue": "a"}; without a kind it is null
		at := len(dst)
		c.object(func(kind string) { dst = appendAny(dst[:at], c, kind) })
		if len(dst) == at {
			dst = append(dst, "null"...)
		}
	}
	list := func(open byte, do func()) {
		dst = append(dst, open)
		c.object(func(member string) {
			if member != "values" {
				c.skip()
				return
			}
			c.array(func() {
				if last := dst[len(dst)-1]; last != open {
					dst = append(dst, ',')
				}
				do()
			})
		})
		dst = append(dst, open+2) // '[' + 2 is ']'
	}
	switch kind {
	case "arrayValue":
		list('[', one)
	case "kvlistValue":
		list('{', func() {
			at, key := len(dst), []byte(`""`)
			c.object(func(member string) {
				switch member {
				case "key":
					if key = c.skip(); key[0] != '"' {
						key = rawjson.AppendQuote(nil, string(key))
					}
				case "value":
					dst = dst[:at]
					one()
				default:
					c.skip()
				}
			})
			if len(dst) == at {
				dst = append(dst, "null"...)
			}
			dst = slices.Insert(dst, at, append(bytes.Clone(key), ':')...)
		})
	case "intValue": // a string in OTLP's JSON
		number := c.skip()
		if text := bytes.Trim(number, `"`); rawjson.Valid(text) {
			number = text
		}
		dst = append(dst, number...)
	default:
		dst = append(dst, c.skip()...)
	}
	return dst
}
