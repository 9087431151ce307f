package manager

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/otlp"
	"github.com/pinta-ai/pinta-agent/internal/settings"
	"github.com/pinta-ai/pinta-agent/internal/version"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

const (
	// outboxBytes bounds what waits for the collector; the oldest is dropped and logged beyond.
	outboxBytes = 1 << 30
	forwardTime = 30 * time.Second
	forwardMost = 5 * time.Minute // between two tries
)

// forwarder hands batches on to a collector. They are written with their events, so a restart loses none; only the one in
// flight may be sent twice, with the same span ids.
type forwarder struct {
	m      *Manager
	client *http.Client
	err    error
}

func newForwarder(m *Manager) *forwarder {
	client, err := settings.Network{}.HTTPClient()
	return &forwarder{m: m, client: client, err: err}
}

// put queues a batch in the transaction that takes it.
func (f *forwarder) put(tx store.Tx, id string, raw []byte) error {
	z, err := packed(raw)
	if err != nil {
		return err
	}
	size, err := add(tx, counterOutbox, int64(len(z)))
	if err != nil {
		return err
	}
	var drop []string
	if size > outboxBytes {
		for key, old := range tx.Scan(string(outbox), store.Range{}) {
			drop, size = append(drop, key), size-int64(len(old))
			if size <= outboxBytes {
				break
			}
		}
		f.m.opt.Log.Warn("the collector takes too little: oldest batches dropped", "batches", len(drop))
	}
	for _, key := range drop {
		if err := tx.Delete(string(outbox), key); err != nil {
			return err
		}
	}
	if err := counters.Put(tx, counterOutbox, size); err != nil {
		return err
	}
	tx.Notify(topicOutbox)
	return tx.Put(string(outbox), id, z)
}

func packed(raw []byte) ([]byte, error) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	err := w.Close()
	return z.Bytes(), err
}

// run sends the oldest first, one at a time, until ctx ends.
func (f *forwarder) run(ctx context.Context) {
	if f.err != nil {
		f.m.opt.Log.Error("forward", "err", f.err)
		return
	}
	more, stop := f.m.store.Watch(tenant, topicOutbox)
	defer stop()
	for delay := time.Duration(0); ; {
		sent, wait, err := f.one(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			delay = min(forwardMost, max(time.Second, 2*delay))
			f.m.opt.Log.Warn("forward", "err", err, "again", delay)
			if !pause(ctx, max(wait, rand.N(delay)+delay/2)) {
				return
			}
		case sent:
			delay = 0
		default:
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// one sends the oldest batch. wait is what the collector asks for.
func (f *forwarder) one(ctx context.Context) (sent bool, wait time.Duration, err error) {
	var key string
	var body []byte
	err = f.m.view(ctx, func(tx store.Tx) error {
		for k, v := range tx.Scan(string(outbox), store.Range{}) {
			key, body = k, bytes.Clone(v)
			break
		}
		return nil
	})
	if err != nil || key == "" {
		return false, 0, err
	}
	tooLarge, wait, err := f.send(ctx, body)
	if err != nil {
		return false, wait, err
	}
	var parts [][]byte
	if tooLarge {
		if parts, err = halves(body); err != nil || parts == nil {
			f.m.opt.Log.Warn("a span is too large for the collector, and dropped", "bytes", len(body), "err", err)
		}
	}
	return true, 0, f.m.update(ctx, func(tx store.Tx) error {
		if _, err := tx.Get(string(outbox), key); errors.Is(err, store.ErrNotFound) {
			return nil // dropped meanwhile
		}
		size := -int64(len(body))
		for i, part := range parts {
			size += int64(len(part))
			if err := tx.Put(string(outbox), fmt.Sprint(key, ".", i), part); err != nil { // in its place
				return err
			}
		}
		if _, err := add(tx, counterOutbox, size); err != nil {
			return err
		}
		return tx.Delete(string(outbox), key)
	})
}

// halves are a batch in two, packed; none if it is of one span.
func halves(body []byte) (parts [][]byte, err error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	var in trace.TracesData
	if err := (proto.UnmarshalOptions{RecursionLimit: maxNesting}).Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	first, second, ok := otlp.Halves(&in)
	if !ok {
		return nil, nil
	}
	for _, half := range []*trace.TracesData{first, second} {
		raw, err := proto.Marshal(half)
		if err != nil {
			return nil, err
		}
		part, err := packed(raw)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// send delivers a batch. What the collector will never take counts as sent, with a line in the log; a batch that is too
// large is to be parted.
func (f *forwarder) send(ctx context.Context, body []byte) (tooLarge bool, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.m.opt.Forward, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "gzip")
	r.Header.Set("User-Agent", "pinta-manager/"+version.Version)
	res, err := f.client.Do(r)
	if err != nil {
		return false, 0, err
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // whole, so that the connection can be used again
	switch status := otlp.Status(res.StatusCode, text); {
	case status == http.StatusRequestEntityTooLarge:
		return true, 0, nil
	case status == http.StatusBadRequest, status == http.StatusUnsupportedMediaType, status == http.StatusUnprocessableEntity:
		f.m.opt.Log.Warn("the collector refuses a batch for good", "status", status)
		return false, 0, nil
	case status/100 == 2:
		if answer := otlp.ReadAnswer(res.Header.Get("Content-Type"), text); answer.Rejected > 0 {
			f.m.opt.Log.Warn("the collector refuses spans of a batch for good", "spans", answer.Rejected, "message", fmt.Sprintf("%.200q", answer.Message))
		}
		return false, 0, nil
	}
	wait = min(time.Duration(api.RetryAfter(res.Header.Get("Retry-After"), f.m.opt.Now()))*time.Second, forwardMost)
	return false, wait, fmt.Errorf("collector answers %d", res.StatusCode)
}
