package hook

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/redact"
	"github.com/pinta-ai/pinta-agent/hook/span"
)

// BenchmarkStages shows where the time of a 1 MiB payload goes.
func BenchmarkStages(b *testing.B) {
	for _, c := range []struct {
		name    string
		payload string
	}{
		{"text", `{"hook_event_name":"PostToolUse","session_id":"s","tool_name":"Bash","tool_input":{"command":"cat x"},"tool_result":{"result_type":"success","text_result_for_llm":"` +
			strings.Repeat("lorem ipsum dolor sit amet ", 1<<20/27) + `"}}`},
		{"escaped", `{"hook_event_name":"PostToolUse","session_id":"s","tool_name":"Bash","tool_input":{"command":"cat x"},"tool_result":{"result_type":"success","text_result_for_llm":"` +
			strings.Repeat(`{\"key\": \"value\\n\", \"n\": 1},\n`, 1<<20/32) + `"}}`},
	} {
		raw := []byte(c.payload)
		e, err := event.Parse(raw, "")
		if err != nil {
			b.Fatal(err)
		}
		fresh := func() *span.Span { return span.New(e, event.CLI, span.Model{}, time.Now()) }
		s := fresh()
		bench := func(stage string, f func()) {
			b.Run(c.name+"/"+stage, func(b *testing.B) {
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
		bench("read", func() { _, _ = event.NewInput(&onceSource{data: raw}, time.Now).Object() })
		bench("parse", func() { _, _ = event.Parse(raw, "") })
		bench("span", func() { fresh() })
		bench("judged", func() { s.Judged() })
		bench("question", func() { s.Question(4 << 20) })
		bench("redact", func() { f := fresh(); f.Redact(redact.NewMasker(nil)) })
		bench("fit", func() { f := fresh(); f.Fit() })
	}
}

type onceSource struct{ data []byte }

func (s *onceSource) Read(p []byte, _ time.Duration) (int, error) {
	n := copy(p, s.data)
	s.data = s.data[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
