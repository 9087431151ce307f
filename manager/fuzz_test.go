package manager

import (
	"encoding/json"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// FuzzTraces: whatever a device sends becomes events that the store can hold, or a refusal.
func FuzzTraces(f *testing.F) {
	raw, err := proto.Marshal(span("copilot.pre_tool_use", time.Unix(1, 0), attr("copilot.hook", "PreToolUse"), attr("copilot.tool_result", `{"textResultForLlm":"x"}`)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{0x0a, 0x00})
	s := deviceSurface{&Manager{opt: Options{Policies: Guard{}}}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var in trace.TracesData
		if (proto.UnmarshalOptions{RecursionLimit: maxNesting}).Unmarshal(raw, &in) != nil {
			return
		}
		for _, e := range s.eventsOf(&in, deviceCaller{id: "d", group: "g"}, time.Unix(1, 0)) {
			if e.DeviceID != "d" || e.Group != "g" {
				t.Fatal("an event of somebody else")
			}
			if _, err := json.Marshal(e); err != nil {
				t.Fatal(err)
			}
		}
	})
}
