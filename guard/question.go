package guard

import "github.com/pinta-ai/pinta-agent/hook/rawjson"

// attribute is one of a span's or resource's: strings as they are quoted,
// numbers and booleans as they stand.
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
					v := c.skip()
					switch kind {
					case "stringValue", "intValue", "doubleValue", "boolValue":
						a.kind, a.value = kind, v
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
