package relay

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
	"github.com/pinta-ai/pinta-agent/internal/otlp"
	"github.com/pinta-ai/pinta-agent/sync/spool"
)

// What the intake takes from anybody can be encoded, and is the same when read
// again.
func FuzzDecodeJSON(f *testing.F) {
	f.Add([]byte(hookSpan(1, kv("pinta.user.name", "x"), kv("a", "b"))))
	f.Add([]byte(`{"resourceSpans":[null,{"scopeSpans":[{},{"spans":[{"traceId":"","spanId":null}]}]}]}`))
	f.Add([]byte(`{"resourceSpans":[{"resource":{"attributes":[{"key":"\ud800","value":{"kvlistValue":{"values":[{"key":"k","value":{"arrayValue":{"values":[{"doubleValue":"NaN"},{"bytesValue":"AA=="}]}}}]}}}]}}]}`))
	s, err := spool.Open(f.TempDir(), spool.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	r := New(Options{Spool: s, Identity: identityOf})
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := decodeJSON(b)
		if err != nil {
			return
		}
		if _, _, err := r.take(serve.Peer{UID: 1000}, in); err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeProto(raw)
		if err != nil || !proto.Equal(in, again) {
			t.Fatalf("%v\n%v\n%v", err, in, again)
		}
	})
}

func FuzzMend(f *testing.F) {
	f.Add([]byte(`{"a":"\ud83d\ude00 \ud83d \\ud83d \ude00"}`))
	f.Add([]byte("\"\xff\\"))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, changed := mend(b)
		if !changed && string(out) != string(b) {
			t.Fatalf("%q became %q", b, out)
		}
		if json.Valid(b) && !json.Valid(out) || !utf8.Valid(out) {
			t.Fatalf("%q became %q", b, out)
		}
		var v any
		if json.Unmarshal(out, &v) == nil {
			if again, changed := mend(out); changed {
				t.Fatalf("%q is mended again to %q", out, again)
			}
		}
	})
}

func FuzzPartial(f *testing.F) {
	f.Add(otlp.Answer{Rejected: 3, Message: "x"}.Proto(), true)
	f.Add(otlp.Answer{Rejected: 3, Message: "x"}.JSON(), false)
	f.Fuzz(func(t *testing.T, b []byte, pb bool) {
		typ := typeJSON
		if pb {
			typ = typeProto
		}
		_ = otlp.ReadAnswer(typ, b)
	})
}
