package otlp

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Status is what a receiver's final answer means. The OpenTelemetry Collector says
// 400 to a body over its limit, in the words of Go's http.MaxBytesReader; taken at
// its number, a whole batch would be dropped that only is to be split.
func Status(status int, body []byte) int {
	if status == http.StatusBadRequest && bytes.Contains(bytes.ToLower(body), []byte("request body too large")) {
		return http.StatusRequestEntityTooLarge
	}
	return status
}

// Answer is an ExportTraceServiceResponse: what the receiver will never take. The
// zero value is full success.
type Answer struct {
	Rejected int64
	Message  string
}

type answerJSON struct {
	PartialSuccess *struct {
		RejectedSpans json.RawMessage `json:"rejectedSpans,omitempty"` // a string by the book, a number in practice
		ErrorMessage  string          `json:"errorMessage,omitempty"`
	} `json:"partialSuccess,omitempty"`
}

// Proto is its form in protobuf.
func (a Answer) Proto() []byte {
	if a == (Answer{}) {
		return nil
	}
	var m []byte
	m = protowire.AppendTag(m, 1, protowire.VarintType)
	m = protowire.AppendVarint(m, uint64(a.Rejected))
	m = protowire.AppendTag(m, 2, protowire.BytesType)
	m = protowire.AppendString(m, a.Message)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), m)
}

// JSON is its form in OTLP/JSON.
func (a Answer) JSON() []byte {
	if a == (Answer{}) {
		return []byte("{}")
	}
	b, _ := json.Marshal(map[string]any{"partialSuccess": map[string]any{
		"rejectedSpans": strconv.FormatInt(a.Rejected, 10), "errorMessage": a.Message,
	}})
	return b
}

// ReadAnswer reads the body of an answer of a content type; one that can't be read
// is full success, as the status said so.
func ReadAnswer(contentType string, b []byte) (a Answer) {
	if kind, _, _ := mime.ParseMediaType(contentType); kind == "application/json" {
		var j answerJSON
		if json.Unmarshal(b, &j) == nil && j.PartialSuccess != nil {
			a.Rejected, _ = strconv.ParseInt(string(bytes.Trim(j.PartialSuccess.RejectedSpans, `"`)), 10, 64)
			a.Message = j.PartialSuccess.ErrorMessage
		}
		return a
	}
	_ = fields(b, func(num protowire.Number, varint uint64, body []byte) {
		if num == 1 {
			_ = fields(body, func(num protowire.Number, varint uint64, body []byte) {
				switch num {
				case 1:
					a.Rejected = int64(varint)
				case 2:
					a.Message = string(body)
				}
			})
		}
	})
	return a
}

// fields calls f for each varint and each length-delimited field of a message.
func fields(b []byte, f func(num protowire.Number, varint uint64, body []byte)) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var (
			v    uint64
			body []byte
		)
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			body, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errors.New("truncated field")
		}
		f(num, v, body)
		b = b[n:]
	}
	return nil
}
