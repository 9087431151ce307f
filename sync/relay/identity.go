package relay

import (
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// identify replaces each claim of an identity, wherever it stands, by the
// kernel's view on the resource (manager.md 5). It returns how many claims said
// something else than the truth; the hook's honest host.name is no false claim.
func identify(rs *tracepb.ResourceSpans, id Identity) (falsehoods int) {
	truth := []struct{ key, value string }{
		{"pinta.device.id", id.DeviceID},
		{"pinta.device.group", id.Group},
		{"pinta.user.name", id.User},
		{"host.name", id.Host},
		{"os.type", osType(id)},
	}
	strip := func(attrs []*commonpb.KeyValue) []*commonpb.KeyValue {
		return slices.DeleteFunc(attrs, func(a *commonpb.KeyValue) bool {
			if !isIdentity(a.GetKey()) {
				return false
			}
			for _, t := range truth {
				if t.key == a.GetKey() && t.value == a.GetValue().GetStringValue() {
					return true
				}
			}
			falsehoods++
			return true
		})
	}
	if rs.Resource == nil {
		rs.Resource = &resourcepb.Resource{}
	}
	rs.Resource.Attributes = strip(rs.Resource.Attributes)
	for _, ss := range rs.ScopeSpans {
		if ss.GetScope() != nil {
			ss.Scope.Attributes = strip(ss.Scope.Attributes)
		}
		for _, s := range ss.GetSpans() {
			s.Attributes = strip(s.Attributes)
			for _, e := range s.GetEvents() {
				e.Attributes = strip(e.GetAttributes())
			}
			for _, l := range s.GetLinks() {
				l.Attributes = strip(l.GetAttributes())
			}
		}
	}
	for _, t := range truth {
		if t.value != "" {
			rs.Resource.Attributes = append(rs.Resource.Attributes, stringAttr(t.key, t.value))
		}
	}
	return falsehoods
}

func isIdentity(key string) bool {
	return key == "host.name" || key == "os.type" || strings.HasPrefix(key, "pinta.device.") || strings.HasPrefix(key, "pinta.user.")
}

func stringAttr(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}
