package manager

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/otlp"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

const (
	// maxUnpacked bounds a batch after gzip, in bytes.
	maxUnpacked = 32 << 20
	// maxNesting bounds protobuf messages in messages: an AnyValue may hold lists of itself.
	maxNesting = 64
	// batchMemory is how long a batch id is known; a spool keeps no span longer.
	batchMemory = 14 * 24 * time.Hour
)

// ExportTraces implements POST /device/v1/traces: a batch and its id are written in one transaction, so it is there exactly
// once however often it is sent.
func (s deviceSurface) ExportTraces(w http.ResponseWriter, r *http.Request, c deviceCaller, params api.ExportTracesParams) {
	s.gates.traces.gated(w, r, func() { s.export(w, r, c, params.PintaBatchID) })
}

func (s deviceSurface) export(w http.ResponseWriter, r *http.Request, c deviceCaller, batch string) {
	raw, p := unpack(r)
	if p != nil {
		p.Write(w)
		return
	}
	// TracesData has the wire form of ExportTraceServiceRequest, whose package would bring gRPC along.
	var in trace.TracesData
	if otlp.Messages(raw, in.ProtoReflect().Descriptor(), maxNesting) > otlp.MaxMessages { // its sender halves the batch
		api.NewProblem(api.ProblemCodeTooLarge, fmt.Sprintf("at most %d attributes and values", otlp.MaxMessages)).Write(w)
		return
	}
	if err := (proto.UnmarshalOptions{RecursionLimit: maxNesting}).Unmarshal(raw, &in); err != nil {
		api.NewProblem(api.ProblemCodeMalformed, "the body is no ExportTraceServiceRequest").Write(w)
		return
	}
	now := s.opt.Now().UTC()
	list := s.eventsOf(&in, c, now)
	key := c.id + "/" + batch
	err := s.update(r.Context(), func(tx store.Tx) error {
		if _, err := batches.Get(tx, key); !errors.Is(err, store.ErrNotFound) {
			return err // nil: it is there already
		}
		if err := errors.Join(batches.Put(tx, key, now), batchTimes.Put(tx, s.ids.next(), key)); err != nil {
			return err
		}
		var size int64
		for i := range list {
			list[i].ID = s.ids.next()
			text, err := json.Marshal(list[i])
			if err != nil {
				return fmt.Errorf("encode event: %w", err)
			}
			size += int64(len(text))
			if err := tx.Put(string(events), list[i].ID, text); err != nil {
				return err
			}
		}
		tx.Notify(topicEvents)
		if _, err := add(tx, counterEvents, size); err != nil {
			return err
		}
		if s.forwarder == nil {
			return nil
		}
		return s.forwarder.put(tx, s.ids.next(), raw)
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	// A response without a partial success is an empty message, that is no byte at all.
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(http.StatusOK)
}

// unpack undoes the content encoding.
func unpack(r *http.Request) ([]byte, *api.Problem) {
	var in io.Reader = r.Body
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, api.NewProblem(api.ProblemCodeMalformed, "the body is no gzip")
		}
		in = z
	default:
		return nil, api.NewProblem(api.ProblemCodeUnsupportedMediaType, "the content encoding has to be gzip or none")
	}
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(in, maxUnpacked+1))
	switch {
	case err != nil:
		return nil, api.NewProblem(api.ProblemCodeMalformed, "the body is damaged gzip")
	case n > maxUnpacked:
		return nil, api.NewProblem(api.ProblemCodeTooLarge, fmt.Sprintf("at most %d bytes unpacked", maxUnpacked))
	}
	return out.Bytes(), nil
}

// eventsOf gives each span of a request the one shape of an event. Which device and group it is, the JWT says, whatever the
// resource claims.
func (s deviceSurface) eventsOf(in *trace.TracesData, c deviceCaller, now time.Time) []api.Event {
	var list []api.Event
	for _, rs := range in.GetResourceSpans() {
		resource := map[string]string{}
		gather(resource, rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			for _, span := range ss.GetSpans() {
				e := s.event(span, resource)
				e.ReceivedAt, e.DeviceID, e.Group = now, c.id, c.group
				list = append(list, e)
			}
		}
	}
	return list
}

// event reads a span. Hosts and registrations spell the same things differently; the first spelling that is there counts.
func (s deviceSurface) event(span *trace.Span, resource map[string]string) api.Event {
	a := make(map[string]string, len(resource)+len(span.GetAttributes()))
	gather(a, span.GetAttributes())
	get := func(names ...string) string {
		for _, n := range names {
			for _, prefix := range []string{"copilot.", "copilot.payload.", ""} {
				if v := a[prefix+n]; v != "" {
					return v
				}
			}
		}
		return ""
	}
	e := api.Event{
		At: time.Unix(0, int64(span.GetStartTimeUnixNano())).UTC(), Name: span.GetName(),
		TraceID: hex.EncodeToString(span.GetTraceId()), SpanID: hex.EncodeToString(span.GetSpanId()),
		User: resource["pinta.user.name"], Host: resource["host.name"],
		Hook: get("hook"), Surface: get("surface"), Session: get("session_id", "sessionId"), Model: get("model"),
		Agent:    get("agent_id", "agentId", "agent_name", "agentName", "agent_display_name", "agentDisplayName"),
		HostTool: get("tool_name", "toolName"), Input: get("tool_input", "toolArgs", "toolInput"), Output: output(get),
		Decision: a["pinta.guard.decision"], Rule: a["pinta.guard.matched_rule"], EvaluationID: a["pinta.guard.evaluation_id"],
		Target: a["pinta.guard.target"], FailOpen: a["pinta.guard.fail_open_reason"],
	}
	set(&e.User, a["pinta.user.name"])
	set(&e.User, resource["process.owner"])
	e.Kind = kindOf(e.Hook)
	if e.HostTool != "" {
		e.Tool = s.opt.Policies.CanonicalTool(e.HostTool)
	}
	for k, v := range resource {
		if _, taken := a[k]; !taken {
			a[k] = v
		}
	}
	e.Attributes = a
	return e
}

// output is what a tool gave back: text as it is, a result object by its text for the model.
func output(get func(...string) string) string {
	v := get("tool_response", "tool_result", "toolResult")
	if !strings.HasPrefix(v, "{") {
		return v
	}
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(v), &o) != nil {
		return v
	}
	for _, k := range []string{"text_result_for_llm", "textResultForLlm"} {
		var text string
		if json.Unmarshal(o[k], &text) == nil && text != "" {
			return text
		}
	}
	return v
}

// kindOf is the lower-case kind of a hook (hook.md 2.2).
func kindOf(hook string) string {
	switch k := strings.ToLower(hook); k {
	case "userpromptsubmitted":
		return "userpromptsubmit"
	case "agentstop":
		return "stop"
	default:
		return k
	}
}

// gather flattens attributes to text.
func gather(into map[string]string, list []*common.KeyValue) {
	for _, kv := range list {
		into[kv.GetKey()] = flat(kv.GetValue())
	}
}

// flat is a value's text; of a list or a map its JSON.
func flat(v *common.AnyValue) string {
	switch v := plain(v).(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	default: // made once for all levels: text in text would double with each
		text, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return string(text)
	}
}

// plain is a value that JSON has a form for.
func plain(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return strings.ToValidUTF8(v.StringValue, "\ufffd")
	case *common.AnyValue_BoolValue:
		return v.BoolValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_DoubleValue:
		if math.IsNaN(v.DoubleValue) || math.IsInf(v.DoubleValue, 0) {
			return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
		}
		return v.DoubleValue
	case *common.AnyValue_BytesValue:
		return hex.EncodeToString(v.BytesValue)
	case *common.AnyValue_ArrayValue:
		list := make([]any, 0, len(v.ArrayValue.GetValues()))
		for _, x := range v.ArrayValue.GetValues() {
			list = append(list, plain(x))
		}
		return list
	case *common.AnyValue_KvlistValue:
		m := map[string]any{}
		for _, kv := range v.KvlistValue.GetValues() {
			m[kv.GetKey()] = plain(kv.GetValue())
		}
		return m
	}
	return nil
}
