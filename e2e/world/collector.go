package world

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Span is one received span with its attributes, the resource's included.
type Span struct {
	ID, Trace  string
	Name       string
	Attributes map[string]string
}

// Collector is a small OTLP/HTTP collector (protobuf) on loopback that keeps what it
// gets.
type Collector struct {
	mu    sync.Mutex
	spans []Span
	http  *http.Server
	URL   string // of its OTLP/HTTP traces endpoint
}

// StartCollector starts a collector, which Close ends.
func StartCollector() (*Collector, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the collector: %w", err)
	}
	c := &Collector{URL: "http://" + l.Addr().String() + "/v1/traces"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", c.receive)
	c.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go c.http.Serve(l)
	return c, nil
}

// Close ends the collector.
func (c *Collector) Close() { c.http.Close() }

func (c *Collector) receive(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = http.MaxBytesReader(w, r.Body, 16<<20)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = io.LimitReader(unzipped, 64<<20)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// TracesData has the wire form of an export request, without linking gRPC.
	var request tracepb.TracesData
	if err := proto.Unmarshal(data, &request); err != nil {
		http.Error(w, "want OTLP protobuf: "+err.Error(), http.StatusBadRequest)
		return
	}
	c.keep(request.GetResourceSpans())
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *Collector) keep(resources []*tracepb.ResourceSpans) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range resources {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				kept := Span{ID: fmt.Sprintf("%x", s.GetSpanId()), Trace: fmt.Sprintf("%x", s.GetTraceId()), Name: s.GetName(), Attributes: map[string]string{}}
				addAttributes(kept.Attributes, resource.GetResource().GetAttributes())
				addAttributes(kept.Attributes, s.GetAttributes())
				c.spans = append(c.spans, kept)
			}
		}
	}
}

func addAttributes(to map[string]string, list []*commonpb.KeyValue) {
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			to[kv.GetKey()] = v.StringValue
		case nil:
		default:
			to[kv.GetKey()] = protojson.Format(kv.GetValue())
		}
	}
}

// Received returns the spans so far.
func (c *Collector) Received() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}
