package otlp

import (
	"bytes"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var traces = (&tracepb.TracesData{}).ProtoReflect().Descriptor()

// wrap puts a message into a field.
func wrap(field protowire.Number, inner []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), inner)
}

func TestMessages(t *testing.T) {
	attributes := bytes.Repeat([]byte{9<<3 | 2, 0}, 1000) // empty ones of a span
	deep := []byte(nil)
	for range 100 { // an AnyValue in a list in an AnyValue
		deep = wrap(5, wrap(1, deep))
	}
	for name, c := range map[string]struct {
		body []byte
		want int
	}{
		"nothing":         {nil, 0},
		"no protobuf":     {[]byte("\xff\xff"), 0},
		"cut":             {[]byte{1<<3 | 2, 9, 0}, 0},
		"unknown field":   {wrap(77, []byte{1}), 0},
		"empty resources": {bytes.Repeat([]byte{1<<3 | 2, 0}, 7), 7},
		"attributes":      {wrap(1, wrap(2, wrap(2, attributes))), 1003},
		"list of strings": {wrap(1, wrap(1, wrap(3, bytes.Repeat([]byte{3<<3 | 2, 0}, 50)))), 53}, // EntityRef.id_keys
		"too deep":        {wrap(1, wrap(2, wrap(2, wrap(9, wrap(2, deep))))), 11},
	} {
		if got := Messages(c.body, traces, 10); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// What is decoded has no more messages than were counted.
func FuzzMessages(f *testing.F) {
	f.Add(wrap(1, wrap(2, wrap(2, bytes.Repeat([]byte{9<<3 | 2, 0}, 10)))))
	f.Fuzz(func(t *testing.T, b []byte) {
		var in tracepb.TracesData
		if (proto.UnmarshalOptions{RecursionLimit: 50, DiscardUnknown: true}).Unmarshal(b, &in) != nil {
			return
		}
		if have, counted := members(in.ProtoReflect()), Messages(b, traces, 50); have > counted {
			t.Fatalf("%d messages, %d counted", have, counted)
		}
	})
}

func members(m protoreflect.Message) (n int) {
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.IsList():
			n += v.List().Len()
			for i := 0; d.Message() != nil && i < v.List().Len(); i++ {
				n += members(v.List().Get(i).Message())
			}
		case d.Message() != nil:
			n += 1 + members(v.Message())
		}
		return true
	})
	return n
}
