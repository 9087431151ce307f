package otlp

import (
	"fmt"
	"strings"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// TestHalves: parted until no body can be parted, spans keep their order, scope and
// resource.
func TestHalves(t *testing.T) {
	in := &tracepb.TracesData{}
	want := ""
	n := 0
	for r, scopes := range [][]int{{3, 0, 2}, {}, {1}, {0}, {7, 1}} {
		rs := &tracepb.ResourceSpans{SchemaUrl: fmt.Sprint("r", r)}
		for s, spans := range scopes {
			ss := &tracepb.ScopeSpans{Scope: &commonpb.InstrumentationScope{Name: fmt.Sprint("s", s)}}
			for range spans {
				ss.Spans = append(ss.Spans, &tracepb.Span{Name: fmt.Sprint(n)})
				want += fmt.Sprintf("r%d/s%d/%d ", r, s, n)
				n++
			}
			rs.ScopeSpans = append(rs.ScopeSpans, ss)
		}
		in.ResourceSpans = append(in.ResourceSpans, rs)
	}
	var got strings.Builder
	bodies := 0
	var parted func(*tracepb.TracesData)
	parted = func(in *tracepb.TracesData) {
		if a, b, ok := Halves(in); ok {
			parted(a)
			parted(b)
			return
		}
		bodies++
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					fmt.Fprintf(&got, "%s/%s/%s ", rs.SchemaUrl, ss.Scope.Name, s.Name)
				}
			}
		}
	}
	parted(in)
	if got.String() != want || bodies != n {
		t.Errorf("%d bodies: %s\nwant %d: %s", bodies, got.String(), n, want)
	}
	if _, _, ok := Halves(&tracepb.TracesData{}); ok {
		t.Error("nothing was parted")
	}
}
