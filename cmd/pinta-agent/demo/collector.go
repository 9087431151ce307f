package demo

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

// span is one received span with its attributes, the resource's included.
type span struct {
	ID         string
	Name       string
	Attributes map[string]string
}

// collector is a small OTLP/HTTP collector (protobuf) on loopback that keeps what it
// gets.
type collector struct {
	mu    sync.Mutex
	spans []span
	http  *http.Server
	url   string
}

func startCollector() (*collector, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the collector: %w", err)
	}
	c := &collector{url: "http://" + l.Addr().String() + "/v1/traces"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", c.receive)
	c.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go c.http.Serve(l) //nolint:errcheck // ends with close
	return c, nil
}

func (c *collector) close() { c.http.Close() }

func (c *collector) receive(w http.ResponseWriter, r *http.Request) {
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

func (c *collector) keep(resources []*tracepb.ResourceSpans) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range resources {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				kept := span{ID: fmt.Sprintf("%x", s.GetSpanId()), Name: s.GetName(), Attributes: map[string]string{}}
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

// received returns the spans so far.
func (c *collector) received() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]span(nil), c.spans...)
}
