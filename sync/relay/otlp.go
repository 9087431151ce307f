package relay

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"unicode/utf8"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
	"github.com/pinta-ai/pinta-agent/internal/otlp"
)

// The collector's request message is not used: its package links gRPC.
// TracesData is the same on the wire.

// maxDepth bounds the nesting of a body before a recursive parser sees it.
const maxDepth = 100

func checkDepth(b []byte) error {
	if !rawjson.Depth(b, maxDepth) {
		return fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	return nil
}

func decodeProto(b []byte) (*tracepb.TracesData, error) {
	in := &tracepb.TracesData{}
	if otlp.Messages(b, in.ProtoReflect().Descriptor(), maxDepth) > otlp.MaxMessages {
		return nil, errTooMany
	}
	if err := (proto.UnmarshalOptions{RecursionLimit: maxDepth, DiscardUnknown: true}).Unmarshal(b, in); err != nil {
		return nil, err
	}
	return in, nil
}

// decodeJSON reads OTLP/JSON: 64-bit integers as strings or numbers, ids in
// hex. What Node's JSON.stringify makes of half a surrogate pair is accepted.
func decodeJSON(b []byte) (*tracepb.TracesData, error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if err := checkDepth(b); err != nil {
		return nil, err
	}
	if objects(b) > otlp.MaxMessages {
		return nil, errTooMany
	}
	in := &tracepb.TracesData{}
	o := protojson.UnmarshalOptions{DiscardUnknown: true}
	if err := o.Unmarshal(b, in); err != nil {
		mended, changed := mend(b)
		if !changed || o.Unmarshal(mended, in) != nil {
			return nil, err
		}
	}
	for _, rs := range in.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				s.TraceId, s.SpanId, s.ParentSpanId = unhex(s.TraceId), unhex(s.SpanId), unhex(s.ParentSpanId)
				for _, l := range s.GetLinks() {
					l.TraceId, l.SpanId = unhex(l.TraceId), unhex(l.SpanId)
				}
			}
		}
	}
	return in, nil
}

// objects counts those of a JSON text, each of which becomes a message.
func objects(b []byte) (n int) {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{':
			n++
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		}
	}
	return n
}

// unhex undoes what protojson does to an id: it takes the hex digits for base64.
// Nil if they weren't hex.
func unhex(b []byte) []byte {
	id, err := hex.DecodeString(base64.StdEncoding.EncodeToString(b))
	if err != nil {
		return nil
	}
	return id
}

// mend replaces escapes of lone surrogates and invalid UTF-8 by U+FFFD.
func mend(b []byte) (out []byte, changed bool) {
	if !utf8.Valid(b) {
		b, changed = bytes.ToValidUTF8(b, []byte("\ufffd")), true
	}
	for i := 0; i < len(b); {
		if b[i] != '\\' || i+1 >= len(b) {
			out = append(out, b[i])
			i++
			continue
		}
		u := surrogate(b[i:])
		switch {
		case u >= 0xdc00, u >= 0xd800 && surrogate(b[min(i+6, len(b)):]) < 0xdc00:
			out, changed = append(out, `\ufffd`...), true
			i += 6
		case u >= 0xd800:
			out = append(out, b[i:i+12]...)
			i += 12
		default:
			out = append(out, b[i:i+2]...)
			i += 2
		}
	}
	return out, changed
}

// surrogate returns the code unit of an escape at the start of b if it is half
// of a pair, else 0.
func surrogate(b []byte) uint64 {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	u, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil || u < 0xd800 || u > 0xdfff {
		return 0
	}
	return u
}

// encodeBatch is an ExportTraceServiceRequest of records, each an encoded
// ResourceSpans: the same records give the same bytes.
func encodeBatch(records [][]byte) []byte {
	n := 0
	for _, r := range records {
		n += protowire.SizeTag(1) + protowire.SizeBytes(len(r))
	}
	b := make([]byte, 0, n)
	for _, r := range records {
		b = protowire.AppendTag(b, 1, protowire.BytesType)
		b = protowire.AppendBytes(b, r)
	}
	return b
}
