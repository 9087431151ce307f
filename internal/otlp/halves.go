package otlp

import tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

// Halves parts the spans of a body into two bodies, in their order, each span with
// the resource and scope that it has; not ok if there is only one, or none.
func Halves(in *tracepb.TracesData) (first, second *tracepb.TracesData, ok bool) {
	n := 0
	for _, rs := range in.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			n += len(ss.GetSpans())
		}
	}
	if n < 2 {
		return nil, nil, false
	}
	return part(in, 0, n/2), part(in, n/2, n), true
}

// part is a body of the spans from one number up to another.
func part(in *tracepb.TracesData, from, to int) *tracepb.TracesData {
	out := &tracepb.TracesData{}
	at := 0
	for _, rs := range in.GetResourceSpans() {
		resource := &tracepb.ResourceSpans{Resource: rs.GetResource(), SchemaUrl: rs.GetSchemaUrl()}
		for _, ss := range rs.GetScopeSpans() {
			spans := ss.GetSpans()
			begin, end := max(0, min(from-at, len(spans))), max(0, min(to-at, len(spans)))
			at += len(spans)
			if begin < end {
				resource.ScopeSpans = append(resource.ScopeSpans, &tracepb.ScopeSpans{Scope: ss.GetScope(), SchemaUrl: ss.GetSchemaUrl(), Spans: spans[begin:end]})
			}
		}
		if len(resource.ScopeSpans) > 0 {
			out.ResourceSpans = append(out.ResourceSpans, resource)
		}
	}
	return out
}
